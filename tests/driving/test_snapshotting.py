"""Which states of a run are kept as snapshots, when, and that nothing waits for it."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

import loom
from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId
from loom.core.state import empty_state
from loom.driving import snapshotting
from loom.driving.snapshots import snapshot_of, state_of
from loom.kernel.codec import decode_events
from loom.kernel.fold import fold
from loom.spi.errors import StoreUnavailable
from loom.spi.memory import MemoryStorage
from loom.spi.snapshot_store import Snapshot
from tests.driving.long_runs import RUN, CountedMemory, climb, climber, sequences, stairs, written
from tests.kernel.running import runtime


async def folded_to(storage: MemoryStorage, sequence: int, run: ExecutionId = RUN) -> Any:
    """Return the fold of the log up to the event at *sequence*."""
    records = await storage.read(run, stop=sequence + 1, limit_bytes=1 << 30)
    return fold(decode_events(run, records), empty_state(run))


async def assert_all_are_the_fold(storage: MemoryStorage, run: ExecutionId = RUN) -> None:
    row = await storage.row(run)
    assert row is not None
    for sequence in await sequences(storage, run):
        snapshot = await storage.latest_snapshot(run, row.incarnation, upto=sequence)
        assert snapshot is not None
        assert state_of(snapshot) == await folded_to(storage, sequence, run)


# At a park


@pytest.mark.proves("LIF-03")
async def test_a_long_run_that_parks_has_a_snapshot_of_where_it_parked() -> None:
    over = climber()

    outcome = await over.start(stairs, 120, id=RUN)

    assert await sequences(over.storage) == [outcome.length - 1]
    assert isinstance(over.storage, MemoryStorage)
    await assert_all_are_the_fold(over.storage)


async def test_a_run_of_up_to_200_events_asks_and_keeps_nothing() -> None:
    over = climber(CountedMemory())
    assert isinstance(over.storage, CountedMemory)

    await over.start(stairs, 95, id=RUN)
    outcome = await over.resume(RUN, answer="a")

    assert 190 < outcome.length <= 200
    assert over.storage.calls == []


async def test_a_run_that_ends_without_parking_keeps_none_and_asks_for_none() -> None:
    storage = CountedMemory()

    @loom.flow
    async def straight(ctx: loom.Context, count: int) -> None:
        for stair in range(count):
            await ctx.run(climb, stair)

    over = runtime(straight, storage=storage)
    await over.start(straight, 120, id=RUN)

    assert storage.calls == []
    assert (await over.load_state(RUN)).length > 200


@pytest.mark.proves("LIF-03")
async def test_the_next_is_kept_once_the_tail_is_more_than_200_events_and_a_tenth_of_the_run() -> None:
    @loom.flow
    async def landings(ctx: loom.Context) -> None:
        for stairs_more in (210, 190, 2, 20, 2_200, 150, 120, 300):
            for stair in range(stairs_more // 2):
                await ctx.run(climb, stair)
            await ctx.suspend("landing")

    over = runtime(landings, write_behind=True)
    outcomes = [await over.start(landings, id=RUN)]
    outcomes += [await over.resume(RUN, answer=None) for _ in range(7)]
    parks = [outcome.length - 1 for outcome in outcomes]

    kept = await sequences(over.storage)

    expected: list[int] = []
    for park in parks:
        if park - (expected[-1] if expected else -1) > max(200, (park + 1) // 10):
            expected.append(park)
    assert kept == expected
    assert 3 <= len(kept) < len(parks)
    assert isinstance(over.storage, MemoryStorage)
    await assert_all_are_the_fold(over.storage)


async def test_a_snapshot_is_kept_after_the_run_is_free_for_others() -> None:
    class Slow(MemoryStorage):
        async def put_snapshot(self, snapshot: Snapshot) -> bool:
            if not begun.is_set():
                begun.set()
                await go.wait()
            return await super().put_snapshot(snapshot)

    begun, go = asyncio.Event(), asyncio.Event()
    storage = Slow()
    starting = asyncio.ensure_future(climber(storage).start(stairs, 120, id=RUN))
    await begun.wait()

    outcome = await climber(storage).resume(RUN, answer="a")
    row = await storage.row(RUN)

    assert outcome.status == "suspended"
    assert row is not None
    assert row.driver == ""
    go.set()
    assert (await starting).status == "suspended"


@pytest.mark.parametrize("error", [StoreUnavailable("full", store="here"), ZeroDivisionError("a fault of a plugin")])
async def test_a_snapshot_that_cannot_be_written_is_a_warning_and_the_run_goes_on(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(MemoryStorage):
        async def put_snapshot(self, snapshot: Snapshot) -> bool:
            raise error

    over = climber(Full(), snapshot_every=100)
    with caplog.at_level(logging.WARNING, logger="loom.driving"):
        parked = await over.start(stairs, 120, id=RUN)
        for answer in "ab":
            await over.resume(RUN, answer=answer)
        ended = await over.resume(RUN, answer="c")

    assert (parked.status, ended.result()) == ("suspended", ["up", 120, "a", "b", "c"])
    assert f"the snapshot of {RUN} at 99 was not kept: {error}" in caplog.text


@pytest.mark.parametrize("long", [100, 100_000])
async def test_that_of_a_very_long_run_is_made_beside_the_loop(long: int, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def noted(*args: Any, **kwargs: Any) -> Snapshot:
        threads.append(threading.get_ident())
        return snapshot_of(*args, **kwargs)

    monkeypatch.setattr(snapshotting, "snapshot_of", noted)
    monkeypatch.setattr(snapshotting, "LONG", long)
    over = climber()

    await over.start(stairs, 120, id=RUN)

    assert [thread == threading.get_ident() for thread in threads] == [long > 200]
    assert isinstance(over.storage, MemoryStorage)
    await assert_all_are_the_fold(over.storage)


async def test_a_store_that_keeps_no_snapshots_works_as_before() -> None:
    class Bare:
        def __init__(self) -> None:
            self._kept = MemoryStorage()

        def __getattr__(self, name: str) -> Any:
            if "snapshot" in name:
                raise AttributeError(name)
            return getattr(self._kept, name)

    bare: Any = Bare()
    over = climber(bare)
    await over.start(stairs, 120, id=RUN)
    outcomes = [await over.resume(RUN, answer=answer) for answer in "abc"]

    assert outcomes[-1].status == "completed"
    with pytest.raises(InvalidDeclaration, match="the store Bare keeps no snapshots"):
        climber(bare, snapshot_every=10)


# Every N events


@pytest.mark.proves("LIF-03")
@pytest.mark.parametrize("write_behind", [True, False])
async def test_every_100_over_1000_events_gives_10_plus_those_at_gates(write_behind: bool) -> None:
    over = climber(snapshot_every=100, write_behind=write_behind)

    outcome = await over.start(stairs, 498, id=RUN)

    assert outcome.length == 1_000
    assert await sequences(over.storage) == list(range(99, 1_000, 100))
    assert isinstance(over.storage, MemoryStorage)
    await assert_all_are_the_fold(over.storage)


async def test_a_gate_has_its_own_where_those_of_every_n_are_too_far_apart() -> None:
    over = climber(snapshot_every=600)

    outcome = await over.start(stairs, 498, id=RUN)

    assert await sequences(over.storage) == [599, outcome.length - 1]


async def test_a_process_after_another_goes_on_at_the_same_multiples() -> None:
    over = climber(snapshot_every=5)
    await over.start(stairs, 4, id=RUN)

    for answer in "abc":
        await climber(over.storage, snapshot_every=5).resume(RUN, answer=answer)

    length = (await over.load_state(RUN)).length
    assert await sequences(over.storage) == list(range(4, length, 5))


async def test_what_is_not_on_disk_is_in_no_snapshot() -> None:
    """The store refuses one that is ahead of its log; here none is even tried."""
    refused: list[int] = []

    class Strict(MemoryStorage):
        async def put_snapshot(self, snapshot: Snapshot) -> bool:
            head = await self.head(RUN)
            if head is None or snapshot.head.sequence >= head.length:
                refused.append(snapshot.head.sequence)
            return await super().put_snapshot(snapshot)

    over = climber(Strict(), snapshot_every=7, write_behind=True)
    await over.start(stairs, 200, id=RUN)

    assert refused == []
    assert len(await sequences(over.storage)) == 404 // 7


async def test_who_is_told_of_events_is_told_as_before() -> None:
    told: list[int] = []
    over = climber(snapshot_every=3, on_event=lambda event: told.append(event.sequence))

    outcome = await over.start(stairs, 4, id=RUN)

    assert told == list(range(outcome.length))


# When a fork is first driven


@pytest.mark.proves("LIF-03")
@pytest.mark.parametrize("every", [None, 1_000, 7])
async def test_a_long_fork_has_one_of_where_it_begins_once_it_is_driven(every: int | None) -> None:
    over = climber()
    outcome = await over.start(stairs, 120, id=RUN)
    await over.fork(RUN, at=outcome.length - 3, id="fork")
    assert await sequences(over.storage, "fork") == []
    begins = (await over.load_state("fork")).sequence

    await climber(over.storage, snapshot_every=every).resume("fork")

    kept = await sequences(over.storage, "fork")
    assert kept[0] == begins
    assert [at for at in kept[1:] if every is None or (at + 1) % every] == []
    assert isinstance(over.storage, MemoryStorage)
    await assert_all_are_the_fold(over.storage, ExecutionId("fork"))


# What an app may ask for


@pytest.mark.parametrize("every", [0, -1, True, 1.5, "100"])
def test_what_is_no_number_of_events_is_refused(every: Any) -> None:
    with pytest.raises(InvalidDeclaration, match="snapshot_every"):
        climber(snapshot_every=every)


@pytest.mark.parametrize("codec", ["lz4", "", None, "ZSTD"])
def test_what_is_no_codec_is_refused(codec: Any) -> None:
    with pytest.raises(InvalidDeclaration, match="no codec") as refused:
        climber(snapshot_codec=codec)

    assert refused.value.hint == "There are json and zstd."


async def test_a_written_log_is_what_the_runtime_writes() -> None:
    """The helper of these tests, held to what it imitates."""
    real, made = climber(), MemoryStorage()
    await real.start(stairs, 5, id=RUN)

    await written(made, 14)

    theirs = [(record.type, record.payload) for record in await real.storage.read(RUN)]
    ours = [(record.type, record.payload) for record in await made.read(RUN)]
    assert [type_ for type_, _ in ours] == [type_ for type_, _ in theirs]
    assert (await climber(made).load_state(RUN)).facts.input == 5
    assert (await climber(made).resume(RUN, answer="a")).status == "suspended"
