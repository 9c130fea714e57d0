"""What the first word of several commands says by itself."""

from __future__ import annotations

from pathlib import Path

from tests.loom_cli.terminal import loom


def test_the_first_word_of_several_commands_lists_them(tmp_path: Path) -> None:
    asked = loom("branch", "--help", folder=tmp_path)
    helped = loom("help", "rows", folder=tmp_path)
    bare = loom("snapshot", folder=tmp_path)
    wrong = loom("branch", "lst", folder=tmp_path)

    assert (asked.status, asked.err) == (0, "")
    assert [line.split("  ")[1].strip() for line in asked.out.splitlines()] == [
        f"loom branch {name}" for name in ("list", "compare", "log")
    ]
    assert "loom rows update" in helped.out
    assert (bare.status, bare.out) == (2, "")
    assert "loom snapshot take" in bare.err
    assert "error[usage]" in bare.err
    assert wrong.err == "error[usage]: there is no command 'branch lst'\ntry: loom branch list\n"
