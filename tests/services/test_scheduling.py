"""Schedules at work on a virtual clock: each tick once, whoever polls and whoever dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.plugins.sqlite import SqliteStorage
from loom.services.due import QUEUE_POLL_MS
from loom.services.scheduling import (
    FAULT_REST_MS,
    ScheduledStart,
    SchedulesNotKept,
    Scheduling,
    StartResult,
    is_open,
    schedule_store,
)
from tests.services.polling import DAY_0, HOUR, MINUTE, Bench, ask, executions, greet, record, report, told


@pytest.fixture(params=["memory", "sqlite"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    store = loom.MemoryStorage() if request.param == "memory" else SqliteStorage(tmp_path / "loom.db")
    yield store
    await store.close()


def name(hour: int, of: str = "hourly") -> str:
    return f"{of}-20261130T{hour:02}0000Z"


@pytest.mark.proves("AUT-09")
async def test_three_ticks_give_three_executions_one_each(storage: Any) -> None:
    bench = Bench(loom.schedule("hourly", "@hourly", greet, input="ada", attributes={"team": "ops"}), storage=storage)

    calls = await bench.poll_until(bench.poller(), DAY_0 + 3 * HOUR + MINUTE)

    assert await executions(storage) == [name(1), name(2), name(3)]
    assert [call.started for call in calls] == [[], [name(1)], [name(2)], [name(3)]]
    outcome = await bench.runtime.wait(name(2))
    begun = (await bench.runtime.events(name(2)))[0]
    assert (outcome.value, begun.at) == ("hello ada", DAY_0 + 2 * HOUR)
    assert begun.metadata["principal"] == "schedule:hourly"
    assert begun.payload.attributes == {"team": "ops", "schedule": "hourly", "tick": "2026-11-30T02:00:00Z"}


@pytest.mark.proves("AUT-10")
async def test_a_schedule_ticks_on_the_wall_of_its_zone(storage: Any) -> None:
    bench = Bench(loom.schedule("early", "30 2 * * *", report, tz="America/New_York"), storage=storage)

    await bench.poll_until(bench.poller(), DAY_0 + 24 * HOUR)

    assert await executions(storage) == ["early-20261130T073000Z"]


@pytest.mark.proves("AUT-09")
@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        (loom.CatchUp.skip(), [name(1), "10 catch-up", name(12)]),
        (loom.CatchUp.one(), [name(1), "9 catch-up", name(11), name(12)]),
        (loom.CatchUp.all(3), [name(1), "7 cap", name(9), name(10), name(11), name(12)]),
    ],
    ids=str,
)
async def test_an_app_that_was_off_ten_hours_follows_its_policy_and_has_the_rest_on_record(
    storage: Any, catch_up: loom.CatchUp, expected: list[str]
) -> None:
    """Field fault 40: runs missed while the machine was off."""
    bench = Bench(loom.schedule("hourly", "@hourly", report, catch_up=catch_up), storage=storage)
    await bench.poll_until(bench.poller(), DAY_0 + HOUR + 2 * MINUTE)
    bench.clock.advance(10 * HOUR)

    await bench.poll_until(bench.poller(), DAY_0 + 12 * HOUR)

    assert [told(entry) for entry in await record(storage, "hourly")] == expected
    assert await executions(storage) == [each for each in expected if each.startswith("hourly")]


async def test_a_schedule_is_not_fired_for_the_time_before_it_was_seen(storage: Any) -> None:
    bench = Bench(loom.schedule("hourly", "@hourly", report), storage=storage)
    bench.clock.advance(30 * MINUTE)

    ticked = await bench.poller().tick()

    assert (ticked.started, ticked.skipped, ticked.next_at) == ([], 0, DAY_0 + HOUR)


@pytest.mark.proves("RNG-21")
async def test_two_pollers_start_each_of_a_thousand_ticks_once() -> None:
    bench = Bench(loom.schedule("minutely", "* * * * *", report, catch_up=loom.CatchUp.all(1000)))
    begun: list[str] = []

    async def start(start: ScheduledStart) -> StartResult:
        await asyncio.sleep(0)
        if start.execution_id in begun:
            return "already there"
        begun.append(start.execution_id)
        return "started"

    pollers = [bench.poller(lambda _: start) for _ in range(2)]
    for _ in range(251):
        ticked = await asyncio.gather(*(poller.tick() for poller in pollers))
        assert all(each.next_at == bench.clock.now_ms() + MINUTE for each in ticked)
        bench.clock.advance(4 * MINUTE)
        bench.clock.advance(-3 * MINUTE)  # a clock may be set back between two calls
        await asyncio.gather(*(poller.tick() for poller in pollers))
        bench.clock.advance(3 * MINUTE)

    entries = await record(bench.storage, "minutely")
    assert [entry.tick_at for entry in entries] == [DAY_0 + n * MINUTE for n in range(1, 1002)]
    assert [entry.execution_id for entry in entries] == begun


@pytest.mark.proves("RNG-21")
async def test_pollers_on_one_store_start_each_tick_once_in_a_real_runtime(storage: Any) -> None:
    bench = Bench(loom.schedule("minutely", "* * * * *", report), storage=storage)
    pollers = [bench.poller() for _ in range(3)]
    await asyncio.gather(*(poller.tick() for poller in pollers))

    started: list[str] = []
    for _ in range(10):
        bench.clock.advance(MINUTE)
        for ticked in await asyncio.gather(*(poller.tick() for poller in pollers)):
            started += ticked.started

    ids = await executions(storage)
    assert sorted(started) == ids
    assert [entry.execution_id for entry in await record(storage, "minutely")] == ids
    assert len(ids) == 10
    for each in ids:
        assert [event.type for event in await bench.runtime.events(each)].count("EXECUTION_STARTED") == 1


class Killed(BaseException):
    """The process is gone, in the middle of what it did."""


class Mortal:
    """Lets a poller make *calls* calls of its starter and of its store's record, and then kills it before or after one."""

    def __init__(self, bench: Bench, calls: int, *, after: bool) -> None:
        self.left, self.after = calls, after
        self.poller = bench.poller(self.mortal)
        record_ticks = bench.storage.record_ticks
        self.poller._record = _Recording(bench.storage, self.mortal(record_ticks))

    def mortal(self, call: Any) -> Any:
        async def called(*args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left < 0 and not self.after:
                raise Killed
            result = await call(*args, **options)
            if self.left < 0:
                raise Killed
            return result

        return called


class _Recording:
    def __init__(self, store: Any, record_ticks: Any) -> None:
        self.schedule_cursor, self.schedule_entries = store.schedule_cursor, store.schedule_entries
        self.record_ticks = record_ticks


@pytest.mark.proves("AUT-09", "RNG-21")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("catch_up", [loom.CatchUp.skip(), loom.CatchUp.one(), loom.CatchUp.all(3)], ids=str)
async def test_wherever_a_poller_dies_the_record_is_what_happened(catch_up: loom.CatchUp, after: bool) -> None:
    for calls in range(8):
        bench = Bench(loom.schedule("hourly", "@hourly", report, catch_up=catch_up))
        await bench.poller().tick()
        bench.clock.advance(5 * HOUR)

        with pytest.raises(Killed):
            await bench.poll_until(Mortal(bench, calls, after=after).poller, DAY_0 + 12 * HOUR)
        bench.clock.advance(90 * MINUTE)  # the policies say something else by now
        until = bench.clock.now_ms() + 3 * HOUR
        await bench.poll_until(bench.poller(), until)

        entries = await record(bench.storage, "hourly")
        assert [entry.execution_id for entry in entries if entry.execution_id] == await executions(bench.storage)
        assert sum(entry.count for entry in entries) == (until - DAY_0) // HOUR


async def test_a_tick_is_skipped_while_an_earlier_execution_waits_and_starts_once_that_has_ended(storage: Any) -> None:
    bench = Bench(loom.schedule("hourly", "@hourly", ask, overlap="skip"), storage=storage)
    poller = bench.poller()
    await bench.poll_until(poller, DAY_0 + 3 * HOUR)
    await bench.runtime.resume(name(1), answer=True)

    await bench.poll_until(poller, DAY_0 + 4 * HOUR)

    assert [told(entry) for entry in await record(storage, "hourly")] == [name(1), "1 overlap", "1 overlap", name(4)]


async def test_a_tick_waits_for_the_end_of_an_earlier_execution(storage: Any) -> None:
    bench = Bench(loom.schedule("hourly", "@hourly", ask, overlap="queue"), storage=storage)
    poller = bench.poller()
    await bench.poll_until(poller, DAY_0 + 2 * HOUR)
    assert (await poller.tick()).next_at == DAY_0 + 2 * HOUR + QUEUE_POLL_MS
    await bench.runtime.resume(name(1), answer=True)

    await bench.poll_until(poller, DAY_0 + 2 * HOUR + QUEUE_POLL_MS)

    assert await executions(storage) == [name(1), name(2)]
    assert [(told(entry), entry.at) for entry in await record(storage, "hourly")] == [
        (name(1), DAY_0 + HOUR),
        (name(2), DAY_0 + 2 * HOUR + QUEUE_POLL_MS),
    ]


async def test_jitter_delays_a_start_by_what_the_schedule_and_its_tick_say() -> None:
    schedule = loom.schedule("hourly", "@hourly", report, jitter=timedelta(minutes=30))
    bench = Bench(schedule)

    calls = await bench.poll_until(bench.poller(), DAY_0 + 3 * HOUR)

    entries = await record(bench.storage, "hourly")
    assert [entry.execution_id for entry in entries] == [name(1), name(2)]
    assert [entry.at for entry in entries] == [call.next_at for call in calls[:-1]]
    assert all(entry.tick_at < entry.at <= entry.tick_at + 30 * MINUTE for entry in entries)


class Refused(LoomError):
    code = "refused-in-test"


async def test_a_schedule_that_cannot_start_holds_up_no_other_and_is_tried_again() -> None:
    bench = Bench(loom.schedule("bad", "@hourly", report), loom.schedule("good", "@hourly", report))
    broken = True

    async def start(start: ScheduledStart) -> StartResult:
        if broken and start.execution_id.startswith("bad"):
            raise Refused("no")
        return await bench.start(start)

    poller = bench.poller(lambda _: start)
    await poller.tick()
    bench.clock.advance(HOUR)

    failed = await poller.tick()
    broken = False
    bench.clock.advance(FAULT_REST_MS)
    mended = await poller.tick()

    assert (failed.started, list(failed.faults)) == ([name(1, "good")], ["bad"])
    assert failed.next_at == DAY_0 + HOUR + FAULT_REST_MS
    assert (mended.started, mended.faults) == ([name(1, "bad")], {})


async def test_nothing_is_read_before_something_is_due() -> None:
    bench = Bench(loom.schedule("hourly", "@hourly", report), loom.schedule("daily", "@daily", report))
    poller = bench.poller()
    ticked = await poller.tick()
    reads: list[str] = []
    poller._record = _Recording(bench.storage, bench.storage.record_ticks)

    async def cursor(id: str) -> Any:
        reads.append(id)
        return await bench.storage.schedule_cursor(id)

    poller._record.schedule_cursor = cursor
    bench.clock.advance(HOUR - 1)
    again = await poller.tick()
    bench.clock.advance(1)
    await poller.tick()

    assert ticked.next_at == again.next_at == DAY_0 + HOUR
    assert reads == ["hourly"]


async def test_without_schedules_there_is_nothing_to_call_for() -> None:
    assert (await Bench().poller().tick()).next_at is None


async def test_executions_of_a_schedule_with_a_longer_id_are_none_of_this_one() -> None:
    bench = Bench(loom.schedule("hourly", "@hourly", report), loom.schedule("hourly-20261130T01", "@hourly", report))

    await bench.poll_until(bench.poller(), DAY_0 + 2 * HOUR)

    assert [entry.execution_id for entry in await record(bench.storage, "hourly")] == [name(1), name(2)]


@loom.flow
async def goes_on(ctx: loom.Context, left: int) -> None:
    await ctx.decide("pick", lambda: left)
    if left:
        await ctx.continue_as_new(left - 1)
    await ctx.suspend("sign")


async def test_a_continued_run_is_open_while_the_last_of_its_chain_is(storage: Any) -> None:
    over = loom.define_config(flows=[goes_on], storage=storage).runtime
    await over.start(goes_on, 2, id="chain")
    for number in range(100):  # a log that was closed may still grow
        await over.attach("chain~1", "pick", number)
    waits = await is_open(storage, ExecutionId("chain"))

    await over.resume("chain", answer=None)

    assert waits
    assert not await is_open(storage, ExecutionId("chain"))
    assert not await is_open(storage, ExecutionId("nobody"))


def test_a_store_that_keeps_no_schedules_is_refused_in_words() -> None:
    class Bare:
        url = "bare:"

    bare: Any = Bare()

    with pytest.raises(SchedulesNotKept, match="keeps no record of schedules"):
        schedule_store(bare)
    with pytest.raises(SchedulesNotKept):
        Scheduling([], storage=bare, clock=Bench().clock, start=Bench().start)
