"""A shield holds off the cut of a branch, and what it waits for meanwhile always comes to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import loom
from loom.driving.replaying import Replayer
from loom.spi.clock import VirtualClock
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, cut_off_after, kinds, records, runtime

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("asyncio_is_quiet")]

seen: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


@loom.step
async def work(what: str) -> str:
    await asyncio.sleep(0.05)
    return what


@loom.step
async def breaks() -> str:
    raise LookupError("it broke")


async def wins(ctx: loom.Context) -> str:
    await ctx.sleep(0.01)
    return "won"


async def asks(ctx: loom.Context) -> str:
    return await ctx.suspend("nobody answers", expects=str)


async def waits_for_a_task_that_is_cut(ctx: loom.Context) -> None:
    async with ctx.scope() as scope:
        task = scope.start(asks)
        async with ctx.shield():
            try:
                await task
            except loom.BranchWasCut:
                seen.append("was cut")
            await ctx.run(work, "second")
        seen.append("outside")
        await ctx.run(work, "never")


async def waits_for_a_task_that_fails(ctx: loom.Context) -> None:
    async with ctx.scope() as scope:
        task = scope.start(lambda ctx: ctx.run(breaks))
        async with ctx.shield():
            try:
                await task
            except loom.StepFailed:
                seen.append("failed")
            await ctx.run(work, "second")
        await ctx.run(work, "never")


async def waits_beside_a_shield(ctx: loom.Context) -> None:
    beside = asyncio.ensure_future(ctx.suspend("nobody answers", expects=str))
    async with ctx.shield():
        await ctx.run(work, "first")
    await beside


async def opens_branches_beside_a_shield(ctx: loom.Context) -> None:
    beside = asyncio.ensure_future(ctx.parallel(asks, asks))
    async with ctx.shield():
        await ctx.run(work, "first")
    await beside


async def selected(ctx: loom.Context, body: Callable[[loom.Context], Any]) -> str:
    return (await ctx.select(wins=wins, body=body)).name


async def late(ctx: loom.Context, body: Callable[[loom.Context], Any]) -> str:
    try:
        async with ctx.scope(timeout=0.01) as scope:
            await scope.start(body)
    except loom.ScopeTimedOut:
        return "wins"
    return "body"


async def alone(ctx: loom.Context, body: Callable[[loom.Context], Any]) -> str:
    try:
        await body(ctx)
    except loom.StepFailed:
        return "wins"
    return "body"


BODIES = {
    "a task that is cut": (waits_for_a_task_that_is_cut, ["was cut", "outside"]),
    "a task that fails": (waits_for_a_task_that_fails, ["failed"]),
    "a syscall beside it": (waits_beside_a_shield, []),
    "branches beside it": (opens_branches_beside_a_shield, []),
}


@pytest.mark.parametrize(
    ("around", "what"),
    [(around, what) for around in (selected, late) for what in BODIES] + [(alone, "a task that fails")],
)
async def test_who_waits_under_a_shield_for_what_ends_without_a_result_goes_on(around: Any, what: str) -> None:
    body, told = BODIES[what]

    @loom.flow(id="shielded")
    async def flow(ctx: loom.Context) -> str:
        return str(await around(ctx, body))

    storage = MemoryStorage()
    ended = await asyncio.wait_for(runtime(flow, storage=storage).start(flow, id=RUN, linger_s=20), 10)

    assert (ended.status, ended.result()) == ("completed", "wins")
    assert seen == told
    whole = await records(storage)
    verdict = (await Replayer({flow.id: flow}).replay(RUN, whole)).verdict
    assert verdict.is_fine, verdict
    assert verdict.end is None
    for length in range(1, len(whole)):
        left = await cut_off_after(storage, length)
        again = await asyncio.wait_for(runtime(flow, storage=left).resume(RUN, linger_s=20), 10)

        assert (again.status, again.result()) == ("completed", "wins"), length


@loom.step
async def notes(what: str) -> None:
    seen.append(what)


async def waits_for(ctx: loom.Context, task: Callable[[loom.Context], Any], *, tasks: int = 1) -> None:
    """Wait under a shield for one *task* after the other, each of which fails."""
    async with ctx.scope() as scope:
        async with ctx.shield():
            for number in range(tasks):
                try:
                    await scope.start(task)
                except (loom.StepFailed, loom.BranchWasCut) as error:
                    await ctx.run(notes, f"{type(error).__name__} {number}")
        await ctx.run(notes, "never")


async def in_a_select(ctx: loom.Context, breaking: Any, won: Any) -> str:
    return (await ctx.select(wins=lambda ctx: ctx.run(won), body=lambda ctx: waits_for(ctx, breaking))).name


async def in_a_late_scope(ctx: loom.Context, breaking: Any, won: Any) -> str:
    return await late(ctx, lambda ctx: waits_for(ctx, breaking))


@pytest.mark.parametrize("around", [in_a_select, in_a_late_scope])
async def test_who_waits_under_a_shield_for_a_task_is_told_where_the_outer_scope_ends_first(around: Any) -> None:
    """The failure of the task is recorded before the outer scope has to end, and delivered after that."""
    clock, begun, has_won = VirtualClock(), asyncio.Event(), asyncio.Event()

    @loom.step(id="won")
    async def won() -> str:
        await begun.wait()
        has_won.set()
        return "won"

    @loom.step(id="breaking")
    async def breaking() -> None:
        begun.set()
        if around is in_a_select:
            await has_won.wait()
        clock.advance(10)
        raise LookupError("it broke")

    @loom.flow(id="shielded")
    async def flow(ctx: loom.Context) -> str:
        return str(await around(ctx, lambda ctx: ctx.run(breaking), won))

    storage = MemoryStorage()
    ended = await asyncio.wait_for(runtime(flow, storage=storage, clock=clock).start(flow, id=RUN), 10)

    assert (ended.status, ended.result()) == ("completed", "wins")
    assert seen == ["StepFailed 0"]
    whole = await records(storage)
    types = [event.type for event in whole]
    assert types.index("STEP_FAILED") < types.index("SCOPE_CLOSED" if around is in_a_select else "SCOPE_TIMED_OUT")
    assert "SCOPE_CUT" not in types
    verdict = (await Replayer({flow.id: flow}).replay(RUN, whole)).verdict
    assert (verdict.is_fine, verdict.end) == (True, None), verdict
    for length in range(1, len(whole)):
        over = runtime(flow, storage=await cut_off_after(storage, length), clock=clock)
        again = await asyncio.wait_for(over.resume(RUN), 10)

        assert (again.status, again.result()) == ("completed", "wins"), length
        assert "never" not in seen


async def test_who_waits_under_a_shield_for_a_task_is_told_where_the_run_is_cancelled_before_its_scope_ends() -> None:
    failed, requested = asyncio.Event(), asyncio.Event()

    async def fails_late(ctx: loom.Context) -> None:
        try:
            await ctx.run(breaks)
        finally:
            failed.set()
            await requested.wait()

    @loom.flow(id="shielded")
    async def flow(ctx: loom.Context) -> None:
        await waits_for(ctx, fails_late)

    def listen(event: loom.EventEnvelope[Any]) -> None:
        if event.type == "EXECUTION_CANCEL_REQUESTED":
            requested.set()

    storage = MemoryStorage()
    over = runtime(flow, storage=storage, clock=VirtualClock(), on_event=listen)
    running = asyncio.ensure_future(over.start(flow, id=RUN))
    await failed.wait()
    await over.cancel(RUN)
    ended = await asyncio.wait_for(running, 10)

    assert ended.status == "cancelled"
    assert seen == ["StepFailed 0"]
    assert "GRACE_ENDED" not in await kinds(over)
    verdict = (await Replayer({flow.id: flow}).replay(RUN, await records(storage))).verdict
    assert (verdict.is_fine, verdict.end) == (True, None), verdict


async def test_who_waits_under_a_shield_for_a_task_is_told_where_its_scope_was_cut_before_the_task_began() -> None:
    @loom.flow(id="shielded")
    async def flow(ctx: loom.Context) -> None:
        await waits_for(ctx, lambda ctx: ctx.run(breaks), tasks=2)

    storage = MemoryStorage()
    ended = await asyncio.wait_for(runtime(flow, storage=storage).start(flow, id=RUN), 10)

    assert ended.status == "failed"
    assert seen == ["StepFailed 0", "StepFailed 1"]
    whole = await records(storage)
    verdict = (await Replayer({flow.id: flow}).replay(RUN, whole)).verdict
    assert verdict.is_fine, verdict
    for length in range(1, len(whole)):
        again = await asyncio.wait_for(runtime(flow, storage=await cut_off_after(storage, length)).resume(RUN), 10)

        assert again.status == "failed", length
