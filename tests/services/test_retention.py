"""The retention pass: which runs go, which stay, and that nobody else deletes anything."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.devtools.conformance.event_trim import DONE, ended
from loom.devtools.conformance.logs import INDEX, appended, events, first
from loom.driving.branch_families import family_of
from loom.driving.replaying import Replayer
from loom.services import expiry
from loom.services.expiry import Tally
from loom.services.retention import Retention, RetentionNotPossible
from loom.services.scheduling import Scheduling
from loom.spi.archive_memory import MemoryArchive
from loom.spi.clock import VirtualClock
from loom.spi.errors import ArchiveConflict
from loom.spi.event_store import ExecutionQuery, Head
from loom.spi.memory import MemoryStorage
from tests.retained import fill
from tests.services.polling import DAY_0, HOUR, Bench

DAY: Final = 24 * HOUR
TTL: Final = 30 * DAY


async def retained(store: Any, *, ttl_ms: int = TTL, **options: Any) -> Tally:
    return await Retention(store, ttl_ms=ttl_ms, **options).run()


async def left(store: MemoryStorage) -> list[str]:
    return list(await store.ids())


# Which go


@loom.step
async def receipt(order: str) -> str:
    return f"R-{order}"


@loom.flow
async def payout(ctx: loom.Context, order: str) -> str:
    return await ctx.run(receipt, order)


@loom.flow
async def approved(ctx: loom.Context, order: str) -> Any:
    return await ctx.suspend("approval", expects=bool)


@loom.flow
async def refund(ctx: loom.Context, order: str) -> Any:
    child = await loom.spawn(ctx, payout, order)
    await loom.await_child(ctx, child)
    return await ctx.suspend("approval", expects=bool)


@loom.flow
async def let_go(ctx: loom.Context, order: str) -> str:
    await loom.spawn(ctx, approved, order, on_cancel="abandon")
    return "done"


@loom.flow
async def forever(ctx: loom.Context, turn: int) -> Any:
    if turn < 3:
        return await ctx.continue_as_new(turn + 1)
    return await ctx.suspend("approval", expects=bool)


FLOWS: Final[dict[str, Any]] = {flow.id: flow for flow in (payout, approved, refund, let_go, forever)}


class House:
    """A store in memory, a runtime on it, and a clock that is moved by hand."""

    def __init__(self) -> None:
        self.clock = VirtualClock(DAY_0)
        self.store = MemoryStorage(clock=self.clock)
        self.runtime = loom.WorkflowRuntime(self.store, flows=FLOWS, clock=self.clock)

    async def start(self, flow: str, given: Any, id: str) -> Any:
        return await self.runtime.start(flow, given, id=id)

    async def answer(self, id: str) -> None:
        await self.runtime.resume(id, answer=True)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    house = House()
    yield house
    await house.runtime.close()


async def test_what_ended_long_enough_ago_goes_and_the_rest_stays(house: House) -> None:
    await house.start("payout", "A", "old")
    await house.start("approved", "A", "waits")
    house.clock.advance(TTL)
    await house.start("payout", "A", "young")
    on_the_day = await retained(house.store)
    house.clock.advance(1)

    tally = await retained(house.store)

    assert on_the_day.runs == 0
    assert (tally.families, tally.runs, tally.logs, dict(tally.kept)) == (1, 1, 1, {})
    assert await left(house.store) == ["waits", "young"]


@pytest.mark.proves("LIF-11")
async def test_an_old_child_of_a_living_parent_stays(house: House) -> None:
    await house.start("refund", "A", "refund-1")
    assert (await house.runtime.load_state("refund-1:payout")).status == "completed"
    house.clock.advance(10 * TTL)

    while_it_lives = await retained(house.store)
    await house.answer("refund-1")
    house.clock.advance(TTL)
    while_it_is_young = await retained(house.store)

    assert (while_it_lives.runs, while_it_is_young.runs) == (0, 0)
    assert await left(house.store) == ["refund-1", "refund-1:payout"]
    house.clock.advance(1)
    assert (await retained(house.store)).runs == 2
    assert await left(house.store) == []


@pytest.mark.proves("LIF-11")
async def test_a_parent_stays_while_a_child_that_it_abandoned_lives(house: House) -> None:
    await house.start("let_go", "A", "parent-1")
    house.clock.advance(2 * TTL)

    tally = await retained(house.store)

    assert (tally.runs, dict(tally.kept)) == (0, {"child": 1})
    await house.answer("parent-1:approved")
    house.clock.advance(TTL + 1)
    assert (await retained(house.store)).runs == 2


async def test_a_run_stays_while_a_fork_of_it_lives_and_its_branches_keep_their_names(house: House) -> None:
    await house.start("payout", "A", "p-1")
    await house.runtime.fork("p-1", at=0, id="p-1-more")
    await house.runtime.promote("p-1-more", reason="better")
    house.clock.advance(2 * TTL)

    tally = await retained(house.store)
    await house.runtime.cancel("p-1-more")
    names = await house.store.refs(await family_of(house.store, "p-1-more"))

    assert (tally.runs, dict(tally.kept)) == (0, {"child": 1})
    assert {name: move.execution_id for name, move in names.items()} == {"main": "p-1-more"}
    house.clock.advance(TTL + 1)
    assert (await retained(house.store)).runs == 2
    assert await left(house.store) == []


async def test_a_chain_stays_whole_while_its_last_link_lives(house: House) -> None:
    await house.start("forever", 1, "c-1")
    house.clock.advance(10 * TTL)

    while_it_lives = await retained(house.store)
    await house.answer("c-1")
    house.clock.advance(TTL + 1)
    tally = await retained(house.store)

    assert while_it_lives == Tally()
    assert (tally.families, tally.runs, tally.logs) == (1, 1, 3)
    assert await left(house.store) == []


@pytest.mark.proves("RNG-16")
async def test_what_stays_is_replayed_as_before(house: House) -> None:
    await house.start("refund", "A", "lives")
    await house.start("payout", "A", "old")
    await house.start("forever", 1, "c-1")
    house.clock.advance(2 * TTL)
    await house.start("payout", "A", "young")
    before = await _verdicts(house)

    assert (await retained(house.store)).runs == 1

    assert await _verdicts(house) == {name: kind for name, kind in before.items() if name != "old"}
    assert set(before.values()) == {"same"}
    await house.answer("lives")
    await house.answer("c-1")
    assert set((await _verdicts(house)).values()) == {"same"}


async def _verdicts(house: House) -> dict[str, str]:
    """Return what comes of replaying each log that there is."""
    replayer = Replayer(FLOWS)
    logs = {name: await house.store.read(ExecutionId(name)) for name in await left(house.store)}
    return {name: (await replayer.replay(name, log)).verdict.kind for name, log in logs.items()}


async def test_a_run_that_was_retried_meanwhile_stays() -> None:
    clock = VirtualClock(10 * TTL)
    store = Meddled(clock=clock)
    head = await ended(store, ExecutionId("f-1"), replace(DONE, status="failed"))
    store.before_delete = lambda: store.append(
        [replace(first(ExecutionId("f-1")), incarnation=head.incarnation, expected=head.length)]
    )

    tally = await retained(store)

    assert (tally.runs, dict(tally.kept)) == (0, {"changed": 1})
    assert await left(store) == ["f-1"]


class Meddled(MemoryStorage):
    """A store in which something happens between what the pass sees and what it does."""

    before_delete: Any = None

    async def delete(self, families: Sequence[Sequence[Head]], *, dry_run: bool = False) -> Any:
        if self.before_delete is not None:
            await self.before_delete()
        return await super().delete(families, dry_run=dry_run)


async def test_a_store_that_deletes_nothing_is_refused() -> None:
    class Plain:
        url = "plain:"

    with pytest.raises(RetentionNotPossible, match="plain:"):
        Retention(Plain(), ttl_ms=TTL)  # type: ignore[arg-type]


# Schedules


@loom.flow
async def report(ctx: loom.Context) -> str:
    return "done"


NIGHTLY: Final = loom.schedule("nightly", flow=report, cron="0 3 * * *", tz="UTC")


async def test_a_run_that_its_schedule_would_start_again_stays() -> None:
    bench = Bench(NIGHTLY)
    await bench.poller().tick()
    bench.clock.advance(4 * HOUR)
    started = Scheduling([NIGHTLY], storage=Unrecorded(bench.storage), clock=bench.clock, start=bench.start)
    with pytest.raises(Died):
        await started.tick()
    [run] = await left(bench.storage)
    bench.clock.advance(10 * TTL)

    tally = await retained(bench.storage)

    assert (tally.runs, dict(tally.kept)) == (0, {"tick": 1})
    await bench.poller().tick()
    later = await retained(bench.storage)
    assert later.runs == 1
    assert run not in await left(bench.storage)


async def test_the_last_run_of_a_schedule_goes_like_any_other_and_the_record_of_it_stays() -> None:
    bench = Bench(NIGHTLY)
    await bench.poller().tick()
    bench.clock.advance(4 * HOUR)
    await bench.poller().tick()
    before = await bench.storage.schedule_entries("nightly")
    bench.clock.advance(40 * DAY)

    assert (await retained(bench.storage, ttl_ms=TTL)).runs == 1

    assert await bench.storage.schedule_entries("nightly") == before
    ticked = await bench.poller().tick()
    assert (len(ticked.started), ticked.faults) == (1, {})


class Died(Exception):
    """The process that polled is no more."""


class Unrecorded:
    """A store whose poller dies before what it has started is on record."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def schedule_cursor(self, schedule_id: str) -> Any:
        return await self._storage.schedule_cursor(schedule_id)

    async def schedule_entries(self, schedule_id: str, **options: Any) -> Any:
        return await self._storage.schedule_entries(schedule_id, **options)

    async def record_ticks(self, *arguments: Any, **options: Any) -> Any:
        raise Died


