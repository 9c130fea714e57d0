from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import loom
from loom.core import facts as f
from loom.core.facts import StepCompleted, StepStarted
from loom.core.ids import ExecutionId
from loom.core.state import empty_state
from loom.driving import writer as writers
from loom.driving.writer import GroupWriter
from loom.kernel.journal import Journal, Writer
from loom.spi.clock import VirtualClock
from loom.spi.conflicts import Fenced
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Append, AppendResult
from loom.spi.host import VirtualHost
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, AppendsAreCounted, kinds, records, runtime

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@loom.step
async def act(what: str) -> str:
    ran.append(what)
    return what


@loom.flow
async def five(ctx: loom.Context) -> list[str]:
    return [await ctx.run(act, str(i)) for i in range(5)]


def journal_on(storage: MemoryStorage, run: str = RUN, writer: Writer | None = None, **options: Any) -> Journal:
    return Journal(
        empty_state(ExecutionId(run)),
        writer=writer or GroupWriter(storage),
        clock=VirtualClock(),
        token=f"{run}-",
        **options,
    )


def ask(journal: Journal, id: str = "a") -> int:
    return journal.commit("STEP_STARTED", StepStarted(id=id, ordinal=journal.state.length, digest="d")).sequence


@pytest.mark.proves("KER-05")
async def test_sequences_of_a_thousand_commits_from_many_tasks_have_no_gap() -> None:
    storage = MemoryStorage()
    journal = journal_on(storage)

    async def commit(i: int) -> int:
        sequence = ask(journal, f"s{i}")
        await journal.barrier()
        return sequence

    given = await asyncio.gather(*(commit(i) for i in range(1000)))

    assert sorted(given) == list(range(1000))
    assert [record.sequence for record in await records(storage)] == list(range(1000))


class Slow(MemoryStorage):
    """A store that writes when it may, one transaction a time."""

    def __init__(self) -> None:
        super().__init__()
        self.may = asyncio.Semaphore(0)
        self.sizes: list[int] = []

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        await self.may.acquire()
        self.sizes.append(sum(len(item.events) for item in batch))
        return await super().append(batch)


@pytest.mark.proves("KER-06")
async def test_the_state_is_folded_at_once_and_the_write_follows_in_order() -> None:
    storage = Slow()
    journal = journal_on(storage)

    first = ask(journal)
    journal.commit("STEP_COMPLETED", StepCompleted(first, 1))
    second = ask(journal, "b")
    seen = (journal.state.length, set(journal.state.open), journal.durable)
    storage.may.release()
    await journal.barrier()

    assert seen == (3, {second}, 0)
    assert [record.type for record in await records(storage)] == ["STEP_STARTED", "STEP_COMPLETED", "STEP_STARTED"]
    assert storage.sizes == [3]


async def test_what_many_runs_have_ready_shares_few_transactions() -> None:
    storage = AppendsAreCounted()
    over = runtime(five, storage=storage)

    await asyncio.gather(*(over.start(five, id=f"run-{i}") for i in range(50)))

    events = sum(len(log.events) for log in storage._logs.values())
    assert events == 50 * 12
    assert len(storage.batches) < events / 10


async def test_a_barrier_for_the_beginning_does_not_wait_for_the_rest() -> None:
    storage = Slow()
    journal = journal_on(storage)
    ask(journal)
    first = asyncio.create_task(journal.barrier(1))
    await asyncio.sleep(0.01)
    ask(journal, "b")
    whole = asyncio.create_task(journal.barrier())
    storage.may.release()

    await first

    assert not whole.done()
    storage.may.release()
    await whole


@pytest.mark.proves("KER-07")
@pytest.mark.parametrize("failing", range(1, 7))
async def test_after_a_write_that_failed_nothing_is_written_and_nothing_runs(failing: int) -> None:
    error = StoreUnavailable("disk full", store="test")
    storage = AppendsAreCounted(dict.fromkeys(range(failing, 100), error))
    over = runtime(five, storage=storage)

    async with asyncio.timeout(10):
        with pytest.raises(StoreUnavailable):
            await over.start(five, id=RUN)

    steps_done = [record for record in await records(storage) if record.type == "STEP_COMPLETED"]
    assert len(ran) <= len(steps_done) + 2, "at most the one whose outcome could not be written, and none after it"
    storage.instead.clear()
    ran_before = len(ran)
    if await storage.head(ExecutionId(RUN)) is not None:
        outcome = await runtime(five, storage=storage).resume(RUN)
        assert outcome.value == ["0", "1", "2", "3", "4"]
        assert len(ran) == ran_before + 5 - len(steps_done)


