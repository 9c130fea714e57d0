"""What `loom show` counts of a long run instead of printing it line by line."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from loom.driving.runtime import WorkflowRuntime
from loom.plugins.sqlite import SqliteStorage
from tests.loom_cli.story import FLOWS
from tests.loom_cli.terminal import loom


def test_a_large_scope_is_counted_and_whole_with_all(tmp_path: Path) -> None:
    async def drive() -> None:
        storage = SqliteStorage(tmp_path / ".loom" / "loom.db")
        await WorkflowRuntime(storage, flows=FLOWS).start("many", 40, id="many-1")
        await storage.close()

    asyncio.run(drive())

    for terminal in (True, False):
        counted = loom("show", "many-1", folder=tmp_path, terminal=terminal).out
        assert "34 more, done (--all shows them)" in counted
        assert counted.count("look") == 6
        assert loom("show", "many-1", "--all", folder=tmp_path, terminal=terminal).out.count("look") == 40


def test_a_loop_of_like_steps_is_counted_and_what_failed_in_it_is_not(tmp_path: Path) -> None:
    async def drive() -> None:
        storage = SqliteStorage(tmp_path / ".loom" / "loom.db")
        await WorkflowRuntime(storage, flows=FLOWS).start("looping", 40, id="loop-1")
        await storage.close()

    asyncio.run(drive())

    shown = loom("show", "loop-1", folder=tmp_path).out
    assert re.findall(r"^  (.*?check.*?)  +", shown, re.MULTILINE) == [
        "\u2713 check",
        "\u2713 check#1",
        "\u2713 check#2",
        "\u2713 check#3 .. check#18",
        "\u2713 check#19",
        "\u2717 check#20",
        "\u2713 check#21",
        "\u2713 check#22",
        "\u2713 check#23",
        "\u2713 check#24 .. check#38",
        "\u2713 check#39",
    ]
    assert "15 more, done (--all shows them)" in shown
    assert loom("show", "loop-1", "--all", folder=tmp_path).out.count("\u2713 check") == 39


def test_a_loop_of_steps_in_turn_is_counted_as_well(tmp_path: Path) -> None:
    async def drive() -> None:
        storage = SqliteStorage(tmp_path / ".loom" / "loom.db")
        await WorkflowRuntime(storage, flows=FLOWS).start("in_turn", 30, id="turn-1")
        await storage.close()

    asyncio.run(drive())

    shown = loom("show", "turn-1", folder=tmp_path).out
    assert re.findall(r"^  (\u2713.*?)  +", shown, re.MULTILINE) == [
        *("\u2713 look", "\u2713 check", "\u2713 look#1", "\u2713 check#1", "\u2713 look#2", "\u2713 check#2"),
        *("\u2713 look#3 .. look#29", "\u2713 check#29"),
    ]
    assert "53 more, done (--all shows them)" in shown
