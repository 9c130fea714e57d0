"""A run that has continued as new is one story in `ps`, `show` and `logs`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import loom
from loom.plugins.sqlite import SqliteStorage
from tests.loom_cli.terminal import Ended
from tests.loom_cli.terminal import loom as command

Run = Callable[..., Ended]


@loom.step
async def lap(n: int) -> int:
    return n


@loom.flow
async def laps(ctx: loom.Context, n: int = 0) -> int:
    await ctx.run(lap, n)
    return n if n == 2 else await ctx.continue_as_new(n + 1)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    async def started() -> None:
        app = loom.define_config(flows=[laps], storage=SqliteStorage(tmp_path / ".loom" / "loom.db"))
        async with app:
            await app.runtime.start(laps, id="laps-1")

    asyncio.run(started())
    return lambda *arguments: command(*arguments, folder=tmp_path)


@pytest.mark.proves("SYS-11")
def test_ps_lists_the_run_once_by_its_last_log(run: Run) -> None:
    rows = json.loads(run("ps", "--json").out)
    links = json.loads(run("ps", "--links", "--json").out)

    assert [(row["id"], row["status"]) for row in rows] == [("laps-1~3", "completed")]
    assert {row["id"] for row in links} == {"laps-1", "laps-1~2", "laps-1~3"}


@pytest.mark.parametrize(
    ("asked", "id", "status", "next_"),
    [
        ("laps-1", "laps-1~3", "completed", None),
        ("laps-1~3", "laps-1~3", "completed", None),
        ("laps-1~2", "laps-1~2", "continued", "laps-1~3"),
    ],
)
def test_show_of_the_run_shows_its_last_log_and_of_a_later_link_that_link(
    run: Run, asked: str, id: str, status: str, next_: str | None
) -> None:
    shown = json.loads(run("show", asked, "--json").out)

    assert (shown["id"], shown["status"], shown["first"], shown["next"]) == (id, status, "laps-1", next_)
    assert f"log {shown['link']} of laps-1, which continues as new" in run("show", asked).out


@pytest.mark.parametrize("how", [(), ("--follow",)])
def test_logs_of_the_run_prints_all_its_logs_in_order(run: Run, how: tuple[str, ...]) -> None:
    events = [json.loads(line) for line in run("logs", "laps-1", *how, "--json").out.splitlines()]

    assert [event["type"] for event in events if event["type"].startswith("EXECUTION_")] == [
        "EXECUTION_STARTED",
        "EXECUTION_CONTINUED",
        "EXECUTION_STARTED",
        "EXECUTION_CONTINUED",
        "EXECUTION_STARTED",
        "EXECUTION_COMPLETED",
    ]


def test_logs_of_a_later_link_prints_that_one(run: Run) -> None:
    lines = run("logs", "laps-1~2").out.splitlines()

    assert (len(lines), "EXECUTION_CONTINUED" in lines[-1], "laps-1~3" in lines[-1]) == (4, True, True)
