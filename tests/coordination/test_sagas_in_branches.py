"""A saga in a branch that is cut undoes what it did before the branch ends, live, replayed and cut off anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.core.views import open_gates
from loom.driving.errors import ExecutionCompensated
from tests.kernel.running import RUN, cut_off_after, payloads, records, runtime

happened: list[str] = []
broken: set[str] = set()

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def _new_world() -> None:
    happened.clear()
    broken.clear()


@loom.step
async def book(what: str) -> str:
    happened.append(f"book {what}")
    return what


@loom.step
async def cancel(what: str) -> None:
    happened.append(f"cancel {what}")
    if what in broken:
        raise ConnectionError(f"no line to the {what}")


booking = book.undone_by(cancel)


async def books(ctx: loom.Context) -> str:
    """Book two things, and wait for a third."""
    async with loom.saga(ctx) as saga:
        await saga.run(booking, "flight")
        await saga.run(booking, "hotel")
        await ctx.suspend("the car", expects=str)
    return "booked"


async def wins(ctx: loom.Context) -> str:
    await ctx.sleep(0.05)
    return "won"


async def fails(ctx: loom.Context) -> str:
    await ctx.sleep(0.05)
    raise LookupError("no hall is left")


async def beside(ctx: loom.Context) -> None:
    await ctx.parallel(books, fails)


async def outbid(ctx: loom.Context) -> str:
    return (await ctx.select(books=books, wins=wins)).value


async def first(ctx: loom.Context) -> str:
    return str(await ctx.first(1, books, wins))


async def too_late(ctx: loom.Context) -> None:
    async with ctx.scope(timeout=timedelta(milliseconds=50)) as scope:
        await scope.start(books)


async def in_a_block(ctx: loom.Context) -> None:
    async with ctx.scope() as scope:
        task = scope.start(fails)
        await books(ctx)
        await task


async def two_deep(ctx: loom.Context) -> None:
    async def opens(ctx: loom.Context) -> Any:
        return await ctx.parallel(books)

    await ctx.parallel(opens, fails)


CUTS: list[Callable[[loom.Context], Awaitable[Any]]] = [beside, outbid, first, too_late, in_a_block, two_deep]
UNDONE = ["book flight", "book hotel", "cancel hotel", "cancel flight"]


def flow_of(body: Callable[[loom.Context], Awaitable[Any]]) -> Any:
    async def carries(ctx: loom.Context) -> str:
        try:
            await body(ctx)
        except Exception as error:  # noqa: BLE001  # what the scope raises is what is looked at
            told = type(error).__name__
        else:
            told = "went on"
        return await ctx.run("tell", lambda: told)

    return loom.flow(carries)


@pytest.mark.proves("CMP-14")
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
async def test_a_saga_in_a_branch_that_is_cut_undoes_what_it_did_before_the_flow_goes_on(cut: Any) -> None:
    over = runtime(flow := flow_of(cut))

    outcome = await over.start(flow, id=RUN)

    told = {beside: "LookupError", in_a_block: "LookupError", two_deep: "LookupError", too_late: "ScopeTimedOut"}
    assert happened == UNDONE
    assert outcome.value == told.get(cut, "went on")
    ids = [started.id.rpartition("/")[2] for started in await payloads(over, "STEP_STARTED")]
    assert ids == ["book", "book#1", "cancel#compensate:0", "cancel#compensate:1", "tell"]


@pytest.mark.proves("CMP-14")
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
async def test_cut_off_anywhere_it_undoes_the_same_and_nothing_twice(cut: Any) -> None:
    over = runtime(flow := flow_of(cut))
    whole = await over.start(flow, id=RUN)
    log = await records(over.storage)

    for length in range(1, len(log)):
        happened.clear()
        settled = [event.type in ("STEP_COMPLETED", "STEP_FAILED") for event in log[:length]].count(True)
        outcome = await runtime(flow, storage=await cut_off_after(over.storage, length)).resume(RUN)

        assert outcome.value == whole.value
        in_all = UNDONE[:settled] + happened  # cut off early, it may be too late for the second booking
        undone = [each.removeprefix("cancel ") for each in in_all if each.startswith("cancel")]
        assert undone in (["hotel", "flight"], ["flight"], [])
        assert {each.removeprefix("book ") for each in in_all if each.startswith("book")} <= {*undone}


async def gives_up(ctx: loom.Context) -> None:
    """Book, fail, and undo only when a person says so."""
    async with ctx.shield():
        happened.append("in the shield")
        await ctx.suspend("may it be undone?", expects=bool)
        await ctx.run(cancel, "flight")
    await ctx.run(cancel, "never")


@loom.flow
async def shielded(ctx: loom.Context) -> str:
    return str(await ctx.select(gives_up=gives_up, wins=wins))


@pytest.mark.proves("RNG-11")
async def test_a_shield_holds_off_the_cut_of_its_branch_for_as_long_as_a_person_takes() -> None:
    over = runtime(shielded)
    await over.start(shielded, id=RUN)
    state = await over.load_state(RUN)

    assert [gate.gate for gate in open_gates(state)] == ["select/gives_up/may it be undone?"]
    [closed] = await payloads(over, "SCOPE_CLOSED")
    assert closed.shielded == [gate.start for gate in open_gates(state)]

    outcome = await runtime(shielded, storage=over.storage).resume(RUN, answer=True)

    assert outcome.value == "Selected(name='wins', value='won')"
    assert [each for each in happened if each != "in the shield"] == ["cancel flight"]


@pytest.mark.proves("RNG-11")
async def test_a_race_inside_a_shield_ends_as_any_other_also_while_the_branch_around_it_is_cut() -> None:
    async def loses(ctx: loom.Context) -> None:
        await ctx.suspend("never", expects=str)
        happened.append("not reached")

    async def cleans_up(ctx: loom.Context) -> None:
        try:
            await ctx.suspend("never", expects=str)
        finally:
            async with ctx.shield():
                happened.append(str(await ctx.select(wins=wins, loses=loses)))

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.parallel(cleans_up, fails)

    over = runtime(flow)
    outcome = await over.start(flow, id=RUN)

    assert outcome.failure is not None
    assert outcome.failure.type == "LookupError"
    assert happened == ["Selected(name='wins', value='won')"]
    for length in range(1, len(log := await records(over.storage))):
        again = await runtime(flow, storage=await cut_off_after(over.storage, length)).resume(RUN)
        assert (again.failure, happened[-1]) == (outcome.failure, happened[0])
        assert [event.type for event in log].count("SCOPE_CLOSED") == 1


async def test_what_is_not_shielded_is_cut_at_once_though_the_shield_waits_for_it() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        lock = asyncio.Lock()

        async def holds(ctx: loom.Context) -> None:
            async with lock:
                await ctx.suspend("never", expects=str)

        async def wants(ctx: loom.Context) -> None:
            async with ctx.shield(), lock:
                await ctx.run(cancel, "flight")

        return (await ctx.select(holds=holds, wants=wants, wins=wins)).name

    assert (await runtime(flow).start(flow)).value == "wins"
    assert happened == ["cancel flight"]


async def test_an_undo_that_fails_in_a_branch_that_lost_is_raised_by_the_scope() -> None:
    broken.add("hotel")

    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        try:
            await outbid(ctx)
        except loom.CompensationFailed as failed:
            return list(failed.steps)
        return []

    assert (await runtime(flow).start(flow)).value == ["cancel"]
    assert happened == UNDONE


async def test_an_undo_that_fails_beside_a_failure_is_told_by_a_note_on_that() -> None:
    broken.add("hotel")

    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        try:
            await beside(ctx)
        except LookupError as error:
            return error.__notes__
        return []

    [note] = (await runtime(flow).start(flow)).value or []
    assert note.startswith("parallel/0 failed as well: loom.CompensationFailed: what was done could not be undone")


@pytest.mark.proves("CMP-14")
async def test_a_run_whose_branch_was_undone_is_not_retried_as_if_it_were_not() -> None:
    over = runtime(flow := loom.flow(beside))
    assert (await over.start(flow, id=RUN)).status == "failed"

    with pytest.raises(ExecutionCompensated):
        await over.retry(RUN)


@pytest.mark.proves("CMP-14", "RNG-11")
@pytest.mark.parametrize("grace_s", [30.0, 0.0])
async def test_a_cut_branch_that_undoes_while_its_run_is_cancelled_does_so_within_the_grace(grace_s: float) -> None:
    @loom.step
    async def call_off(what: str) -> None:
        happened.append(f"call off {what}")
        asked = loom_runtime.cancel(RUN, grace_s=grace_s)
        tasks.append(asyncio.ensure_future(asked))
        await asyncio.sleep(0.3)
        happened.append(f"called off {what}")

    tasks: list[Any] = []

    async def reserves(ctx: loom.Context) -> None:
        async with loom.saga(ctx) as saga:
            await saga.run(book.undone_by(cancel), "flight")
            await saga.run(book.undone_by(call_off), "hotel")
            await ctx.suspend("never", expects=str)

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.parallel(reserves, fails)

    loom_runtime = runtime(flow)
    outcome = await loom_runtime.start(flow, id=RUN)
    await asyncio.gather(*tasks)

    assert outcome.status == "cancelled"
    undone = ["call off hotel", "called off hotel", "cancel flight"] if grace_s else ["call off hotel"]
    assert happened == ["book flight", "book hotel", *undone]
