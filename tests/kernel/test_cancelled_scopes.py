"""What blocks, selects and their branches see of a cancellation, live and replayed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import loom
from tests.kernel.cancelled import act, cancelled, hangs, nothing_ran, ran
from tests.kernel.running import RUN, cut_off_after, kinds, records, runtime

pytestmark = [pytest.mark.proves("RNG-11"), pytest.mark.timeout(60)]


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    nothing_ran()


async def waits(ctx: loom.Context, name: str) -> str:
    """Wait for a person, and clean up."""
    try:
        return await ctx.suspend(name, expects=str)
    finally:
        await ctx.run(act, f"clean up {name}")


async def ends_alike_from_anywhere(flow: loom.Flow[[], Any], over: Any) -> None:
    """Cut the log off after each event that follows the request: the run goes on to the same end, and cleans up once."""
    log = await records(over.storage)
    [asked] = [event.sequence for event in log if event.type == "EXECUTION_CANCEL_REQUESTED"]
    for length in range(asked + 1, len(log)):
        done = {event.sequence for event in log[:length] if event.type == "STEP_COMPLETED"}
        ran.clear()
        outcome = await runtime(flow, storage=await cut_off_after(over.storage, length)).resume(RUN)

        assert outcome.status == "cancelled"
        steps = [event for event in log if event.type == "STEP_COMPLETED"]
        assert len(ran) == len([event for event in steps if event.sequence not in done])


async def test_the_body_and_the_tasks_of_a_block_clean_up_before_it_is_left() -> None:
    seen: list[str] = []

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        try:
            async with ctx.scope() as scope:
                task = scope.start(waits, "task")
                await waits(ctx, "body")
                await task
        except loom.Cancelled as signal:
            seen.append(signal.cause)
            await ctx.run(act, "after the block")
            raise

    over = runtime(flow)

    assert (await cancelled(flow, over=over)).status == "cancelled"
    assert sorted(ran[:2]) == ["clean up body", "clean up task"]
    assert ran[2:] == ["after the block"]
    assert seen == ["request"]
    assert "SCOPE_CUT" not in await kinds(over)
    await ends_alike_from_anywhere(flow, over)


async def test_each_arm_of_a_select_is_given_up_and_the_select_raises_it() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        async def asks(ctx: loom.Context) -> str:
            return await waits(ctx, "arm")

        try:
            await ctx.select(
                asks=asks, gate=loom.gate("gate"), news=loom.topic("news"), nap=loom.timer(timedelta(days=9))
            )
        except loom.Cancelled:
            await ctx.run(act, "after the select")
            raise

    over = runtime(flow)

    assert (await cancelled(flow, over=over)).status == "cancelled"
    assert ran == ["clean up arm", "after the select"]
    assert not {"SCOPE_CLOSED", "SCOPE_CUT", "TIMER_FIRED"} & {*await kinds(over)}
    await ends_alike_from_anywhere(flow, over)


async def test_a_select_in_a_clean_up_is_won_as_ever() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        try:
            await ctx.suspend("approve")
        finally:
            won = await ctx.select(nap=loom.timer(timedelta(milliseconds=1)), never=loom.gate("never"))
            await ctx.run(act, won.name)

    over = runtime(flow)

    assert (await cancelled(flow, over=over)).status == "cancelled"
    assert ran == ["nap"]
    assert "SCOPE_CLOSED" in await kinds(over)


async def test_a_block_with_a_time_limit_is_cancelled_and_not_late() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        try:
            async with ctx.scope(timeout=timedelta(hours=1)) as scope:
                await scope.start(in_flight)
        except loom.ScopeTimedOut:
            await ctx.run(act, "not reached")

    async def in_flight(ctx: loom.Context) -> None:
        await ctx.run(hangs, "in flight")

    over = runtime(flow)

    assert (await cancelled(flow, "in flight", over=over)).status == "cancelled"
    assert ran == ["in flight", "in flight was cancelled"]
    assert "SCOPE_TIMED_OUT" not in await kinds(over)
