"""What a person is told of slips in a flow that do not keep it from ending."""

from __future__ import annotations

from pathlib import Path

from tests.loom_cli.desk import Running


def test_a_syscall_that_is_not_awaited_is_told_once_and_by_its_name(tmp_path: Path) -> None:
    source = "@loom.flow\nasync def hasty(ctx: loom.Context) -> int:\n    ctx.sleep(1)\n    return 1\n"
    config = "app = loom.define_config(flows=[hasty], storage=loom.sqlite_storage())\n"
    (tmp_path / "app.py").write_text(f"import loom\n\n\n{source}\n\n{config}", encoding="utf-8")

    told = Running(tmp_path, "run", "hasty", "--id", "h1").ended().err

    assert [line for line in told.splitlines() if "await" in line] == [
        "warning: sleep of h1 was called and never awaited, so it did not happen: write await"
    ]
