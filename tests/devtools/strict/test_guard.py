"""The guard stops a drive before a body does what only a step may, and leaves everything else alone."""

from __future__ import annotations

import pathlib
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import loom
from loom.core.flow import Flow
from loom.devtools.strict import Strict, UnsafeInFlow
from loom.devtools.testing import virtual_world
from loom.kernel.errors import ReplayDivergence
from loom.spi.memory import MemoryStorage
from tests.devtools.strict import flows_watched as watched


def app_of(flow: Flow[Any, Any], **config: Any) -> loom.LoomApp:
    return loom.define_config(flows=[flow], **{"guard": Strict(), **config})


async def stopped(flow: Flow[Any, Any], **config: Any) -> UnsafeInFlow:
    """Return the error that stops *flow*."""
    async with app_of(flow, **config) as app:
        with pytest.raises(UnsafeInFlow) as caught:
            await app.runtime.start(flow.id, id="run")
    return caught.value


async def test_what_a_body_does_itself_stops_the_drive_with_rule_file_line_and_what_to_write() -> None:
    error = await stopped(watched.hasty)

    assert (error.rule, error.what, error.path) == ("clock", "time.time()", watched.__file__)
    assert linecache_line(error) == 'return await ctx.run(stamped, str(CONFIGURED["clock"]()))'
    assert "ctx.now()" in error.hint
    assert "allow[clock]" in error.hint


def linecache_line(error: UnsafeInFlow) -> str:
    with pathlib.Path(error.path).open(encoding="utf-8") as file:
        return file.read().splitlines()[error.line - 1].strip()


async def test_nothing_wrong_is_recorded_and_the_run_goes_on_once_the_flow_is_mended() -> None:
    storage = MemoryStorage()
    await stopped(watched.hasty, storage=storage)

    async with app_of(watched.mended, storage=storage) as app:
        before = [event.type for event in await app.runtime.events("run")]
        outcome = await app.runtime.resume("run")

    assert before == ["EXECUTION_STARTED", "STEP_STARTED", "STEP_COMPLETED"]
    assert outcome.status == "completed"


async def test_steps_choosers_and_what_loom_does_for_a_flow_are_free() -> None:
    async with app_of(watched.decent) as app:
        outcome = await app.runtime.start("decent")

    assert outcome.status == "completed"


async def test_the_table_of_a_zone_is_free_to_be_read() -> None:
    async with app_of(watched.zoned) as app:
        outcome = await app.runtime.start(watched.zoned)

    assert outcome.result() == "2030-07-01T14:00:00+02:00"


async def test_an_allowance_with_a_reason_on_the_line_silences() -> None:
    async with app_of(watched.excused) as app:
        outcome = await app.runtime.start("excused")

    assert outcome.status == "completed"


async def test_a_body_that_swallows_the_breach_has_done_nothing_after_it() -> None:
    storage = MemoryStorage()

    await stopped(watched.stubborn, storage=storage)

    async with app_of(watched.stubborn, storage=storage) as app:
        assert [event.type for event in await app.runtime.events("run")] == ["EXECUTION_STARTED"]


async def test_branches_are_watched_too() -> None:
    assert (await stopped(watched.branching)).rule == "random"


async def test_a_global_that_the_flow_changes_is_named() -> None:
    error = await stopped(watched.remembering)

    assert (error.rule, error.what) == ("global-mutation", "SEEN")
    assert linecache_line(error) == 'SEEN.append("flow")'


async def test_a_run_that_would_end_otherwise_when_replayed_does_not_end() -> None:
    async with app_of(watched.counting) as app:
        with pytest.raises(ReplayDivergence):
            await app.runtime.start("counting", id="run")

        assert (await app.runtime.load_state("run")).status == "diverged"


async def test_a_run_that_would_ask_otherwise_when_replayed_is_told_when_it_parks() -> None:
    async with app_of(watched.counting_before_it_waits) as app:
        with pytest.raises(ReplayDivergence, match="stamped"):
            await app.runtime.start("counting_before_it_waits", id="run")


async def test_without_the_replay_only_what_is_done_is_watched() -> None:
    async with app_of(watched.counting, guard=Strict(replays=False)) as app:
        assert (await app.runtime.start("counting")).status == "completed"


async def test_nothing_is_left_behind() -> None:
    before = sys.getprofile()

    await stopped(watched.hasty)

    assert sys.getprofile() is before


async def test_an_app_can_be_guarded_afterwards_and_so_in_a_virtual_world() -> None:
    app = loom.define_config(flows=[watched.patient]).guarded(Strict())

    async with virtual_world(app, start=datetime(2026, 1, 1, tzinfo=UTC)) as world:
        await world.runtime.start("patient", id="run")
        with pytest.raises(UnsafeInFlow):
            await world.run_for(timedelta(days=2))
