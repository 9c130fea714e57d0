"""Kernel rule 8.1: what a retry of a failed run makes void, and what it keeps."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.core.state import empty_state
from loom.driving.errors import ExecutionNotFailed
from loom.driving.retrying import retried
from loom.spi.conflicts import SequenceConflict
from tests.kernel.running import RUN, kinds, payloads, runtime


class World:
    """What the steps touch: what they ran, with which key, and what is broken just now."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.keys: dict[str, list[str]] = {}
        self.broken: set[str] = set()


world = World()


@pytest.fixture(autouse=True)
def _new_world() -> None:
    world.__init__()  # type: ignore[misc]  # the steps below hold the object


@loom.step
async def work(step: loom.StepContext, name: str) -> str:
    world.ran.append(name)
    world.keys.setdefault(name, []).append(step.idempotency_key)
    if name in world.broken:
        raise ConnectionError(name)
    return name


@loom.flow
async def in_order(ctx: loom.Context) -> list[str]:
    return [await ctx.run(work, name) for name in ("a", "b", "c")]


async def test_a_retried_step_keeps_its_key_and_what_succeeded_before_it_stays() -> None:
    world.broken = {"b"}
    over = runtime(in_order)
    failed = await over.start(in_order, id=RUN)

    world.broken = set()
    outcome = await runtime(in_order, storage=over.storage).retry(RUN)

    assert failed.status == "failed"
    assert outcome.value == ["a", "b", "c"]
    assert world.ran == ["a", "b", "b", "c"]
    assert len(set(world.keys["b"])) == 1


async def test_a_retry_that_fails_again_can_be_retried_again() -> None:
    world.broken = {"b"}
    over = runtime(in_order)
    await over.start(in_order, id=RUN)

    again = await over.retry(RUN)
    world.broken = set()
    outcome = await over.retry(RUN)

    assert (again.status, outcome.value) == ("failed", ["a", "b", "c"])
    assert world.ran == ["a", "b", "b", "b", "c"]
    assert (await over.load_state(RUN)).facts.generation == 2


@loom.flow
async def checks(ctx: loom.Context) -> list[str]:
    async def branch(ctx: loom.Context, name: str) -> str:
        await ctx.run(work, f"{name}1")
        return await ctx.run(work, f"{name}2")

    async def left(ctx: loom.Context) -> str:
        return await branch(ctx, "l")

    async def right(ctx: loom.Context) -> str:
        return await branch(ctx, "r")

    both = await ctx.parallel(left, right)
    return [*both, await ctx.run(work, "after")]


async def test_siblings_of_the_failed_branch_keep_their_records() -> None:
    world.broken = {"r2"}
    over = runtime(checks)
    await over.start(checks, id=RUN)
    sibling_ran = [name for name in world.ran if name.startswith("l")]

    world.broken = set()
    outcome = await runtime(checks, storage=over.storage).retry(RUN)

    assert outcome.value == ["l2", "r2", "after"]
    assert [name for name in world.ran if name.startswith("l")] == ["l1", "l2"]
    assert sibling_ran[0] == "l1"
    assert world.ran.count("r1") == 1


@pytest.mark.parametrize("limit", [None, 1, 2])
async def test_a_map_goes_on_where_it_was_cut(limit: int | None) -> None:
    @loom.flow
    async def each(ctx: loom.Context) -> list[str]:
        return await ctx.map(work, ["a", "b", "c", "d"], limit=limit)

    world.broken = {"b"}
    over = runtime(each)
    await over.start(each, id=RUN)
    before = list(world.ran)

    world.broken = set()
    outcome = await runtime(each, storage=over.storage).retry(RUN)

    assert outcome.value == ["a", "b", "c", "d"]
    assert world.ran.count("b") == 2
    assert all(world.ran.count(name) == 1 for name in "acd")
    assert before.count("b") == 1


@loom.flow
async def nested(ctx: loom.Context) -> list[Any]:
    async def inner(ctx: loom.Context, name: str) -> str:
        await ctx.run(work, f"{name}-1")
        return await ctx.run(work, f"{name}-2")

    async def outer(ctx: loom.Context, name: str) -> list[str]:
        got = await ctx.map(inner, [f"{name}x", f"{name}y"])
        return [*got, await ctx.run(work, f"{name}-end")]

    return await ctx.map(outer, ["a", "b"], name="outer")


