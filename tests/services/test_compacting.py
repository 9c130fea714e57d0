"""Moving the first part of a log to an archive: nothing is lost, nothing that a run comes to is changed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loom
from loom.core.ids import ExecutionId, Incarnation
from loom.driving.errors import ExecutionNotFound, SnapshotUnusable
from loom.driving.stored_log import records_of
from loom.kernel.errors import LogCorrupt
from loom.lenses.folding import state_digest
from loom.services.compacting import CompactionNotPossible, EventStays, Wish, compact, furthest
from loom.spi.event_store import EventRecord, Storage
from loom.spi.memory import MemoryStorage
from loom.spi.snapshot_store import Snapshot
from tests.golden import flows, logs
from tests.golden.make import Life
from tests.golden.test_golden import ending
from tests.kernel.lives import RUN as LIVED
from tests.kernel.lives import Driver, Way, copied, live, replayed
from tests.kernel.programs import replayer
from tests.kernel.running import RUN, runtime
from tests.kernel.test_live_and_replay import Program, calm, programs, ways, wild
from tests.services.compacted import compacted, count, here, many, numbered, row_of, stored, story, told

NAMES = logs.names()


@pytest.fixture
def archive() -> MemoryStorage:
    return MemoryStorage()


def places(golden: logs.Golden, seed: int) -> list[int]:
    """Return where to compact a log: at every event of a short one, at some of a long one."""
    limit = furthest(golden.log)
    every = list(range(1, limit + 1))
    return every if len(every) <= 8 else sorted({1, limit, *random.Random(seed).sample(every, 5)})


# -- the state, and what is still there


@pytest.mark.proves("LIF-05")
@pytest.mark.parametrize("name", NAMES)
async def test_compacting_once_or_twice_changes_no_state(name: str, archive: MemoryStorage, seed: int) -> None:
    golden = logs.read(name)
    for first in places(golden, seed):
        storage, archive = await stored(golden), MemoryStorage()
        over = runtime(storage=storage)
        for through in (first, None):
            await compacted(storage, archive, golden.run, through=through)

            assert state_digest(await over.load_state(golden.run)) == golden.digests[-1]
            assert await told(storage, archive, golden.run) == golden.log
            assert (await row_of(storage, golden.run)).length == len(golden.log)


@pytest.mark.proves("LIF-05")
async def test_a_second_compaction_builds_on_the_first(archive: MemoryStorage) -> None:
    golden = logs.read("blocks")
    storage = await stored(golden)

    first = await compacted(storage, archive, golden.run, through=6)
    second = await compacted(storage, archive, golden.run)
    again = await compacted(storage, archive, golden.run)

    limit = furthest(golden.log)
    assert (first.events, first.through, first.kept) == (6, 6, 1)
    assert (second.events, second.through, second.kept) == (limit - 6, limit, 1)
    assert (again.events, again.through, again.kept) == (0, limit, 1)
    heads = await storage.snapshots(golden.run, Incarnation(1))
    assert [(head.execution_id, head.sequence, head.is_checkpoint) for head in heads] == [(golden.run, limit, True)]


@pytest.mark.proves("LIF-05", "STO-04")
async def test_kinds_that_are_asked_for_stay_in_place(archive: MemoryStorage) -> None:
    golden = logs.read("records")
    kinds = {record.type for record in golden.log}
    assert any(kind.startswith("user.") for kind in kinds)
    storage = await stored(golden)

    await compacted(storage, archive, golden.run, keep=["user.*", "DECISION_RECORDED"], through=4)
    await compacted(storage, archive, golden.run, keep=["user.*", "DECISION_RECORDED"])

    limit = furthest(golden.log)
    kept = [r.sequence for r in golden.log if r.type.startswith(("user.", "DECISION_RECORDED", "EXECUTION_STARTED"))]
    assert await here(storage, golden.run) == sorted({*kept, *range(limit + 1, len(golden.log))})
    assert [event.record.sequence for event in await story(storage, archive, golden.run) if not event.is_archived] == (
        await here(storage, golden.run)
    )
    assert await told(storage, archive, golden.run) == golden.log


@pytest.mark.parametrize("name", NAMES)
async def test_the_start_the_end_and_the_last_event_stay(name: str, archive: MemoryStorage) -> None:
    golden = logs.read(name)
    storage = await stored(golden)

    await compacted(storage, archive, golden.run)

    left = {record.sequence: record.type for record in await storage.read(golden.run)}
    assert left[0] == "EXECUTION_STARTED"
    assert len(golden.log) - 1 in left
    ends = [r.sequence for r in golden.log if r.type in ("EXECUTION_COMPLETED", "EXECUTION_CONTINUED")]
    assert set(ends[-1:]) <= set(left)


# -- going on


@pytest.mark.proves("LIF-05", "RNG-16", "NOT-09")
@pytest.mark.parametrize("name", NAMES)
async def test_a_compacted_golden_log_goes_on_as_it_did(name: str, seed: int) -> None:
    golden = logs.read(name)
    log = logs.before_the_end(golden.log)
    for through in [at for at in places(golden, seed) if at <= len(log) - 2]:
        life = Life(golden.name, flows, forbidden=True)
        life.clock.advance(golden.log[-1].at - life.clock.now_ms())
        await life.hold(log)
        archive = MemoryStorage()
        await compacted(life.storage, archive, life.run, through=through)
        del archive  # nothing of it is ever read

        await life.resume(golden.flow)

        assert life.world.saw == golden.saw
        assert life.world.acted == []
        assert ending(await life.log()) == ending(golden.log)


async def short(log: Sequence[EventRecord], throughs: Sequence[int], archive: MemoryStorage) -> Storage:
    """Return a store that holds *log*, compacted up to each of *throughs*, as far as it can be."""
    storage = await copied(log)
    for through in throughs:
        row = await row_of(storage, LIVED)
        await compact(storage, archive, row, Wish(through=min(through, furthest(await storage.read(LIVED)))))
    return storage


cuts = st.lists(st.integers(1, 60), min_size=1, max_size=2).map(sorted)


@pytest.mark.proves("LIF-05")
@settings(max_examples=10)
@given(program=programs(calm), first=ways(), second=ways(), throughs=cuts, data=st.data())
async def test_a_run_that_is_compacted_anywhere_comes_to_the_same(
    program: Program, first: Way, second: Way, throughs: list[int], data: Any
) -> None:
    life, archive = await live(program, first), MemoryStorage()
    log = life.log[: data.draw(st.integers(1, len(life.log) - 1), label="length")]
    storage = await short(log, throughs, archive)

    rest = await Driver(storage, second).go_on()

    rest.log = await told(storage, archive, LIVED)
    assert rest.log[: len(log)] == log
    assert rest.by_place() == life.by_place()
    assert rest.asked() == life.asked()


@pytest.mark.proves("LIF-05", "RNG-16")
@settings(max_examples=10)
@given(program=programs(wild), way=ways(retries=2), throughs=cuts, data=st.data())
async def test_a_run_that_was_compacted_anywhere_replays(
    program: Program, way: Way, throughs: list[int], data: Any
) -> None:
    life, archive = await live(program, way), MemoryStorage()
    log = life.log[: data.draw(st.integers(1, len(life.log) - 1), label="length")]
    storage = await short(log, throughs, archive)
    [verdict, of_rest] = [
        (await replayer().replay(LIVED, kept.records, base=kept.base)).verdict
        for kept in (await records_of(await copied(log), LIVED), await records_of(storage, LIVED))
    ]

    rest = await Driver(storage, way).go_on()
    again = await replayed(await told(storage, archive, LIVED))

    assert of_rest == verdict
    assert (again.saw, again.effects) == (rest.saw, [])


@pytest.mark.proves("LIF-05")
async def test_who_drives_a_run_meanwhile_is_not_disturbed(archive: MemoryStorage) -> None:
    storage, plain = MemoryStorage(), MemoryStorage()
    moved = []

    async def lived(over: loom.driving.runtime.WorkflowRuntime) -> Any:
        outcome = await over.start(many, 120, id=RUN)
        while outcome.status == "suspended":
            outcome = await over.send(RUN, "more", 1)
        return outcome.result()

    over = runtime(many, storage=storage)
    driving = asyncio.create_task(lived(over))
    while not driving.done():
        await asyncio.sleep(0)
        if await storage.row(ExecutionId(RUN)) is not None:
            moved.append((await compacted(storage, archive, RUN)).events)

    assert await driving == await lived(runtime(many, storage=plain)) == sum(range(120)) + 3
    assert len([events for events in moved if events]) > 20
    assert numbered(await told(storage, archive, RUN)) == list(range((await row_of(storage, RUN)).length))
    assert len(await here(storage, RUN)) < 10


@pytest.mark.proves("LIF-05")
async def test_a_run_is_compacted_while_it_is_parked_and_goes_on(archive: MemoryStorage) -> None:
    storage = MemoryStorage()
    over = runtime(many, storage=storage)
    await over.start(many, 80, id=RUN)

    parked = await compacted(storage, archive, RUN)
    waiting = asyncio.create_task(over.wait_for_suspend(RUN))
    state = await over.load_state(RUN)
    assert (state.status, (await waiting).status) == ("suspended", "suspended")
    await over.send(RUN, "more", 1)
    await compacted(storage, archive, RUN)
    outcome = await runtime(many, storage=storage).send(RUN, "more", 1)

    assert parked.events > 80
    assert outcome.result() == sum(range(80)) + 2
    assert (await over.wait(RUN)).result() == outcome.result()


async def test_a_run_can_be_retried_and_cancelled_once_it_is_compacted(archive: MemoryStorage) -> None:
    tries = []

    @loom.step(retry=loom.Retry(attempts=1))
    async def pay() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("away")
        return "paid"

    @loom.flow
    async def paying(ctx: loom.Context) -> str:
        await ctx.run(count, 1)
        paid = await ctx.run(pay)
        await ctx.suspend("sure")
        return paid

    storage = MemoryStorage()
    over = runtime(paying, storage=storage)
    failed = await over.start(paying, id=RUN)
    await compacted(storage, archive, RUN)
    assert [r.type for r in await storage.read(ExecutionId(RUN))][-1] == "EXECUTION_FAILED"

    retried = await over.retry(RUN)
    await compacted(storage, archive, RUN)
    cancelled = await over.cancel(RUN)

    assert (failed.status, retried.status, cancelled.status) == ("failed", "suspended", "cancelled")
    assert len(tries) == 2
    assert numbered(await told(storage, archive, RUN)) == list(range((await row_of(storage, RUN)).length))


async def test_a_live_query_goes_on_over_what_is_gone(archive: MemoryStorage) -> None:
    storage = MemoryStorage()
    over = runtime(many, storage=storage)
    await over.start(many, 80, id=RUN)
    await compacted(storage, archive, RUN)

    seen = []
    async for state in loom.watch(over, RUN):
        seen.append(state.sequence)
        if state.status == "suspended":
            await over.send(RUN, "more", 1)
            await compacted(storage, archive, RUN)

    last = (await row_of(storage, RUN)).length - 1
    assert seen == sorted(set(seen))
    assert seen[-1] == last


# -- refusals


async def test_a_log_is_not_compacted_past_its_end_or_its_last_event(archive: MemoryStorage) -> None:
    golden = logs.read("hello")
    storage = await stored(golden)
    limit = furthest(golden.log)

    with pytest.raises(EventStays, match=f"event {limit + 1} of {golden.run} stays") as refused:
        await compacted(storage, archive, golden.run, through=limit + 1)

    assert refused.value.hint == f"--through {limit} is as far as it goes."
    assert await here(storage, golden.run) == list(range(len(golden.log)))


async def test_a_dry_run_moves_nothing_and_tells_what_would_be_moved(archive: MemoryStorage) -> None:
    golden = logs.read("hello")
    storage = await stored(golden)
    row = await row_of(storage, golden.run)

    planned = await compact(storage, None, row, Wish(dry_run=True))

    assert await here(storage, golden.run) == list(range(len(golden.log)))
    assert list(await storage.snapshots(golden.run, row.incarnation)) == []
    assert planned == await compacted(storage, archive, golden.run)


async def test_a_log_with_a_gap_is_refused(archive: MemoryStorage) -> None:
    golden = logs.read("blocks")
    storage = await stored(golden, [*golden.log[:3], *golden.log[4:]])

    with pytest.raises(LogCorrupt, match="every event from 0 on"):
        await compacted(storage, archive, golden.run)

    assert list(await archive.archived_lives()) == []


async def test_a_checkpoint_that_cannot_be_read_is_told_and_never_guessed(archive: MemoryStorage) -> None:
    golden = logs.read("blocks")
    storage = await stored(golden)
    await compacted(storage, archive, golden.run, through=6)
    head, body = storage._logs[golden.run].snapshots[6]
    for spoiled in (Snapshot(head, body[:-1] + b"]"), Snapshot(head._replace(fold_version="9.0.0"), body)):
        storage._logs[golden.run].snapshots[6] = spoiled

        with pytest.raises(SnapshotUnusable, match=f"{golden.run} at 6"):
            await runtime(storage=storage).load_state(golden.run)
        with pytest.raises(SnapshotUnusable):
            await compacted(storage, archive, golden.run)

    assert await told(storage, archive, golden.run) == golden.log


async def test_a_run_that_was_deleted_meanwhile_is_not_found(archive: MemoryStorage) -> None:
    golden = logs.read("hello")
    storage = await stored(golden)
    row = await row_of(storage, golden.run)
    storage._kept.forget(storage._logs[golden.run])

    with pytest.raises(ExecutionNotFound):
        await compact(storage, archive, row, Wish())


async def test_a_store_that_cannot_trim_says_so(archive: MemoryStorage) -> None:
    class Plain:
        url = "plain:"

    storage: Any = Plain()
    row: Any = None

    with pytest.raises(CompactionNotPossible, match="plain:"):
        await compact(storage, archive, row, Wish())


async def test_the_checkpoint_of_another_run_is_refused(archive: MemoryStorage) -> None:
    golden, other = logs.read("hello"), logs.read("loops")
    storage, another = await stored(golden), await stored(other)
    await compacted(storage, archive, golden.run)
    await compacted(another, archive, other.run, through=furthest(golden.log))
    [(at, theirs)] = another._logs[other.run].snapshots.items()
    storage._logs[golden.run].snapshots[at] = theirs

    with pytest.raises(SnapshotUnusable, match=f"it is that of {other.run}"):
        await runtime(storage=storage).load_state(golden.run)


@pytest.mark.parametrize(
    ("present", "is_read"), [(("1.4.0", "1.2.0"), True), (("2.0.0", "1.0.0"), False), (("1.0.0", "2.0.0"), False)]
)
async def test_a_checkpoint_of_an_earlier_version_is_read_or_refused(
    present: tuple[str, str], is_read: bool, archive: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = logs.read("blocks")
    storage = await stored(golden)
    await compacted(storage, archive, golden.run)
    state = await runtime(storage=storage).load_state(golden.run)

    monkeypatch.setattr("loom.driving.snapshots._PRESENT", present)

    if is_read:
        assert await runtime(storage=storage).load_state(golden.run) == state
    else:
        with pytest.raises(SnapshotUnusable, match=r"it was made by fold 1\.0\.0"):
            await runtime(storage=storage).load_state(golden.run)
