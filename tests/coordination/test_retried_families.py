"""What a retry means for several children that failed in one outage, or were cancelled for it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal

import pytest

import loom
from loom.driving.errors import ChildrenCancelled
from tests.coordination.kin import TOP, family_of, leaf, runtime, work, world
from tests.kernel.running import kinds, payloads

NAMES = ["a", "bb", "ccc", "dddd"]


@pytest.fixture(autouse=True)
def _new_world() -> None:
    world.__init__()  # type: ignore[misc]  # the steps hold the object


@loom.flow
async def in_branches(ctx: loom.Context) -> list[Decimal]:
    async def one(ctx: loom.Context, what: str) -> Decimal:
        return await loom.await_child(ctx, await loom.spawn(ctx, leaf, what))

    return await ctx.map(one, NAMES)


@loom.flow
async def all_of_them(ctx: loom.Context) -> list[Decimal]:
    return await loom.await_all(ctx, [await loom.spawn(ctx, leaf, what) for what in NAMES])


@loom.flow
async def sleeper(ctx: loom.Context, what: str) -> Decimal:
    await ctx.sleep(timedelta(hours=1))
    return await ctx.run(work, what)


@loom.flow
async def beside_a_sleeper(ctx: loom.Context) -> list[Decimal]:
    return await loom.await_all(ctx, [await loom.spawn(ctx, leaf, "a"), await loom.spawn(ctx, sleeper, "b")])


@loom.flow
async def trips_beside(ctx: loom.Context) -> str:
    child = await loom.spawn(ctx, leaf, "a")
    await ctx.run(work, "own")
    [found] = await loom.await_children(ctx, [child])
    return str(found)


@pytest.mark.parametrize("flow", [in_branches, all_of_them], ids=["in branches", "await_all"])
async def test_one_retry_after_an_outage_tries_every_child_again_that_failed_in_it(
    flow: loom.Flow[[], list[Decimal]],
) -> None:
    world.broken.update(NAMES)
    over = runtime(in_branches, all_of_them)
    failed = await over.start(flow, id=TOP)
    await over.settled()
    world.broken.clear()

    retried = await over.retry(TOP)

    assert (failed.status, retried.status) == ("failed", "completed")
    assert retried.value == [Decimal(len(name)) for name in NAMES]
    assert {await _status(over, each) for each in await family_of(over)} == {"completed"}
    assert all(
        drop.reason.startswith("the run is tried again") for drop in await payloads(over, "REQUEST_DROPPED", TOP)
    )


async def test_while_the_outage_goes_on_a_retry_fails_and_the_next_may_not() -> None:
    world.broken.update(NAMES)
    over = runtime(in_branches, all_of_them)
    await over.start(in_branches, id=TOP)
    await over.settled()
    again = await over.retry(TOP)
    await over.settled()
    world.broken.clear()

    assert again.status == "failed"
    assert (await over.retry(TOP)).status == "completed"


async def test_a_run_whose_children_were_cancelled_when_it_failed_is_not_retried_but_can_be_forked() -> None:
    world.broken.add("a")
    over = runtime(beside_a_sleeper, sleeper)
    await over.start(beside_a_sleeper, id=TOP)
    await over.settled()
    assert (await over.load_state("top:sleeper")).status == "cancelled"
    before = await kinds(over, TOP)
    world.broken.clear()

    with pytest.raises(ChildrenCancelled, match="top:sleeper") as refused:
        await over.retry(TOP)

    assert await kinds(over, TOP) == before
    assert refused.value.fork_at is not None
    fork = await over.fork(TOP, at=refused.value.fork_at)
    driving = asyncio.create_task(over.resume(fork.execution_id))
    assert (await asyncio.wait_for(driving, 20)).status == "suspended"  # its sleeper sleeps


async def test_a_failure_that_a_run_has_not_heard_of_stays_where_it_failed_for_another_reason() -> None:
    world.broken.update({"a", "own"})
    over = runtime(trips_beside)
    await over.start(trips_beside, id=TOP)
    await over.settled()
    world.broken.clear()

    retried = await over.retry(TOP)

    assert retried.status == "completed"
    assert "no line to a" in str(retried.value)
    assert world.happened.count("top:leaf a") == 1


async def _status(over: loom.WorkflowRuntime, run: str) -> str:
    return (await over.load_state(run)).status
