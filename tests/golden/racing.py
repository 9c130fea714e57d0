"""The flows of the golden logs whose scopes end early; a part of `flows.py`, which imports it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import loom
from tests.golden.flows import REST, Refused, pay, quote, saw


@loom.flow
async def races(ctx: loom.Context) -> list[Any]:
    """Take the first of several things, of gates, timers, topics and steps; some fail, and some lose."""

    async def fetch(ctx: loom.Context) -> int:
        return saw("fetched", await ctx.run(quote, "north"))

    async def breaks(ctx: loom.Context) -> str:
        return await ctx.run(pay, "card")

    won = await ctx.select(
        "approval", yes=loom.gate("approve", expects=bool), news=loom.topic("news"), late=loom.timer(timedelta(days=2))
    )
    saw("answered", [won.name, won.value])
    late = await ctx.select(yes=loom.gate("approve", expects=bool), late=loom.timer(REST, name="rest"))
    saw("late", [late.name, late.value, ctx.now()])
    step = await ctx.select(step=fetch, gate=loom.gate("never"))
    saw("step", list(step))
    try:
        await ctx.select(step=breaks, gate=loom.gate("never"))
    except loom.TypedFailure as failure:
        saw("failed first", failure)
    arms: dict[str, Any] = {"bad": breaks, "one": fetch, "gate": loom.gate("never"), "two": fetch}
    two: dict[str, Any] = await ctx.first(2, arms)
    saw("first two", [list(two), *two.values()])
    saw("any", await ctx.any(breaks, fetch))
    try:
        await ctx.any({"a": breaks, "b": breaks})
    except loom.TypedFailure as failure:
        saw("none", [str(failure), *failure.__notes__])
    return [saw("end", await ctx.suspend("end"))]


@loom.flow
async def blocks(ctx: loom.Context) -> list[Any]:
    """Start tasks in blocks that end well, run out of time, and fail; one block in another."""

    async def room(ctx: loom.Context, name: str) -> int:
        async with ctx.scope(name="desk") as desk:
            found = desk.start(quote, name)
            guests = await ctx.suspend("guests", expects=int)
        return saw("room", guests + await found)

    async with ctx.scope() as scope:
        north = scope.start(room, "north")
        south = scope.start(room, "south", name="southern")
        saw("body", await ctx.run(quote, "hall"))
        saw("north", await north)
    saw("both", [await north, await south])
    tasks: list[loom.ScopeTask[int]] = []
    try:
        async with ctx.scope(timeout=timedelta(days=1)) as scope:
            tasks = [scope.start(quote, "attic"), scope.start(room, "cellar")]
            await tasks[1]
    except loom.ScopeTimedOut as late:
        saw("late", [str(late), tasks[0].done, await tasks[0]])
    try:
        await tasks[1]
    except loom.BranchWasCut as cut:
        saw("cut", cut)
    try:
        async with ctx.scope(name="failing") as scope:
            _ = scope.start(room, "shed")
            await scope.start(pay, "cheque", name="payer")
    except Refused as refused:
        saw("refused", refused)
    return [saw("end", await ctx.suspend("end"))]
