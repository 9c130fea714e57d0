"""`loom schedules`: the declared ones with their next ticks, and the record of one."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import loom as library
from loom.plugins.sqlite import SqliteStorage
from loom_cli.exits import ExitCode
from tests.loom_cli.terminal import Ended, loom
from tests.services.polling import DAY_0, HOUR, MINUTE, Bench, ask

APP = """
from datetime import timedelta

import loom


@loom.flow
async def report(ctx: loom.Context) -> None: ...


@loom.flow
async def ask(ctx: loom.Context) -> bool:
    return await ctx.suspend("approval", expects=bool)


hourly = loom.schedule("hourly", "@hourly", ask, catch_up=loom.CatchUp.all(2), overlap="skip")
early = loom.schedule(
    "early",
    "30 2 * * *",
    report,
    tz="America/New_York",
    catch_up=loom.CatchUp.skip(),
    jitter=timedelta(minutes=10),
)

app = loom.define_config(flows=[report, ask], schedules=[hourly, early], storage=loom.sqlite_storage())
"""
NOW = DAY_0 + 6 * HOUR + 3 * MINUTE
GOLDEN = Path(__file__).parent / "golden"
Run = Callable[..., Ended]


@pytest.fixture
def run(desk: Path) -> Run:
    """Run a command in the folder of an app with two schedules."""
    (desk / "app.py").write_text(APP, encoding="utf-8")
    return lambda *arguments: loom(*arguments, folder=desk, now_ms=NOW)


@pytest.fixture
def polled(run: Run, desk: Path) -> Run:
    """The same, once its hourly schedule was polled for an hour, was off for four, and was polled again."""

    async def poll() -> None:
        hourly = library.schedule("hourly", "@hourly", ask, catch_up=library.CatchUp.all(2), overlap="skip")
        bench = Bench(hourly, storage=SqliteStorage(desk / ".loom" / "loom.db"))
        await bench.poll_until(bench.poller(), DAY_0 + HOUR + MINUTE)
        bench.clock.advance(4 * HOUR)
        await bench.runtime.resume("hourly-20261130T010000Z", answer=True)
        await bench.poll_until(bench.poller(), DAY_0 + 6 * HOUR)
        await bench.runtime.close()

    asyncio.run(poll())
    return run


@pytest.mark.proves("AUT-09", "AUT-10")
def test_schedules_are_listed_with_their_next_tick_on_the_clock_of_their_zone(run: Run) -> None:
    shown = run("schedules")

    assert (shown.status, shown.err) == (ExitCode.DONE, "")
    assert shown.out == (
        "ID      FLOW    CRON        ZONE              NEXT                        IN\n"
        "early   report  30 2 * * *  America/New_York  2026-11-30 02:30-05:00   in 1h\n"
        "hourly  ask     0 * * * *   UTC               2026-11-30 07:00+00:00  in 57m\n"
    )


@pytest.mark.proves("AUT-09")
def test_one_is_shown_with_what_it_started_and_what_it_skipped_and_why(polled: Run) -> None:
    shown = polled("schedules", "hourly", "--next", "2")

    assert (shown.status, shown.err) == (ExitCode.DONE, "")
    assert shown.out == (
        "hourly  ask  0 * * * *  UTC\n"
        "  catch-up  all, up to 2\n"
        "  overlap   skip\n"
        "  jitter    none\n"
        "\n"
        "  2026-11-30 07:00+00:00  in 57m  hourly-20261130T070000Z\n"
        "  2026-11-30 08:00+00:00  in 2h   hourly-20261130T080000Z\n"
        "\n"
        "  TICK                                              BECAME     EXECUTION OR REASON\n"
        "  2026-11-30 06:00+00:00                            skipped    overlap\n"
        "  2026-11-30 05:00+00:00                            skipped    overlap\n"
        "  2026-11-30 04:00+00:00                            started    hourly-20261130T040000Z\n"
        "  2026-11-30 02:00+00:00 to 2026-11-30 03:00+00:00  2 skipped  cap\n"
        "  2026-11-30 01:00+00:00                            started    hourly-20261130T010000Z\n"
    )


def test_the_record_is_as_long_as_asked_for(polled: Run) -> None:
    assert len(polled("schedules", "hourly", "--limit", "2", "--json").json["entries"]) == 2
    assert polled("schedules", "hourly", "--next", "0", "--json").json["next"] == []


def test_a_schedule_that_nobody_polled_is_told_and_no_store_is_made(run: Run, desk: Path) -> None:
    shown = run("schedules", "early")

    assert "  jitter    up to 10m\n" in shown.out
    assert shown.err == f"early was not seen by a worker yet, in sqlite:{desk}/.loom/loom.db\n"
    assert not (desk / ".loom").exists()


def test_a_schedule_that_is_not_declared_is_told_with_those_like_it(run: Run) -> None:
    ended = run("schedules", "hourli")

    assert ended.status == ExitCode.NOT_FOUND
    assert ended.err == (
        "error[unknown-flow]: no schedule 'hourli' is registered in this app\ntry: Did you mean hourly?\n"
    )


def test_an_app_without_schedules_is_told_how_to_have_some(desk: Path) -> None:
    ended = loom("schedules", folder=desk)

    assert (ended.status, ended.out) == (ExitCode.DONE, "")
    assert ended.err.startswith("the app declares no schedules\n")
    assert loom("schedules", "--json", folder=desk).json == []


@pytest.mark.parametrize("arguments", [("schedules",), ("schedules", "hourly")], ids=" ".join)
def test_the_json_shapes_are_those_of_the_golden_files_and_are_documented(
    arguments: tuple[str, ...], polled: Run
) -> None:
    told = polled(*arguments, "--json").json
    text = json.dumps(told, indent=2, ensure_ascii=False) + "\n"
    file = GOLDEN / f"{'-'.join(arguments)}.json"
    if os.environ.get("WRITE_GOLDEN"):
        file.write_text(text, encoding="utf-8")

    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
    assert {field for field in fields(told) if f"`{field}`" not in page} == set()


def fields(value: Any) -> set[str]:
    """Return the names of all fields in *value*."""
    if isinstance(value, dict):
        return set(value).union(*(fields(item) for item in value.values()))
    return set().union(*map(fields, value)) if isinstance(value, list) else set()
