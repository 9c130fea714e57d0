"""A saga undoes what was done, in reverse, once each, whatever became of it."""

from __future__ import annotations

from typing import Any

import pytest

import loom
from loom.core.errors import InvalidDeclaration
from loom.driving.errors import ExecutionCompensated
from tests.kernel.running import RUN, cut_off_after, payloads, records, runtime


class World:
    """What the steps touch: what happened, in order, under which key, and what is broken just now."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.keys: dict[str, set[str]] = {}
        self.broken: set[str] = set()

    def happen(self, step: loom.StepContext, what: str) -> None:
        self.happened.append(what)
        self.keys.setdefault(what, set()).add(step.idempotency_key)
        if what in self.broken:
            raise ConnectionError(f"no line to {what}")


world = World()


@pytest.fixture(autouse=True)
def _new_world() -> None:
    world.__init__()  # type: ignore[misc]  # the steps below hold the object


@loom.step
async def book(step: loom.StepContext, what: str, nights: int = 1) -> str:
    world.happen(step, f"book {what}")
    return f"{what} for {nights}"


@loom.step
async def cancel(step: loom.StepContext, what: str, nights: int = 1) -> None:
    world.happen(step, f"cancel {what}")


@loom.step
async def apologize(step: loom.StepContext, reason: str) -> None:
    world.happen(step, f"apologize for {reason}")


booking = book.undone_by(cancel)


@loom.flow
async def trip(ctx: loom.Context) -> list[str]:
    async with loom.saga(ctx) as saga:
        return [await saga.run(booking, what) for what in ("flight", "hotel", "car")]


@pytest.mark.proves("CMP-14")
async def test_what_was_done_is_undone_in_reverse_and_the_failure_goes_on() -> None:
    world.broken = {"book car"}

    outcome = await runtime(trip).start(trip)

    assert world.happened == ["book flight", "book hotel", "book car", "cancel car", "cancel hotel", "cancel flight"]
    assert outcome.status == "failed"
    assert outcome.failure is not None
    assert outcome.failure.message == "book#2 failed: ConnectionError: no line to book car"


@pytest.mark.proves("CMP-14")
async def test_a_saga_that_ends_well_undoes_nothing() -> None:
    outcome = await runtime(trip).start(trip)

    assert outcome.value == ["flight for 1", "hotel for 1", "car for 1"]
    assert world.happened == ["book flight", "book hotel", "book car"]


@pytest.mark.proves("CMP-16")
async def test_an_undo_is_a_step_with_a_tag_of_its_own_and_nothing_else_in_the_log() -> None:
    world.broken = {"book hotel"}
    over = runtime(trip)

    await over.start(trip, id=RUN)

    assert [start.id for start in await payloads(over, "STEP_STARTED")] == [
        "book",
        "book#1",
        "cancel#compensate:0",
        "cancel#compensate:1",
    ]
    assert {record.type for record in await records(over.storage)} == {
        "EXECUTION_STARTED",
        "STEP_STARTED",
        "STEP_COMPLETED",
        "STEP_FAILED",
        "EXECUTION_FAILED",
    }


@loom.flow
async def careful(ctx: loom.Context) -> list[str]:
    """Book, and tell what the caller is told."""
    try:
        async with loom.saga(ctx) as saga:
            await saga.run(booking, "flight", nights=3)
            saga.undo(apologize, reason="the hotel")
            await ctx.run(book, "hotel")
            await saga.run(booking, "car")
    except loom.CompensationFailed as failed:
        cause = failed.__cause__
        return [*failed.steps, *map(str, failed.records), type(cause).__name__]
    except loom.StepFailed as failed:
        return [failed.message]
    return []


async def test_an_undo_may_have_arguments_of_its_own() -> None:
    world.broken = {"book car"}
    over = runtime(careful)

    outcome = await over.start(careful, id=RUN)

    assert outcome.value == ["no line to book car"]
    assert world.happened[3:] == ["cancel car", "apologize for the hotel", "cancel flight"]
    assert (await payloads(over, "STEP_STARTED"))[-1].args == {"what": "flight", "nights": 3}


@pytest.mark.proves("CMP-14")
async def test_an_undo_that_fails_does_not_keep_the_others_from_being_called() -> None:
    world.broken = {"book car", "cancel car", "apologize for the hotel"}

    outcome = await runtime(careful).start(careful)

    assert world.happened[3:] == ["cancel car", "apologize for the hotel", "cancel flight"]
    assert outcome.value == [
        "cancel",
        "apologize",
        "ConnectionError: no line to cancel car",
        "ConnectionError: no line to apologize for the hotel",
        "StepFailed",
    ]


async def test_a_failed_undo_stands_on_the_log_beside_what_the_saga_failed_with() -> None:
    world.broken = {"book car", "cancel hotel"}

    outcome = await runtime(trip).start(trip)

    assert outcome.failure is not None
    assert outcome.failure.type == "loom.CompensationFailed"
    assert outcome.failure.message.endswith("cancel: ConnectionError: no line to cancel hotel")
    assert outcome.failure.cause is not None
    assert outcome.failure.cause.message == "book#2 failed: ConnectionError: no line to book car"


@pytest.mark.parametrize("broken", [{"book car"}, {"book car", "cancel hotel"}])
async def test_a_run_that_was_undone_cannot_be_retried_as_if_it_were_not(broken: set[str]) -> None:
    world.broken = broken
    over = runtime(trip)
    await over.start(trip, id=RUN)

    with pytest.raises(ExecutionCompensated, match="nothing to build on"):
        await over.retry(RUN)


@loom.flow
async def two_tries(ctx: loom.Context) -> str:
    """Fail in a saga, get over it, and fail again."""
    try:
        async with loom.saga(ctx) as saga:
            await saga.run(booking, "flight")
            await saga.run(booking, "hotel")
    except loom.StepFailed:
        return await ctx.run(book, "train")
    return ""


async def test_a_run_that_got_over_what_was_undone_is_retried_like_any_other() -> None:
    world.broken = {"book hotel", "book train"}
    over = runtime(two_tries)
    await over.start(two_tries, id=RUN)
    before = len(world.happened)

    world.broken = {"book hotel"}
    outcome = await over.retry(RUN)

    assert outcome.value == "train for 1"
    assert world.happened[before:] == ["book train"]


async def test_an_undo_is_called_with_its_arguments_as_they_were() -> None:
    @loom.step
    async def put(items: list[str]) -> None: ...

    @loom.step
    async def take(step: loom.StepContext, items: list[str]) -> None:
        world.happen(step, f"take {items}")

    @loom.flow
    async def boxes(ctx: loom.Context) -> None:
        items = ["a"]
        async with loom.saga(ctx) as saga:
            await saga.run(put.undone_by(take), items)
            items.append("b")
            raise ValueError("enough")

    await runtime(boxes).start(boxes)

    assert world.happened == ["take ['a']"]


def test_an_undo_that_does_not_take_what_the_step_takes_is_refused_where_it_is_declared() -> None:
    with pytest.raises(InvalidDeclaration, match="apologize cannot undo book: ") as refused:
        book.undone_by(apologize)  # type: ignore[arg-type]  # what is refused

    assert "saga.undo(undo, ...)" in refused.value.hint


async def test_a_step_without_an_undo_is_refused_before_anything_happens() -> None:
    @loom.flow
    async def wrong(ctx: loom.Context) -> None:
        async with loom.saga(ctx) as saga:
            await saga.run(book, "flight")  # type: ignore[arg-type]  # what is refused

    outcome = await runtime(wrong).start(wrong)

    assert outcome.failure is not None
    assert outcome.failure.message.startswith("saga.run takes step.undone_by(undo)")
    assert world.happened == []


async def test_a_step_that_is_refused_before_it_begins_is_not_undone() -> None:
    @loom.flow
    async def wrong(ctx: loom.Context) -> None:
        async with loom.saga(ctx) as saga:
            await saga.run(booking, object())  # type: ignore[arg-type]  # what is refused

    outcome = await runtime(wrong).start(wrong)

    assert outcome.failure is not None
    assert outcome.failure.type == "loom.NotSerializable"
    assert world.happened == []


@loom.flow
async def nested(ctx: loom.Context) -> None:
    async with loom.saga(ctx) as outer:
        await outer.run(booking, "flight")
        async with loom.saga(ctx) as well:
            await well.run(booking, "lunch")
        async with loom.saga(ctx) as inner:
            await inner.run(booking, "hotel")
            await outer.run(booking, "car")
            await inner.run(booking, "spa")


async def test_each_of_nested_sagas_undoes_its_own_the_inner_one_first() -> None:
    world.broken = {"book spa"}

    await runtime(nested).start(nested)

    assert world.happened[5:] == ["cancel spa", "cancel hotel", "cancel car", "cancel flight"]


@loom.flow
async def side_by_side(ctx: loom.Context) -> None:
    async with loom.saga(ctx) as saga:

        async def one(ctx: loom.Context, what: str) -> str:
            async with loom.saga(ctx) as own:
                await own.run(booking, f"{what} seat")
                return await saga.run(booking, what)

        await ctx.map(one, ["flight", "train"])
        await saga.run(booking, "hotel")


async def test_steps_of_branches_are_undone_by_the_saga_around_them() -> None:
    world.broken = {"book hotel"}

    await runtime(side_by_side).start(side_by_side)

    assert world.happened[-3:] == ["cancel hotel", "cancel train", "cancel flight"]


@loom.flow
async def waiting(ctx: loom.Context) -> str:
    async with loom.saga(ctx) as saga:
        await saga.run(booking, "flight")
        if await ctx.suspend("sure", expects=bool):
            return "booked"
        raise ValueError("not sure")


async def test_a_saga_that_waits_is_not_undone_by_the_run_being_put_away() -> None:
    over = runtime(waiting)
    await over.start(waiting, id=RUN)

    assert world.happened == ["book flight"]
    assert (await runtime(waiting, storage=over.storage).resume(RUN, answer=False)).status == "failed"
    assert world.happened == ["book flight", "cancel flight"]


@pytest.mark.proves("CMP-14")
@pytest.mark.parametrize("broken", [{"book car"}, {"book car", "cancel hotel"}])
async def test_a_saga_that_was_cut_off_anywhere_goes_on_and_undoes_nothing_twice(broken: set[str]) -> None:
    world.broken = broken
    over = runtime(trip)
    whole = await over.start(trip, id=RUN)
    log = await records(over.storage)

    for length in range(1, len(log)):
        world.happened.clear()
        again = await runtime(trip, storage=await cut_off_after(over.storage, length)).resume(RUN)

        assert again.failure == whole.failure
        settled = [event.type in ("STEP_COMPLETED", "STEP_FAILED") for event in log[:length]].count(True)
        assert (
            world.happened
            == [
                "book flight",
                "book hotel",
                "book car",
                "cancel car",
                "cancel hotel",
                "cancel flight",
            ][settled:]
        )


def test_it_can_be_told_from_the_outside_which_undo_failed_and_why() -> None:
    why: Any = loom.FailureRecord(type="ConnectionError", message="no line")

    failed = loom.CompensationFailed(steps=["cancel"], records=[why])

    assert str(failed) == "what was done could not be undone: cancel: ConnectionError: no line"


# What there is nothing to undo of


class SoldOut(Exception):
    """A declared failure that is an exception of the author's own."""


