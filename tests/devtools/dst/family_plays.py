"""More of our own kernel as what is simulated: families of runs, chains, lines, runs that are cancelled, paused and tried again."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any, Final

import loom
from loom.core.errors import ExecutionTerminated
from loom.devtools.dst.stage import Play
from loom.devtools.dst.world import Act, Desk, Message, World
from loom.driving.errors import ExecutionNotFailed, ExecutionNotPaused
from loom.driving.runtime import WorkflowRuntime
from loom.spi.memory import MemoryStorage

OUTSIDE: Final = 1.5
"""How many acts from outside a run of these sees, on average."""


@loom.step
async def work(n: int) -> int:
    return n


@loom.step(idempotent=False)
async def once(n: int) -> int:
    return n


@loom.flow
async def leaf(ctx: loom.Context, n: int) -> int:
    got = await ctx.run(once, n)
    await ctx.sleep(1 + n)
    if n == 3:
        raise ValueError("three")
    return got + await ctx.run(work, n)


@loom.flow
async def family(ctx: loom.Context, plan: list[int]) -> list[Any]:
    """Start children, await them in one of three ways, and roll over as often as the plan says."""
    how, links, *children = plan
    ids = [await loom.spawn(ctx, leaf, n) for n in children]
    await ctx.run(work, links)
    results: list[Any] = []
    try:
        if how == 0:
            results = [await loom.await_child(ctx, each) for each in ids]
        elif how == 1:
            results = list(await loom.await_all(ctx, ids))
    except loom.ChildFailed:
        await ctx.run(work, -1)
    if links:
        await ctx.receive("go", timeout=timedelta(seconds=9)) if how == 2 else None
        await ctx.continue_as_new([how, links - 1, *children])
    return results


@loom.flow(starts=loom.Starts(concurrency=loom.Limit(1)))
async def lined(ctx: loom.Context, plan: list[int]) -> int:
    total = 0
    async with ctx.shield():
        total += await ctx.run(once, plan[0])
    try:
        await ctx.suspend("ok", timeout=timedelta(seconds=5))
    except loom.GateTimedOut:
        total += await ctx.run(work, 1)
    finally:
        total += 1
    return total


FLOWS: Final[dict[str, loom.Flow[Any, Any]]] = {flow.id: flow for flow in (leaf, family, lined)}

CODE: Final = WorkflowRuntime(MemoryStorage(), flows=FLOWS)


def play_of(seed: int) -> Play:
    """Return the play of the family that *seed* stands for."""
    chance = random.Random(f"family {seed}")
    plan = [
        chance.randrange(3),
        chance.choice([0, 0, 1, 2]),
        *(chance.randrange(4) for _ in range(chance.randrange(4))),
    ]
    acts = _acts(chance)
    messages = [Message("go", 1)] * chance.randrange(2)

    def world() -> World:
        return World(real=True, answers={"ok": True}, messages=messages, acts=acts, unread=True, may_fail=True)

    flow = lined if chance.random() < 0.25 else family
    return Play(flow=flow, flows=FLOWS, input=plan, world=world, code=CODE)


def _acts(chance: random.Random) -> list[Act]:
    kinds = [_cancel, _force, _pause, _retry]
    return [chance.choice(kinds) for _ in range(min(3, int(chance.expovariate(1 / OUTSIDE))))]


async def _cancel(desk: Desk) -> None:
    await desk.runtime.cancel(desk.run_id, reason="enough", grace_s=20, linger_s=0)


async def _force(desk: Desk) -> None:
    await desk.sleep(8)
    await desk.runtime.cancel(desk.run_id, reason="at once", force=True)


async def _pause(desk: Desk) -> None:
    await desk.runtime.pause(desk.run_id)
    while True:
        await desk.sleep(7)
        try:
            await desk.runtime.unpause(desk.run_id, linger_s=0)
        except ExecutionNotPaused:  # whoever drives it has not come to it yet
            continue
        return


async def _retry(desk: Desk) -> None:
    for _ in range(3):
        await desk.sleep(15)
        state = await desk.state()
        if state is not None and state.status == "failed":
            try:
                await desk.runtime.retry(desk.run_id, linger_s=0)
            except ExecutionNotFailed:  # somebody else was first
                continue
            except ExecutionTerminated:
                return
