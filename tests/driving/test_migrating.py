"""Moving a run to the code as it is: the record counts, in every later replay, and what does not fit is refused in words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import loom
from loom.core.errors import ExecutionTerminated, UnknownFlow
from loom.core.ids import ExecutionId
from loom.driving.errors import CodeChanged, CodeNotPresent, Denied, ExecutionDriven, MigrationRefused
from loom.driving.migrating import Carried
from loom.driving.runtime import WorkflowRuntime
from loom.kernel.errors import ReplayDivergence
from loom.spi.event_store import Append, AppendResult
from loom.spi.host import VirtualHost
from loom.spi.memory import MemoryStorage
from loom.values import InvalidPayload, RecordUnreadable
from tests.kernel.running import RUN, cut_off_after, kinds, payloads, records, runtime

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@dataclass
class Order:
    id: str
    euros: int


@dataclass
class OrderInCents:
    id: str
    cents: int
    currency: str


@loom.step
async def book(id: str) -> str:
    ran.append(f"book {id}")
    return f"booked {id}"


@loom.step
async def bill(amount: str) -> str:
    ran.append(f"bill {amount}")
    return amount


@loom.step(idempotent=False)
async def pay(amount: int) -> int:
    return amount


@loom.flow(id="shop", version="1")
async def first(ctx: loom.Context, order: Order) -> list[Any]:
    booked = await ctx.run(book, order.id)
    return [booked, await ctx.suspend("go"), await ctx.run(bill, f"{order.euros} euros")]


@loom.flow(id="shop", version="2")
async def second(ctx: loom.Context, order: OrderInCents) -> list[Any]:
    booked = await ctx.run(book, order.id)
    return [booked, await ctx.suspend("go"), await ctx.run(bill, f"{order.cents} {order.currency}")]


def in_cents(old: Carried) -> OrderInCents:
    return OrderInCents(old.input["id"], old.input["euros"] * 100, "EUR")


def forgotten(old: Carried) -> OrderInCents:
    raise AssertionError("a replay calls no migration")


async def waiting(flow: Any = first, order: Any = None) -> WorkflowRuntime:
    over = runtime(flow)
    await over.start(flow, order or Order("a-1", 7), id=RUN)
    ran.clear()
    return over


@pytest.mark.proves("RPL-09")
async def test_the_migrated_input_is_recorded_and_no_later_replay_calls_the_function() -> None:
    over = await waiting()
    changed = runtime(second, storage=over.storage)
    with pytest.raises(RecordUnreadable) as unreadable:
        await changed.resume(RUN, answer=1)
    assert "loom migrate run-1 --input JSON" in unreadable.value.hint

    moved = await changed.resume_as(RUN, version="2", migrate=in_cents, principal="ada", reason="cents now")

    assert moved.status == "suspended"
    later = runtime(second, storage=over.storage)
    assert (await later.resume(RUN, answer=1)).value == ["booked a-1", 1, "700 EUR"]
    assert ran == ["bill 700 EUR"]
    [fact] = await payloads(later, "EXECUTION_MIGRATED")
    assert fact.given == {"input": {"id": "a-1", "cents": 700, "currency": "EUR"}}
    assert (fact.flow, fact.version, fact.reason) == ("shop", "2", "cents now")
    [event] = [event for event in await later.events(RUN) if event.type == "EXECUTION_MIGRATED"]
    assert event.metadata == {"principal": "ada"}


async def test_a_moved_run_cut_off_at_any_event_goes_on_by_the_record() -> None:
    over = await waiting()
    changed = runtime(second, storage=over.storage)
    await changed.resume_as(RUN, migrate=in_cents)
    await changed.resume(RUN, answer=1)
    log = await records(over.storage)
    moved = [record.type for record in log].index("EXECUTION_MIGRATED")

    for length in range(moved + 1, len(log)):
        left = runtime(second, storage=await cut_off_after(over.storage, length))
        outcome = await left.resume(RUN)
        if outcome.status == "suspended":
            outcome = await left.resume(RUN, answer=1)
        assert outcome.value == ["booked a-1", 1, "700 EUR"], length


async def test_the_state_says_what_the_run_is_from_then_on() -> None:
    over = await waiting()
    changed = runtime(second, storage=over.storage)

    migration = await changed.migrate(RUN, migrate=in_cents)

    facts = (await changed.load_state(RUN)).facts
    assert (facts.version, facts.input["cents"], facts.fingerprint) == ("2", 700, migration.fact.after)
    assert (migration.version_before, migration.sequence, migration.is_new_input) == ("1", 5, True)
    assert ran == []


async def test_a_migration_is_given_what_the_run_has_come_to() -> None:
    over = await waiting()
    given: list[Carried] = []

    def keep(old: Carried) -> OrderInCents:
        given.append(old)
        return in_cents(old)

    await runtime(second, storage=over.storage).migrate(RUN, migrate=keep, dry_run=True)

    assert given == [Carried(ExecutionId(RUN), "shop", "1", {"id": "a-1", "euros": 7}, {"book": "booked a-1"})]


@pytest.mark.parametrize(
    "input", [{"id": "a-1"}, {"id": "a-1", "cents": "many", "currency": "EUR"}, 7], ids=["less", "wrong", "no object"]
)
async def test_what_the_new_version_does_not_take_is_refused(input: Any) -> None:
    over = await waiting()
    log = await records(over.storage)

    with pytest.raises(InvalidPayload):
        await runtime(second, storage=over.storage).resume_as(RUN, input=input)

    assert await records(over.storage) == log


async def test_an_input_that_no_longer_fits_is_refused_unless_there_is_a_new_one() -> None:
    over = await waiting()
    log = await records(over.storage)

    with pytest.raises(MigrationRefused, match="the record has no cents"):
        await runtime(second, storage=over.storage).resume_as(RUN)

    assert await records(over.storage) == log


# the prefix


def asking(*asks: Any, id: str = "shop", version: str = "2") -> loom.Flow[[Order], Any]:
    @loom.flow(id=id, version=version)
    async def flow(ctx: loom.Context, order: Order) -> list[Any]:
        return [*[await ask(ctx) for ask in asks], await ctx.suspend("go")]

    return flow


@pytest.mark.proves("RPL-08")
async def test_what_is_recorded_and_not_asked_is_refused_with_both_sides_and_nothing_is_written() -> None:
    over = await waiting()
    log = await records(over.storage)
    other = runtime(asking(lambda ctx: ctx.run(bill, "7")), storage=over.storage)

    with pytest.raises(MigrationRefused) as refused:
        await other.migrate(RUN)

    assert refused.value.recorded is not None
    assert refused.value.asked is not None
    assert (refused.value.recorded["id"], refused.value.asked["id"]) == ("book", "bill")
    assert __file__ in refused.value.where
    assert '\nrecorded step book with {"id": "a-1"}\nasked step bill' in str(refused.value)
    assert (await records(over.storage), ran) == (log, [])


async def test_another_argument_is_noted_and_another_argument_of_what_must_not_run_twice_is_refused() -> None:
    over = await waiting(asking(lambda ctx: ctx.run(book, "a-1"), lambda ctx: ctx.run(pay, 7)))
    noting = runtime(asking(lambda ctx: ctx.run(book, "a-2"), lambda ctx: ctx.run(pay, 7)), storage=over.storage)
    paying = runtime(asking(lambda ctx: ctx.run(book, "a-1"), lambda ctx: ctx.run(pay, 8)), storage=over.storage)

    with pytest.raises(MigrationRefused, match="pay"):
        await paying.migrate(RUN)
    migration = await noting.migrate(RUN)

    assert [difference["id"] for difference in migration.fact.differences] == ["book"]
    assert (await noting.resume(RUN, answer=1)).value == ["booked a-1", 7, 1]
    assert len(await payloads(noting, "EXECUTION_MIGRATED")) == 1, "the code is that of the run"


async def test_another_question_of_a_gate_is_refused() -> None:
    over = await waiting(asking(lambda ctx: ctx.run(book, "a-1")))

    @loom.flow(id="shop", version="2")
    async def other(ctx: loom.Context, order: Order) -> Any:
        return [await ctx.run(book, "a-1"), await ctx.suspend("go", show="something else")]

    with pytest.raises(MigrationRefused, match="go"):
        await runtime(other, storage=over.storage).migrate(RUN)


async def test_the_patches_that_a_run_has_passed_are_recorded_with_the_move() -> None:
    over = await waiting(asking(lambda ctx: ctx.run(book, "a-1")))

    async def patched(ctx: loom.Context) -> Any:
        return await ctx.run(bill if ctx.patched("bill first") else book, "a-1")

    changed = runtime(asking(patched), storage=over.storage)

    migration = await changed.migrate(RUN)

    assert migration.fact.unpatched == ["bill first"]
    assert (await changed.resume(RUN, answer=1)).value == ["booked a-1", 1]


async def test_a_diverged_run_whose_code_is_mended_waits_again_once_it_is_moved() -> None:
    over = await waiting()
    with pytest.raises(ReplayDivergence):
        await runtime(asking(lambda ctx: ctx.run(bill, "7")), storage=over.storage).resume(RUN)
    assert (await over.load_state(RUN)).status == "diverged"

    migration = await runtime(second, storage=over.storage).migrate(RUN, migrate=in_cents)

    state = await over.load_state(RUN)
    assert (migration.status, state.status, state.facts.difference) == ("suspended", "suspended", None)
    assert (await over.storage.row(state.execution_id)).index.wake_at is not None, "a worker takes it up"  # type: ignore[union-attr]


# who, where to, and when not


@pytest.mark.proves("RPL-08")
@pytest.mark.parametrize("length", [None, 10])
async def test_the_present_fingerprint_or_its_beginning_is_where_to(length: int | None) -> None:
    over = await waiting()
    changed = runtime(second, storage=over.storage, on_change="refuse")
    with pytest.raises(CodeChanged) as refused:
        await changed.resume(RUN)

    await changed.migrate(RUN, to=refused.value.present[:length], migrate=in_cents)

    assert (await changed.resume(RUN, answer=1)).value == ["booked a-1", 1, "700 EUR"]


@pytest.mark.parametrize("to", ["1:nothing-like-it", "1:", "", "unreadable:shop"])
async def test_another_fingerprint_than_the_present_one_is_refused_and_the_present_one_told(to: str) -> None:
    over = await waiting()
    changed = runtime(second, storage=over.storage)
    log = await records(over.storage)

    with pytest.raises(CodeNotPresent) as refused:
        await changed.migrate(RUN, to=to, migrate=in_cents)

    present = (await changed.migrate(RUN, migrate=in_cents, dry_run=True)).fact.after
    assert (refused.value.present, present in str(refused.value)) == (present, True)
    assert await records(over.storage) == log


async def test_a_version_that_the_code_does_not_have_is_refused() -> None:
    over = await waiting()

    with pytest.raises(UnknownFlow, match="shop version 3"):
        await runtime(second, storage=over.storage).resume_as(RUN, version="3", migrate=in_cents)


async def test_a_run_that_has_ended_is_not_moved() -> None:
    over = await waiting()
    await over.resume(RUN, answer=1)

    with pytest.raises(ExecutionTerminated):
        await runtime(second, storage=over.storage).migrate(RUN, migrate=in_cents)


async def test_a_run_that_is_being_driven_is_not_moved() -> None:
    begun, done = asyncio.Event(), asyncio.Event()

    async def rest() -> None:
        begun.set()
        await done.wait()

    @loom.flow(id="shop")
    async def busy(ctx: loom.Context, order: Order) -> Any:
        return await ctx.run("rest", rest)

    over = runtime(busy)
    driving = asyncio.create_task(over.start(busy, Order("a-1", 7), id=RUN))
    await begun.wait()

    with pytest.raises(ExecutionDriven):
        await over.migrate(RUN)
    with pytest.raises(ExecutionDriven):
        await runtime(busy, storage=over.storage).migrate(RUN)

    done.set()
    await driving


async def test_who_may_not_move_a_run_does_not() -> None:
    class Strict:
        async def authorize(self, principal: str | None, action: str, *_: Any) -> str | None:
            return "not you" if action == "migrate" else None

    over = await waiting()
    strict = runtime(second, storage=over.storage, authorizer=Strict())

    with pytest.raises(Denied):
        await strict.resume_as(RUN, migrate=in_cents, principal="eve")

    assert (await kinds(over))[-1] == "DENIED"


async def test_a_run_goes_on_as_one_of_another_flow() -> None:
    over = await waiting()
    other = asking(lambda ctx: ctx.run(book, "a-1"), id="shop2", version="1")
    both = runtime(first, other, storage=over.storage)

    assert (await both.resume_as(RUN, "shop2")).status == "suspended"

    assert (await both.resume(RUN, answer=1)).value == ["booked a-1", 1]
    [row] = await over.find(loom.spi.ExecutionQuery(flows=["shop2"]))
    assert row.execution_id == RUN


async def test_a_run_that_is_counted_does_not_leave_its_flow() -> None:
    @loom.flow(id="counted", starts=loom.Starts(concurrency=loom.Limit(1)))
    async def counted(ctx: loom.Context, order: Order) -> Any:
        return [await ctx.run(book, "a-1"), await ctx.suspend("go")]

    over = await waiting()

    with pytest.raises(MigrationRefused, match="counted"):
        await runtime(first, counted, storage=over.storage).migrate(RUN, "counted")


async def test_of_a_chain_the_link_that_is_open_is_moved() -> None:
    def rolling(step: Any) -> loom.Flow[[int], Any]:
        @loom.flow(id="rolls")
        async def rolls(ctx: loom.Context, n: int) -> Any:
            if n == 1:
                return await ctx.continue_as_new(2)
            return [n, await ctx.suspend("go"), await ctx.run(step, "x")]

        return rolls

    over = runtime(rolling(book))
    await over.start("rolls", 1, id=RUN)
    changed = runtime(rolling(bill), storage=over.storage, on_change="refuse")

    migration = await changed.migrate(RUN, input=3)

    assert migration.execution_id == f"{RUN}~2"
    assert (await changed.resume(RUN, answer=1)).value == [3, 1, "x"]


async def test_a_move_that_changes_nothing_writes_nothing_and_says_so() -> None:
    over = await waiting()
    before = await over.events(RUN)

    needless = await over.migrate(RUN)
    moved = await runtime(second, storage=over.storage).migrate(RUN, migrate=in_cents)

    assert (needless.is_needless, needless.sequence) == (True, None)
    assert (moved.is_needless, moved.sequence) == (False, len(before))


async def test_a_paused_run_stays_paused() -> None:
    over = await waiting()
    await over.pause(RUN)
    changed = runtime(second, storage=over.storage)

    await changed.migrate(RUN, migrate=in_cents)

    assert (await changed.load_state(RUN)).status == "paused"
    assert (await changed.unpause(RUN)).status == "suspended"


class Interrupted(MemoryStorage):
    """A store in which something else happens just before an append."""

    before: Callable[[], Awaitable[Any]] | None = None

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        before, self.before = self.before, None
        if before is not None:
            await before()
        return await super().append(batch)


async def test_what_happened_to_the_run_meanwhile_is_looked_at_before_it_is_moved() -> None:
    storage = Interrupted()
    over = runtime(first, storage=storage)
    await over.start(first, Order("a-1", 7), id=RUN)
    storage.before = partial(over.pause, RUN)

    migration = await runtime(second, storage=storage).migrate(RUN, migrate=in_cents)

    assert (await kinds(over))[-2:] == ["PAUSED", "MIGRATED"]
    assert (migration.status, migration.sequence) == ("paused", 6)


async def test_a_run_that_was_answered_meanwhile_and_ended_is_not_moved() -> None:
    storage = Interrupted()
    over = runtime(first, storage=storage)
    await over.start(first, Order("a-1", 7), id=RUN)
    storage.before = partial(over.resume, RUN, answer=1)

    with pytest.raises(ExecutionTerminated):
        await runtime(second, storage=storage).migrate(RUN, migrate=in_cents)

    assert (await kinds(over))[-1] == "COMPLETED"


async def test_a_run_that_its_driver_left_behind_is_moved_and_taken_over_by_who_drives_it() -> None:
    begun = asyncio.Event()

    async def rest() -> str:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return "rested"

    def version(note: str) -> loom.Flow[[Order], Any]:
        @loom.flow(id="shop")
        async def shop(ctx: loom.Context, order: Order) -> Any:
            return [await ctx.run("rest", rest), note]

        return shop

    over = runtime(version("old"), host=VirtualHost("gone"))
    driving = asyncio.create_task(over.start("shop", Order("a-1", 7), id=RUN))
    await begun.wait()
    host = VirtualHost("here")
    host.gone.add("gone/1")
    changed = runtime(version("new"), storage=over.storage, host=host, on_change="refuse")

    await changed.migrate(RUN)
    outcome = await changed.resume(RUN)

    assert outcome.value == ["rested", "new"]
    assert [kind for kind in await kinds(changed) if kind in ("MIGRATED", "TAKEN_OVER")] == ["MIGRATED", "TAKEN_OVER"]
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