@loom.step(failures={"declined": str, "sold_out": SoldOut})
async def charge(step: loom.StepContext, how: str) -> str:
    world.happened.append(f"charge {how}")
    if how == "sold_out":
        raise SoldOut(how)
    if how in ("declined", "undeclared"):
        raise loom.fail(how, "no money") if how == "declined" else LookupError(how)
    return how


@loom.step
async def refund(how: str) -> None:
    world.happened.append(f"refund {how}")


@loom.flow
async def shop(ctx: loom.Context, ways: list[str]) -> str:
    charging = charge.undone_by(refund, unless=["declined", "sold_out"])
    async with loom.saga(ctx) as saga:
        for how in ways:
            try:
                await saga.run(charging, how)
            except (loom.TypedFailure, SoldOut):
                await ctx.suspend("on", expects=bool)
        raise ValueError("it all failed in the end")


@pytest.mark.parametrize("gone", ["declined", "sold_out"])
async def test_an_undo_is_not_called_where_its_step_failed_as_what_did_nothing_live_and_replayed(gone: str) -> None:
    over = runtime(shop)
    ways = ["visa", gone, "visa"]

    await over.start(shop, ways, id=RUN)
    outcome = await runtime(shop, storage=over.storage).resume(RUN, answer=True)

    assert outcome.status == "failed"
    assert world.happened == ["charge visa", f"charge {gone}", "charge visa", "refund visa", "refund visa"]


async def test_any_other_failure_does_not_say_that_nothing_was_done() -> None:
    outcome = await runtime(shop).start(shop, ["visa", "undeclared"])

    assert outcome.status == "failed"
    assert world.happened == ["charge visa", "charge undeclared", "refund undeclared", "refund visa"]


def test_only_a_declared_failure_can_say_that_nothing_was_done() -> None:
    with pytest.raises(InvalidDeclaration, match="charge declares no failure 'refused'"):
        charge.undone_by(refund, unless=["refused"])
