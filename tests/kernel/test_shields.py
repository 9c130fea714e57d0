"""A shield holds off the cut of a branch, and what it waits for meanwhile always comes to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import loom
from loom.driving.replaying import Replayer
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, cut_off_after, records, runtime

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