# What is kept of it elsewhere


async def test_what_goes_is_in_the_archive_before(house: House) -> None:
    archive = MemoryArchive()
    await house.start("refund", "A", "r-1")
    await house.runtime.send("r-1", "unread", "news")
    await house.answer("r-1")
    lives = {name: await house.store.head(ExecutionId(name)) for name in ("r-1", "r-1:payout")}
    logs = {name: await house.store.read(ExecutionId(name)) for name in lives}
    house.clock.advance(TTL + 1)

    would = await retained(house.store, archive=archive, dry_run=True)
    empty = await archive.archived_lives()
    tally = await retained(house.store, archive=archive)

    assert (would.runs, list(empty)) == (2, [])
    assert tally.runs == 2
    for name, head in lives.items():
        assert head is not None
        assert list(await archive.read_archived(*head[:2])) == list(logs[name])
    head = lives["r-1"]
    assert head is not None
    kinds = sorted(request.kind for request in await archive.archived_requests(*head[:2]))
    assert kinds == ["answer", "message", "message"]
    assert await left(house.store) == []


async def test_what_cannot_be_archived_is_not_deleted(house: House) -> None:
    archive = MemoryArchive()
    await house.start("payout", "A", "r-1")
    head = await house.store.head(ExecutionId("r-1"))
    assert head is not None
    await archive.archive(head.execution_id, head.incarnation, events(b"of another store"))
    house.clock.advance(TTL + 1)

    with pytest.raises(ArchiveConflict):
        await retained(house.store, archive=archive)

    assert await left(house.store) == ["r-1"]


