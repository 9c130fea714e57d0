"""A run starts others, waits for them, and hears of their ends."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

import loom
from loom.coordination.children import child_id
from loom.core.errors import InvalidDeclaration
from loom.core.ids import ID_LENGTH_MAX, execution_id
from loom.kernel.fold import EVENTS
from loom.spi.event_store import ExecutionQuery
from tests.coordination.kin import (
    TOP,
    all_or_none,
    asking,
    each,
    endless,
    family_of,
    leaf,
    runtime,
    top,
    world,
)
from tests.kernel.running import kinds


@pytest.fixture(autouse=True)
def _new_world() -> None:
    world.__init__()  # type: ignore[misc]  # the steps hold the object


@pytest.mark.proves("CMP-12")
async def test_the_result_of_a_child_arrives_as_it_was_returned() -> None:
    over = runtime()

    outcome = await over.start(top, "word", id=TOP)

    assert outcome.value == Decimal(15)
    assert await family_of(over) == ["top:middle"]
    assert await family_of(over, "top:middle") == ["top:middle:leaf"]
    assert world.happened == ["top:middle:leaf word"]


@pytest.mark.proves("CMP-16")
async def test_children_are_built_from_steps_and_messages_and_no_event_knows_of_them() -> None:
    over = runtime()
    await over.start(top, "word", id=TOP)

    assert await kinds(over, TOP) == [
        "STARTED",
        "STEP_STARTED",
        "STEP_COMPLETED",
        "MESSAGE_AWAITED",
        "MESSAGE_RECEIVED",
        "COMPLETED",
    ]
    assert [type_ for type_ in EVENTS if "CHILD" in type_ or "PARENT" in type_ or "COMPENS" in type_] == []


async def test_a_child_knows_whose_it_is() -> None:
    over = runtime()
    await over.start(top, "word", id=TOP, principal="ann")

    state = await over.load_state("top:middle:leaf")

    assert state.facts.parent is not None
    assert state.facts.parent["execution_id"] == "top:middle"
    assert (state.facts.parent["policy"], state.facts.parent["depth"]) == ("cancel", 2)
    assert state.facts.principal == "ann"


@pytest.mark.proves("CMP-12")
async def test_a_failing_leaf_is_a_typed_failure_at_the_top_with_all_that_led_to_it() -> None:
    world.broken = {"word"}

    outcome = await runtime().start(top, "word", id=TOP)

    failure: loom.FailureRecord | None = outcome.failure
    chain = []
    while failure is not None:
        chain.append((failure.type, failure.channel, (failure.payload or {}).get("child")))
        failure = failure.cause
    assert outcome.status == "failed"
    assert chain == [
        ("loom.ChildFailed", "child_failed", "top:middle"),
        ("loom.ChildFailed", "child_failed", "top:middle:leaf"),
        ("loom.StepFailed", None, None),
    ]
    assert outcome.failure is not None
    assert outcome.failure.message == (
        "top:middle failed: loom.StepFailed: work failed: ConnectionError: no line to word"
    )


async def test_a_failed_child_is_caught_as_a_declared_failure() -> None:
    @loom.flow
    async def careful(ctx: loom.Context) -> Any:
        try:
            return await loom.await_child(ctx, await loom.spawn(ctx, leaf, "word"))
        except loom.TypedFailure as failure:
            return [failure.channel, failure.payload, str(failure)]

    world.broken = {"word"}

    outcome = await runtime(careful).start(careful, id=TOP)

    assert outcome.value == [
        "child_failed",
        {"child": "top:leaf", "flow": "leaf", "status": "failed"},
        "top:leaf failed: loom.StepFailed: work failed: ConnectionError: no line to word",
    ]


@pytest.mark.proves("CMP-12")
async def test_each_of_many_is_waited_for_whatever_becomes_of_the_others() -> None:
    world.broken = {"bb"}

    outcome = await runtime().start(each, ["a", "bb", "ccc"], id=TOP)

    assert outcome.value == [Decimal(1), "top:map/1/leaf", Decimal(3)]


@pytest.mark.proves("CMP-12")
async def test_all_or_nothing_returns_all() -> None:
    assert (await runtime().start(all_or_none, ["a", "bb"], id=TOP)).value == [Decimal(1), Decimal(2)]


@pytest.mark.proves("CMP-12")
async def test_all_or_nothing_raises_the_first_failure() -> None:
    world.broken = {"bb"}

    outcome = await runtime().start(all_or_none, ["a", "bb", "ccc"], id=TOP)

    assert outcome.failure is not None
    assert (outcome.failure.channel, outcome.failure.payload["child"]) == ("child_failed", "top:leaf#1")


async def test_a_child_may_be_awaited_again_and_gives_the_same() -> None:
    @loom.flow
    async def twice(ctx: loom.Context) -> list[Any]:
        child = await loom.spawn(ctx, leaf, "word")
        first, second = await loom.await_child(ctx, child), await loom.await_child(ctx, child)
        return [first, second]

    assert (await runtime(twice).start(twice)).value == [Decimal(4), Decimal(4)]


async def test_a_child_that_is_awaited_in_two_branches_at_once_is_refused() -> None:
    @loom.flow
    async def torn(ctx: loom.Context) -> None:
        child = await loom.spawn(ctx, asking, "who")

        async def wait(ctx: loom.Context) -> None:
            await loom.await_child(ctx, child)

        await ctx.parallel(wait, wait)

    outcome = await runtime(torn).start(torn, id=TOP)

    assert outcome.failure is not None
    assert outcome.failure.message == "top:asking is awaited already"


async def test_a_wait_that_timed_out_can_be_made_again() -> None:
    @loom.flow
    async def impatient(ctx: loom.Context) -> list[str]:
        child = await loom.spawn(ctx, asking, "how many")
        try:
            await loom.await_child(ctx, child, timeout=timedelta(milliseconds=5))
        except loom.ReceiveTimedOut:
            await ctx.suspend("patience", expects=bool)
        return [await loom.await_child(ctx, child)]

    over = runtime(impatient)
    await over.start(impatient, id=TOP)
    await over.resume("top:asking", answer=3)

    outcome = await over.resume(TOP, answer=True)

    assert outcome.value == ["how many: 3"]


async def test_a_child_that_nobody_awaits_goes_on_when_its_parent_has_ended() -> None:
    @loom.flow
    async def careless(ctx: loom.Context) -> str:
        return (await loom.spawn(ctx, leaf, "word")).id

    over = runtime(careless)

    outcome = await over.start(careless, id=TOP)
    await over.settled()

    assert outcome.value == "top:leaf"
    assert (await over.wait("top:leaf")).value == Decimal(4)


# -- ids -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "generation", "id"),
    [
        ("spawn.payout", 0, "refund-42:payout"),
        ("spawn.payout#1", 0, "refund-42:payout#1"),
        ("spawn.payout#order-7", 0, "refund-42:payout#order-7"),
        ("map/3/spawn.payout", 0, "refund-42:map/3/payout"),
        ("spawn.payout", 2, "refund-42:payout+2"),
        ("my branch/a:b/spawn.payout#x+1", 0, "refund-42:my%20branch/a%3Ab/payout#x%2B1"),
    ],
)
def test_the_id_of_a_child_says_whose_it_is_and_where_it_was_started(step: str, generation: int, id: str) -> None:
    assert child_id("refund-42", step, generation) == execution_id(id)


def test_an_id_that_would_be_too_long_is_shortened_and_stays_its_own() -> None:
    long = "x" * 150
    ids = {child_id(f"{long}{n}", f"{'y' * 60}/{branch}/spawn.payout", 0) for n in range(2) for branch in range(2)}

    assert len(ids) == 4
    assert all(len(id) <= ID_LENGTH_MAX and id.startswith("x" * 100) and id.endswith("/payout") for id in ids)


async def test_an_id_that_is_taken_by_another_run_fails_the_step() -> None:
    over = runtime()
    await over.start(leaf, "word", id="top:middle")

    outcome = await over.start(top, "word", id=TOP)

    assert outcome.failure is not None
    assert outcome.failure.message.endswith("loom.ExecutionAlreadyExists: an execution 'top:middle' exists already")


async def test_a_key_names_the_child() -> None:
    @loom.flow
    async def keyed(ctx: loom.Context) -> list[str]:
        return [(await loom.spawn(ctx, leaf, what, key=f"for {what}")).id for what in ("a", "b", "a")]

    over = runtime(keyed)

    assert (await over.start(keyed, id=TOP)).value == ["top:leaf#for%20a", "top:leaf#for%20b", "top:leaf#for%20a"]
    await over.settled()


# -- what is refused -------------------------------------------------------------------------------------------------


async def test_a_flow_that_only_starts_itself_ends_where_nesting_has_to() -> None:
    """Field fault 22."""
    over = runtime(nesting_max=5)

    outcome = await over.start(endless, id=TOP)

    deepest: loom.FailureRecord | None = outcome.failure
    while deepest is not None and deepest.cause is not None:
        deepest = deepest.cause
    assert outcome.status == "failed"
    assert deepest is not None
    assert deepest.type == "loom.NestingTooDeep"
    assert len(await over.find(ExecutionQuery())) == 6


async def test_nesting_is_bounded_without_being_asked_to_and_refused_as_a_type_of_its_own() -> None:
    @loom.flow
    async def bounded(ctx: loom.Context) -> int:
        try:
            return await loom.await_child(ctx, await loom.spawn(ctx, bounded))
        except loom.NestingTooDeep as refused:
            return refused.depth

    assert (await runtime(bounded).start(bounded)).value == 32


async def test_what_cannot_be_started_is_refused_before_anything_is_recorded() -> None:
    @loom.flow
    async def unknown(ctx: loom.Context) -> None:
        await loom.spawn(ctx, "nobody")

    @loom.flow
    async def unfit(ctx: loom.Context) -> None:
        await loom.spawn(ctx, leaf, 3)

    @loom.flow
    async def undecided(ctx: loom.Context) -> None:
        await loom.spawn(ctx, leaf, "word", on_cancel="perhaps")  # type: ignore[call-overload]  # what is refused

    over = runtime(unknown, unfit, undecided)

    for flow, type_ in (
        (unknown, "loom.UnknownFlow"),
        (unfit, "loom.InvalidPayload"),
        (undecided, "loom.InvalidDeclaration"),
    ):
        outcome = await over.start(flow, id=flow.id)
        assert outcome.failure is not None
        assert outcome.failure.type == type_
        assert await kinds(over, flow.id) == ["STARTED", "FAILED"]


async def test_children_are_started_in_flows_alone() -> None:
    nowhere: Any = None

    with pytest.raises(InvalidDeclaration, match=r"loom\.spawn is called in a flow"):
        await loom.spawn(nowhere, leaf, "word")
