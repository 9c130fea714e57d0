"""The flows of the golden logs that are cancelled, paused or cut; a part of `flows.py`, which imports it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import loom
from tests.golden.flows import REST, act, saw, work


@loom.step
async def take(name: str) -> str:
    act(name)
    return name


@loom.step
async def undo(name: str) -> None:
    act(f"undo {name}")


doing = take.undone_by(undo)


@loom.flow
async def stopped(ctx: loom.Context) -> Any:
    """Be paused, go on, and be cancelled: branches clean up, a saga undoes, and a shield waits for a person."""

    async def books(ctx: loom.Context) -> Any:
        async with loom.saga(ctx) as saga:
            saw("did", await saga.run(doing, "flight"))
            return await ctx.suspend("car", expects=str)

    async def asks(ctx: loom.Context) -> Any:
        try:
            return saw("news", await ctx.select(gate=loom.gate("ask"), news=loom.topic("news")))
        except loom.Cancelled as signal:
            saw("cancelled", signal)
            await ctx.run(work, "tidy up")
            raise

    try:
        return await ctx.parallel(books, asks)
    finally:
        async with ctx.shield():
            saw("signed", await ctx.suspend("sign", expects=str))


@loom.flow
async def too_long(ctx: loom.Context) -> None:
    """Take longer over the clean-up than there is grace."""
    try:
        async with ctx.scope() as scope:
            task = scope.start(work, "aside")
            await ctx.sleep(timedelta(days=1))
            await task
    finally:
        async with ctx.shield():
            try:
                await ctx.suspend("sign", expects=str)
            except loom.Cancelled as signal:
                saw("no shield holds", signal)
                raise


@loom.flow
async def outbid(ctx: loom.Context) -> Any:
    """Lose a race in the middle of a saga, and in a shield."""

    async def books(ctx: loom.Context) -> Any:
        async with loom.saga(ctx) as saga:
            saw("did", await saga.run(doing, "flight"))
            return await ctx.suspend("car", expects=str)

    async def insists(ctx: loom.Context) -> Any:
        async with ctx.shield():
            saw("signed", await ctx.suspend("sign", expects=str))
        return await ctx.run(work, "never")

    won = await ctx.select(books=books, insists=insists, nap=loom.timer(REST))
    saw("won", list(won))
    return [saw("end", await ctx.suspend("end"))]