# How far it goes


async def test_it_stops_once_so_many_runs_are_gone_the_longest_begun_first() -> None:
    store = MemoryStorage(clock=VirtualClock(10 * TTL))
    await fill(store, 12)

    would = await retained(store, runs_max=5, dry_run=True)
    tally = await retained(store, runs_max=5)

    assert tally == would
    assert tally.runs == 5
    assert await left(store) == [f"old-{number:06}" for number in range(5, 12)]


async def test_a_family_is_whole_though_it_has_more_runs_than_were_asked_for() -> None:
    store = MemoryStorage(clock=VirtualClock(10 * TTL))
    await ended(store, ExecutionId("p"), replace(DONE, started_at=1))
    for number in range(5):
        await ended(store, ExecutionId(f"p:{number}"), replace(DONE, parent="p"))
    await ended(store, ExecutionId("q"), replace(DONE, started_at=2))

    assert (await retained(store, runs_max=2)).runs == 6
    assert await left(store) == ["q"]


async def test_it_can_be_stopped_between_two_transactions() -> None:
    store = MemoryStorage(clock=VirtualClock(10 * TTL))
    await fill(store, 2_000)
    retention = Retention(store, ttl_ms=TTL)

    tally = await retention.run(told=lambda tally: retention.stop())

    assert tally.runs == expiry.BATCH_FAMILIES
    assert len(await store.ids(limit=9_999)) == 2_000 - tally.runs


async def test_it_pages_through_what_stays() -> None:
    store = MemoryStorage(clock=VirtualClock(10 * TTL))
    for number in range(1_100):
        parent = ExecutionId(f"p{number:04}")
        await ended(store, parent, replace(DONE, started_at=number))
        if number % 2:
            await appended(store, first(ExecutionId(f"{parent}:c"), index=replace(INDEX, parent=parent)))

    tally = await retained(store)

    assert (tally.runs, dict(tally.kept)) == (550, {"child": 550})


# Nobody else deletes


@loom.flow
async def tick(ctx: loom.Context) -> int:
    for _ in range(3):
        await ctx.sleep(timedelta(days=200))
    return 7


@pytest.mark.proves("LIF-10")
async def test_ten_years_of_a_worker_delete_nothing() -> None:
    clock = VirtualClock(DAY_0)
    store = MemoryStorage(clock=clock)
    monthly = loom.schedule("monthly", flow=report, cron="0 3 1 * *", tz="UTC")
    app = loom.define_config(flows=[tick, report], schedules=[monthly], storage=store, clock=clock)
    started = set[str]()

    async with app:
        for month in range(122):
            started.add((await app.runtime.enqueue("tick", id=f"tick-{month}")).execution_id)
            clock.advance(30 * DAY)
            await app.worker(until_idle=True).run()

    rows = await store.find(ExecutionQuery(limit=9_999))
    entries = await store.schedule_entries("monthly", limit=9_999)
    assert started <= {row.execution_id for row in rows}
    assert {entry.execution_id for entry in entries if entry.execution_id} <= {row.execution_id for row in rows}
    assert len([row for row in rows if row.index.ended and row.index.updated_at < clock.now_ms() - TTL]) > 200
    assert min(row.index.started_at for row in rows) < DAY_0 + 2 * DAY
    assert clock.now_ms() > DAY_0 + 3_600 * DAY
