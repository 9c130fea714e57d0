"""What a person is told of slips in a flow that do not keep it from ending."""

from __future__ import annotations

import re
from pathlib import Path

from loom_cli.exits import ExitCode
from tests.loom_cli.desk import Running


def test_a_run_that_its_driver_let_go_is_said_to_be_driven_by_nobody(desk: Path) -> None:
    source = "import random\n\nimport loom\n\n\n@loom.flow\nasync def draws(ctx: loom.Context) -> float:\n    return random.random()\n"
    config = "\n\napp = loom.define_config(flows=[draws], storage=loom.sqlite_storage())\n"
    (desk / "app.py").write_text(source + config, encoding="utf-8")
    assert Running(desk, "run", "draws", "--id", "d1", "--strict").ended().status == ExitCode.FAILED

    shown = Running(desk, "show", "d1").ended().out

    assert re.search(
        r"^Nobody drives it: process \d+( on \S+)? let it go\. This goes on with it:\n  try   loom resume d1$",
        shown,
        re.MULTILINE,
    )


def test_an_id_in_other_letters_and_the_beginning_of_a_type_are_understood(desk: Path) -> None:
    assert Running(desk, "run", "hello", "--id", "r1").ended().status == ExitCode.DONE

    assert "Did you mean r1?" in Running(desk, "show", "R1").ended().err
    assert "try: --type 'EXECUTION_*'" in Running(desk, "logs", "r1", "--type", "execution").ended().err


def test_a_syscall_that_is_not_awaited_is_told_once_and_by_its_name(tmp_path: Path) -> None:
    source = "@loom.flow\nasync def hasty(ctx: loom.Context) -> int:\n    ctx.sleep(1)\n    return 1\n"
    config = "app = loom.define_config(flows=[hasty], storage=loom.sqlite_storage())\n"
    (tmp_path / "app.py").write_text(f"import loom\n\n\n{source}\n\n{config}", encoding="utf-8")

    told = Running(tmp_path, "run", "hasty", "--id", "h1").ended().err

    assert [line for line in told.splitlines() if "await" in line] == [
        "warning: sleep of h1 was called and never awaited, so it did not happen: write await",
        "  app.py:6: `ctx.sleep(1)` is called and not awaited, so it never runs",
    ]
