"""A family of flows that the tests of children share, what their steps touch, and a runtime for them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import loom
from loom.driving.runtime import WorkflowRuntime
from loom.spi.event_store import ExecutionQuery, Storage

TOP = "top"


class World:
    """What the steps touch: what happened, in order, and what is broken just now."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.broken: set[str] = set()


world = World()


@loom.step
async def work(step: loom.StepContext, what: str) -> Decimal:
    world.happened.append(f"{step.execution_id} {what}")
    if what in world.broken:
        raise ConnectionError(f"no line to {what}")
    return Decimal(len(what))


@loom.flow
async def leaf(ctx: loom.Context, what: str) -> Decimal:
    return await ctx.run(work, what)


@loom.flow
async def middle(ctx: loom.Context, what: str) -> Decimal:
    child = await loom.spawn(ctx, leaf, what)
    return 1 + await loom.await_child(ctx, child)


@loom.flow
async def top(ctx: loom.Context, what: str) -> Decimal:
    child = await loom.spawn(ctx, middle, what)
    return 10 + await loom.await_child(ctx, child)


@loom.flow
async def asking(ctx: loom.Context, what: str) -> str:
    return f"{what}: {await ctx.suspend('answer', expects=int)}"


@loom.flow
async def parent_of_asking(ctx: loom.Context) -> str:
    return (await loom.await_child(ctx, await loom.spawn(ctx, asking, "how many"))).upper()


@loom.flow
async def each(ctx: loom.Context, whats: list[str]) -> list[Any]:
    async def one(ctx: loom.Context, what: str) -> loom.Child[Decimal]:
        return await loom.spawn(ctx, leaf, what)

    found = await loom.await_children(ctx, await ctx.map(one, whats))
    return [result.child if isinstance(result, loom.ChildFailed) else result for result in found]


@loom.flow
async def all_or_none(ctx: loom.Context, whats: list[str]) -> list[Decimal]:
    return await loom.await_all(ctx, [await loom.spawn(ctx, leaf, what) for what in whats])


@loom.flow
async def endless(ctx: loom.Context) -> int:
    return await loom.await_child(ctx, await loom.spawn(ctx, endless))


FLOWS: list[loom.Flow[Any, Any]] = [leaf, middle, top, asking, parent_of_asking, each, all_or_none, endless]


def runtime(*more: loom.Flow[Any, Any], storage: Storage | None = None, **options: Any) -> WorkflowRuntime:
    return loom.define_config(flows=[*FLOWS, *more], storage=storage, **options).runtime


async def family_of(over: WorkflowRuntime, run: str = TOP) -> list[str]:
    """Return the ids of the children of *run*."""
    return sorted(row.execution_id for row in await over.find(ExecutionQuery(parent=run)))
