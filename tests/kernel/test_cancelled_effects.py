"""Kernel rule 6.4: what becomes of effects and of branches when their run is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

import loom
from tests.kernel.cancelled import act, begins, cancelled, nothing_ran, pays, ran, sleeps
from tests.kernel.running import RUN, kinds, payloads, runtime

pytestmark = pytest.mark.usefixtures("asyncio_is_quiet")


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    nothing_ran()


# effects


async def test_an_effect_that_must_not_run_twice_is_waited_for_and_recorded_before_the_flow_is_told() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        try:
            await ctx.run(pays, "pay")
        finally:
            await ctx.run(act, "refund")

    over = runtime(flow)

    await cancelled(flow, "pay", over=over)

    assert ran == ["pay", "pay is paid", "refund"]
    assert [done.result for done in await payloads(over, "STEP_COMPLETED")] == ["pay", "refund"]


async def test_one_that_does_not_end_in_half_of_the_grace_is_in_doubt_and_the_clean_up_runs() -> None:
    @loom.step(idempotent=False)
    async def stuck() -> None:
        begins("stuck").set()
        await asyncio.Event().wait()

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        try:
            await ctx.run(stuck)
        finally:
            await ctx.run(act, "clean up")

    over = runtime(flow)

    outcome = await cancelled(flow, "stuck", over=over, grace_s=0.4)

    assert outcome.status == "cancelled"
    assert ran == ["clean up"]
    assert (await kinds(over))[2:4] == ["CANCEL_REQUESTED", "EFFECT_INDOUBT"]
    assert (await over.load_state(RUN)).attempts[1].doubt is not None


async def test_a_thread_is_waited_for_and_can_see_that_it_is_cancelled() -> None:
    loop, seen = asyncio.get_running_loop(), threading.Event()

    @loom.step
    def in_a_thread(step: loom.StepContext) -> str:
        loop.call_soon_threadsafe(begins("thread").set)
        while not step.is_cancelled:
            seen.wait(0.001)
        ran.append("thread ended")
        return "dropped"

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        try:
            await ctx.run(in_a_thread)
        finally:
            await ctx.run(act, "clean up")

    over = runtime(flow)

    await cancelled(flow, "thread", over=over)

    assert ran == ["thread ended", "clean up"]
    assert [done.result for done in await payloads(over, "STEP_COMPLETED")] == ["clean up"]


async def test_a_named_step_that_was_cancelled_may_be_asked_again_in_the_clean_up() -> None:
    @loom.step
    async def fetch() -> str:
        ran.append("fetch")
        begins("fetch").set()
        if len(ran) == 1:
            await asyncio.Event().wait()
        return "fetched"

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        try:
            await ctx.run(fetch.named("one"))
        finally:
            ran.append(await ctx.run(fetch.named("one")))

    assert (await cancelled(flow, "fetch")).status == "cancelled"
    assert ran == ["fetch", "fetch", "fetched"]


async def test_a_named_step_that_must_not_run_twice_serves_its_outcome_to_the_clean_up() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        try:
            await ctx.run(pays.named("one"), "pay")
        finally:
            ran.append(await ctx.run(pays.named("one"), "pay"))

    assert (await cancelled(flow, "pay")).status == "cancelled"
    assert ran == ["pay", "pay is paid", "pay"]


# branches


async def test_every_branch_cleans_up_and_none_is_cut_because_another_failed_to() -> None:
    async def branch(ctx: loom.Context, item: int) -> None:
        try:
            await ctx.suspend(f"gate-{item}")
        except loom.Cancelled:
            if item == 0:
                raise ValueError("a clean-up that fails")  # noqa: B904  # what authors write
            await ctx.sleep(0.01)
            await ctx.run(act, f"clean up {item}")

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.map(branch, [0, 1, 2])

    outcome = await cancelled(flow)

    assert sorted(ran) == ["clean up 1", "clean up 2"]
    assert outcome.why == "ValueError: a clean-up that fails"


async def test_branches_opened_in_a_clean_up_are_free_and_one_that_fails_cuts_the_others() -> None:
    async def fails(ctx: loom.Context) -> None:
        raise ValueError

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        try:
            await ctx.suspend("approve")
        finally:
            await ctx.map(act, ["a", "b"])
            try:
                await ctx.parallel(fails, sleeps)
            except ValueError:
                await ctx.run(act, "c")

    over = runtime(flow)

    assert (await cancelled(flow, over=over)).status == "cancelled"
    assert sorted(ran) == ["a", "b", "c"]
    assert "SCOPE_CUT" in await kinds(over)


async def test_a_branch_that_swallows_the_signal_gives_its_value_and_the_flow_is_told_at_its_next_syscall() -> None:
    async def swallows(ctx: loom.Context, item: int) -> int:
        with contextlib.suppress(loom.Cancelled):
            await ctx.suspend(f"gate-{item}")
        return item

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        ran.append(str(await ctx.map(swallows, [1, 2])))
        await ctx.run(act, "not begun")

    assert (await cancelled(flow)).status == "cancelled"
    assert ran == ["[1, 2]"]


async def test_branches_that_a_limit_held_back_are_never_begun() -> None:
    async def branch(ctx: loom.Context, item: int) -> None:
        ran.append(f"begun {item}")
        try:
            await ctx.suspend("gate")
        except loom.Cancelled:
            return

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        try:
            await ctx.map(branch, [0, 1, 2, 3], limit=2)
        except loom.Cancelled:
            ran.append("told")

    assert (await cancelled(flow)).status == "cancelled"
    assert ran == ["begun 0", "begun 1", "begun 0", "begun 1", "told"]  # parked, and replayed when it was cancelled


@pytest.mark.parametrize("group", [asyncio.gather, None], ids=["gather", "TaskGroup"])
async def test_syscalls_side_by_side_without_branches_are_cancelled_as_well(group: Any) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        calls = [ctx.suspend("a"), ctx.suspend("b")]
        try:
            if group is not None:
                await group(*calls)
            else:
                async with asyncio.TaskGroup() as tasks:
                    for call in calls:
                        tasks.create_task(call)
        finally:
            await ctx.run(act, "clean up")

    assert (await cancelled(flow)).status == "cancelled"
    assert ran == ["clean up"]