async def test_a_write_that_failed_ends_the_drive_at_the_next_syscall_not_at_the_end() -> None:
    storage = AppendsAreCounted(dict.fromkeys(range(2, 100), StoreUnavailable("gone", store="test")))
    over = runtime(five, storage=storage)
    told: list[str] = []

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        for i in range(1000):
            try:
                await ctx.emit("tick", i)
                told.append("tick")
                await asyncio.sleep(0.001)
            except Exception as error:  # noqa: BLE001  # the body must see none
                told.append(repr(error))

    over = runtime(flow, storage=storage)

    with pytest.raises(StoreUnavailable):
        await over.start(flow, id=RUN)

    assert set(told) == {"tick"}
    assert len(told) < 1000


async def test_a_store_that_raises_something_foreign_ends_the_drive_and_leaves_nobody_waiting() -> None:
    storage = AppendsAreCounted({2: OSError("not ours")})

    async with asyncio.timeout(5):
        with pytest.raises(StoreUnavailable) as stopped:
            await runtime(five, storage=storage).start(five, id=RUN)

    assert isinstance(stopped.value.__cause__, OSError)


class Unsure(MemoryStorage):
    """A store that writes, and then cannot say so: the n-th answer is lost."""

    def __init__(self, lost: set[int]) -> None:
        super().__init__()
        self.lost, self.count = lost, 0
        self.given: list[str] = []

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        self.count += 1
        self.given += [item.append_id for item in batch]
        results = await super().append(batch)
        if self.count in self.lost:
            raise StoreUnavailable("the connection was lost", store="test")
        return results


@pytest.mark.parametrize("lost", [{1}, {2}, {3, 4}, {2, 4, 6}])
async def test_a_write_of_unknown_outcome_is_repeated_in_its_place(lost: set[int]) -> None:
    storage = Unsure(lost)
    over = runtime(five, storage=storage)

    outcome = await over.start(five, id=RUN)

    assert outcome.value == ["0", "1", "2", "3", "4"]
    assert ran == ["0", "1", "2", "3", "4"]
    assert len(await records(storage)) == 12
    assert len(set(storage.given)) == len(storage.given) - len(lost)


@pytest.mark.proves("RNG-15")
async def test_a_driver_from_whom_a_run_was_taken_is_fenced_at_its_next_write() -> None:
    storage = MemoryStorage()
    held, afterwards = asyncio.Event(), list[str]()

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.run("held", held.wait)
        await ctx.run("after", lambda: afterwards.append("once"))

    there, here = VirtualHost("there"), VirtualHost("here")
    one = runtime(flow, storage=storage, host=there)
    other = runtime(flow, storage=storage, host=here)
    driving = asyncio.create_task(one.start(flow, id=RUN))
    while await storage.head(ExecutionId(RUN)) is None:
        await asyncio.sleep(0)
    here.gone.add("there/1")
    taking_over = asyncio.create_task(other.resume(RUN))
    while "TAKEN_OVER" not in await kinds(one):
        await asyncio.sleep(0)
    held.set()

    late, outcome = list[Any](await asyncio.gather(driving, taking_over, return_exceptions=True))

    assert isinstance(late, Fenced)
    assert outcome.status == "completed"
    assert afterwards == ["once"]
    [took] = [event for event in await one.events(RUN) if event.type == "EXECUTION_TAKEN_OVER"]
    assert took.payload == f.ExecutionTakenOver(token=took.sequence, driver="there/1", found="gone")


