"""Runs in line that a flow has started, or that go on as another: their places are those of whole runs."""

from __future__ import annotations

from typing import Any

import pytest

import loom
from loom.driving.runtime import WorkflowRuntime
from loom.spi.memory import MemoryStorage
from tests.kernel.running import kinds

at_work: set[str] = set()
most: list[int] = []


@pytest.fixture(autouse=True)
def _nobody_is_at_work() -> None:
    at_work.clear()
    most.clear()


@loom.step
async def pack(name: str) -> str:
    at_work.add(name)
    most.append(len(at_work))
    at_work.discard(name)
    return name


@loom.flow(starts=loom.Starts(concurrency=loom.Limit(1)))
async def narrow(ctx: loom.Context, name: str) -> str:
    return await ctx.run(pack, name)


@loom.flow(starts=loom.Starts(dedupe="id"))
async def once(ctx: loom.Context, order: dict[str, str]) -> str:
    return order["id"]


@loom.flow
async def parent(ctx: loom.Context, names: list[str]) -> list[str]:
    children = [await loom.spawn(ctx, narrow, name) for name in names]
    return [await loom.await_child(ctx, child) for child in children]


@loom.flow
async def parent_of_one(ctx: loom.Context) -> str:
    child = await loom.spawn(ctx, once, {"id": "A-1"})
    return await loom.await_child(ctx, child)


@loom.flow(starts=loom.Starts(concurrency=loom.Limit(1)))
async def rolling(ctx: loom.Context, link: int) -> str:
    answer = await ctx.suspend("on", expects=str)
    if answer == "roll":
        await ctx.continue_as_new(link + 1)
    return answer


def runtime(*flows: loom.Flow[Any, Any]) -> WorkflowRuntime:
    return loom.define_config(flows=flows, storage=MemoryStorage()).runtime


@pytest.mark.proves("BEY-15")
async def test_children_wait_for_a_place_and_their_parent_for_them() -> None:
    over = runtime(parent, narrow)

    outcome = await over.start(parent, ["a", "b", "c"], id="p")
    await over.settled()

    assert outcome.result() == ["a", "b", "c"]
    assert max(most) == 1


async def test_a_child_is_named_by_its_parent_and_cannot_be_named_by_what_it_is_for() -> None:
    over = runtime(parent_of_one, once)

    outcome = await over.start(parent_of_one, id="p")

    assert outcome.status == "failed"
    assert "runs of once are named by their id" in str(outcome.failure)


@pytest.mark.proves("BEY-15")
async def test_a_run_that_goes_on_as_another_keeps_its_place_until_the_last_has_ended() -> None:
    over = runtime(rolling)
    await over.start(rolling, 1, id="first")
    waits = await over.start(rolling, 1, id="second")

    await over.resume("first", answer="roll")
    still = await over.load_state("second")
    await over.resume("first", answer="done")
    await over.settled()
    after = await over.load_state("second")

    assert (waits.status, still.facts.why) == ("suspended", "a place among 1 run of rolling")
    assert (await kinds(over, "first"))[-1] == "CONTINUED"
    assert [gate.payload.label for gate in after.gates.values()] == ["on"]