async def test_in_nested_scopes_only_the_way_of_the_failure_is_tried_again() -> None:
    world.broken = {"ay-2"}
    over = runtime(nested)
    failed = await over.start(nested, id=RUN)

    world.broken = set()
    outcome = await runtime(nested, storage=over.storage).retry(RUN)

    assert failed.status == "failed"
    assert outcome.value == [["ax-2", "ay-2", "a-end"], ["bx-2", "by-2", "b-end"]]
    assert {name: world.ran.count(name) for name in set(world.ran) if world.ran.count(name) > 1} == {"ay-2": 2}


@loom.flow
async def caught_first(ctx: loom.Context) -> str:
    try:
        await ctx.run(work, "first")
    except loom.StepFailed:
        await ctx.emit("fell.back")
    return await ctx.run(work, "second")


async def test_a_failure_that_the_flow_caught_is_not_tried_again() -> None:
    world.broken = {"first", "second"}
    over = runtime(caught_first)
    await over.start(caught_first, id=RUN)

    world.broken = set()
    outcome = await over.retry(RUN)

    assert outcome.value == "second"
    assert world.ran == ["first", "second", "second"]
    assert (await kinds(over)).count("user.fell.back") == 1


@loom.flow
async def wrapped(ctx: loom.Context) -> str:
    try:
        return await ctx.run(work, "a")
    except loom.StepFailed as error:
        raise RuntimeError("no luck") from error


async def test_a_failure_that_the_flow_wrapped_is_found_again() -> None:
    world.broken = {"a"}
    over = runtime(wrapped)
    await over.start(wrapped, id=RUN)

    world.broken = set()
    outcome = await over.retry(RUN)

    assert outcome.value == "a"


@loom.flow
async def asks_in_time(ctx: loom.Context) -> str:
    await ctx.run(work, "before")
    return await ctx.suspend("approve", expects=str, timeout=timedelta(0))


async def test_a_gate_that_timed_out_is_asked_anew_as_the_next_generation() -> None:
    over = runtime(asks_in_time)
    failed = await over.start(asks_in_time, id=RUN, linger_s=0)

    await over.retry(RUN)

    gates = await payloads(over, "GATE_OPENED")
    assert failed.failure is not None
    assert failed.failure.type == "loom.GateTimedOut"
    assert [(gate.id, gate.gen) for gate in gates] == [("approve", None), ("approve", 1)]
    assert world.ran == ["before"]


@loom.flow
async def asked_side_by_side(ctx: loom.Context) -> list[str]:
    return list(await asyncio.gather(ctx.run(work, "bad"), ctx.run(work, "later")))


async def test_what_the_scope_asked_after_the_failure_is_void_and_has_a_new_key() -> None:
    world.broken = {"bad"}
    over = runtime(asked_side_by_side)
    await over.start(asked_side_by_side, id=RUN)

    world.broken = set()
    outcome = await over.retry(RUN)

    assert outcome.value == ["bad", "later"]
    assert len(set(world.keys["bad"])) == 1
    assert len(set(world.keys["later"])) == 2
    [fact] = await payloads(over, "EXECUTION_RETRIED")
    assert (fact.reopened, len(fact.void)) == ([1], 1)


def _own_error(is_broken: bool) -> loom.Flow[[], list[Any]]:
    @loom.flow(id="own-error")
    async def flow(ctx: loom.Context) -> list[Any]:
        async def asks(ctx: loom.Context) -> Any:
            return await ctx.suspend("approve", expects=int)

        async def computes(ctx: loom.Context) -> int:
            await ctx.run(work, "s")
            if is_broken:
                raise ValueError("a bug")
            return 2

        return list(await ctx.parallel(asks, computes))

    return flow


async def test_a_branch_that_was_mended_never_leaves_a_hole_where_its_siblings_were_cut() -> None:
    broken = _own_error(True)
    over = runtime(broken)
    failed = await over.start(broken, id=RUN)

    mended = runtime(_own_error(False), storage=over.storage)
    parked = await mended.retry(RUN)
    outcome = await mended.resume(RUN, answer=1)

    assert failed.status == "failed"
    assert [gate.gate for gate in parked.gates] == ["parallel/0/approve"]
    assert outcome.value == [1, 2]
    assert world.ran == ["s"]