async def test_a_syscall_waits_while_the_queue_of_the_writer_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "QUEUE_EVENTS_MAX", 10)
    storage = Slow()
    asked: list[int] = []

    @loom.flow
    async def flow(ctx: loom.Context) -> int:
        for i in range(100):
            await ctx.emit("tick", i)
            asked.append(i)
        return len(asked)

    over = runtime(flow, storage=storage)
    storage.may.release()
    running = asyncio.create_task(over.start(flow, id=RUN))
    for _ in range(20):
        await asyncio.sleep(0.002)
    held_at = len(asked)
    for _ in range(100):
        storage.may.release()

    outcome = await running

    assert held_at <= 40
    assert outcome.value == 100


@pytest.mark.proves("KER-16")
async def test_the_durable_callback_is_told_in_order_and_never_of_what_is_not_in_the_log() -> None:
    error = StoreUnavailable("disk full", store="test")
    storage = AppendsAreCounted(dict.fromkeys(range(3, 100), error))
    early: list[int] = []
    durable: list[int] = []
    over = runtime(
        five,
        storage=storage,
        on_event=lambda event: early.append(event.sequence),
        on_durable_event=lambda event: durable.append(event.sequence),
    )

    with pytest.raises(StoreUnavailable):
        await over.start(five, id=RUN)

    assert durable == [record.sequence for record in await records(storage)]
    assert early == list(range(len(early)))
    assert len(early) > len(durable)


@pytest.mark.parametrize("which", ["on_event", "on_durable_event", "on_stream"])
async def test_a_listener_that_raises_stops_nothing(which: str, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a broken listener")

    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        async def pieces() -> Any:
            yield "a"
            yield "b"

        return [await ctx.run(act, "a"), *await ctx.stream("words", pieces())]

    listeners: Any = {which: broken}
    over = runtime(flow, **listeners)

    async with asyncio.timeout(5):
        outcome = await over.start(flow, id=RUN)

    assert outcome.value == ["a", "a", "b"]
    assert "a broken listener" in caplog.text


async def test_a_fact_that_cannot_be_encoded_leaves_no_gap_and_stops_the_drive() -> None:
    from decimal import Decimal

    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        odd: Any = Decimal("0.5")
        return await ctx.decide("pick", lambda: loom.Choice(value=1, propensity=odd))

    over = runtime(flow)

    async with asyncio.timeout(5):
        try:
            outcome = await over.start(flow, id=RUN)
        except loom.LoomError:
            return  # refused as a whole is right, too

    assert outcome.status in ("completed", "failed")


async def test_no_effect_runs_while_an_outcome_before_it_is_not_on_disk() -> None:
    storage = Slow()
    lengths: list[tuple[str, int]] = []

    async def looks(name: str) -> str:
        lengths.append((name, len(await records(storage))))
        return name

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.run("first", looks, "first")
        await ctx.run("second", looks, "second")
        await ctx.decide("pick", lambda: 1)
        await ctx.run("third", looks, "third")

    over = runtime(flow, storage=storage)
    for _ in range(20):
        storage.may.release()

    await over.start(flow, id=RUN)

    stored = [record.type for record in await records(storage)]
    for name, length in lengths[1:]:
        before = stored[:length]
        assert before[-1] in ("STEP_COMPLETED", "DECISION_RECORDED", "STEP_STARTED"), name
    assert lengths[1][1] >= 3
    assert lengths[2][1] >= 6


@pytest.mark.parametrize("write_behind", [False, True])
async def test_a_step_that_is_not_idempotent_has_its_start_on_disk_before_it_leaves(write_behind: bool) -> None:
    storage = MemoryStorage()
    seen: list[list[str]] = []

    @loom.step(idempotent=False)
    async def pay() -> None:
        seen.append([record.type for record in await records(storage)])

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.run(act, "before")
        await ctx.run(pay)

    await runtime(flow, storage=storage, write_behind=write_behind).start(flow, id=RUN)

    assert seen == [["EXECUTION_STARTED", "STEP_STARTED", "STEP_COMPLETED", "STEP_STARTED"]]


@pytest.mark.proves("KER-11")
async def test_a_chosen_id_is_on_disk_before_the_body_runs() -> None:
    storage = MemoryStorage()
    seen: list[int] = []

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        seen.append(len(await records(storage, ctx.execution_id)))

    await runtime(flow, storage=storage).start(flow, id=RUN)

    assert seen == [1]
    assert await kinds(runtime(flow, storage=storage)) == ["STARTED", "COMPLETED"]