async def test_an_error_of_the_flow_itself_makes_nothing_void() -> None:
    @loom.flow
    async def falls(ctx: loom.Context) -> str:
        name = await ctx.run(work, "a")
        if "flow" in world.broken:
            raise ValueError("not now")
        return name

    world.broken = {"flow"}
    over = runtime(falls)
    await over.start(falls, id=RUN)

    world.broken = set()
    outcome = await over.retry(RUN)

    assert (outcome.value, world.ran) == ("a", ["a"])


async def test_what_was_cut_in_the_first_try_replays_after_the_retry_as_well() -> None:
    @loom.flow
    async def cut_then_wait(ctx: loom.Context) -> str:
        async def asks(ctx: loom.Context) -> Any:
            return await ctx.suspend("never")

        async def fails(ctx: loom.Context) -> Any:
            return await ctx.run(work, "inner")

        try:
            await ctx.parallel(asks, fails)
        except loom.StepFailed:
            await ctx.run(work, "outer")
        return await ctx.suspend("end", expects=str)

    world.broken = {"inner", "outer"}
    over = runtime(cut_then_wait)
    await over.start(cut_then_wait, id=RUN)
    world.broken = set()

    parked = await runtime(cut_then_wait, storage=over.storage).retry(RUN)
    outcome = await runtime(cut_then_wait, storage=over.storage).resume(RUN, answer="done")

    assert [gate.gate for gate in parked.gates] == ["end"]
    assert (outcome.value, world.ran) == ("done", ["inner", "outer", "outer"])


def test_only_a_failed_run_can_be_retried() -> None:
    with pytest.raises(ExecutionNotFailed):
        retried(empty_state(ExecutionId(RUN)))


async def test_of_two_retries_at_once_one_is_carried_out() -> None:
    world.broken = {"b"}
    over = runtime(in_order)
    await over.start(in_order, id=RUN)
    world.broken = set()

    outcomes = await asyncio.gather(over.retry(RUN), over.retry(RUN), return_exceptions=True)

    done = [each for each in outcomes if isinstance(each, loom.Outcome)]
    assert any(each.value == ["a", "b", "c"] for each in done)
    assert all(isinstance(each, (loom.Outcome, SequenceConflict, ExecutionNotFailed)) for each in outcomes)
    assert world.ran == ["a", "b", "b", "c"]


class Doubtful(Exception):
    """What the other side says when it is not sure."""


@loom.step(idempotent=False, timeout=timedelta(milliseconds=20))
async def pay(step: loom.StepContext) -> str:
    world.ran.append("pay")
    world.keys.setdefault("pay", []).append(step.idempotency_key)
    if "pay" in world.broken:
        await asyncio.sleep(30)
    return "paid"


async def test_a_verdict_to_retry_keeps_the_key_also_after_a_retry_of_the_run() -> None:
    @loom.flow
    async def pays(ctx: loom.Context) -> str:
        await ctx.run(work, "a")
        return await ctx.run(pay)

    world.broken = {"a", "pay"}
    over = runtime(pays)
    await over.start(pays, id=RUN)
    world.broken = {"pay"}
    doubtful = await over.retry(RUN)
    world.broken = set()

    outcome = await runtime(pays, storage=over.storage).resolve(RUN, "pay", "retry")

    assert doubtful.status == "in_doubt"
    assert outcome.value == "paid"
    assert len(set(world.keys["pay"])) == 1
    assert (await kinds(over)).count("EFFECT_INDOUBT") == 1


async def test_what_was_paid_beside_a_failure_keeps_its_record_and_the_way_to_it() -> None:
    """The scope was opened after the step that failed was asked, and what is in it must not happen twice."""
    done: list[str] = []
    mended = False

    async def fails() -> str:
        while "paid" not in done:
            await asyncio.sleep(0)
        if not mended:
            raise ValueError("not yet")
        return "mended"

    @loom.step(idempotent=False)
    async def pay() -> str:
        done.append("paid")
        return "paid"

    async def branch(ctx: loom.Context) -> str:
        await ctx.run("look", lambda: done.append("looked"))
        return await ctx.run(pay)

    @loom.flow
    async def flow(ctx: loom.Context) -> list[object]:
        return list(await asyncio.gather(ctx.run("fails", fails), ctx.parallel(branch)))

    over = runtime(flow)
    failed = await over.start(flow, id=RUN)
    mended = True

    again = await over.retry(RUN)

    assert (failed.status, again.value) == ("failed", ["mended", ("paid",)])
    assert done == ["looked", "paid"]
