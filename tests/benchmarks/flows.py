"""The flows that are measured, and the app they run in. Their steps do next to nothing: what is left is Loom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

import loom
from loom.spi.event_store import Storage

T = TypeVar("T")
R = TypeVar("R")


@loom.step
async def tick(i: int) -> dict[str, Any]:
    return {"i": i, "ok": True}


@loom.flow
async def ticks(ctx: loom.Context, count: int) -> int:
    for i in range(count):
        await ctx.run(tick, i)
    return count


@loom.flow
async def same_ticks(ctx: loom.Context, count: int) -> int:
    for _ in range(count):
        await ctx.run(tick, 1)
    return count


@loom.flow
async def timed_ticks(ctx: loom.Context, count: int) -> tuple[float, float]:
    """Return the seconds that the first and the last tenth took. (A flow reads no clock; this one is never replayed.)"""
    tenth = count // 10
    marks = []
    for i in range(count):
        if i in (0, tenth, count - tenth):
            marks.append(time.perf_counter())
        await ctx.run(tick, i)
    return marks[1] - marks[0], time.perf_counter() - marks[2]


@loom.flow
async def gated(ctx: loom.Context, count: int) -> str:
    """Park at a gate with *count* steps before it, and do one more after it."""
    for i in range(count):
        await ctx.run(tick, i)
    answer: str = await ctx.suspend("go", expects=str)
    await ctx.run(tick, count)
    return answer


@loom.flow
async def mapped(ctx: loom.Context, count: int) -> int:
    return len(await ctx.map(tick, range(count)))


@loom.flow
async def branched(ctx: loom.Context, count: int) -> int:
    async def branch(ctx: loom.Context) -> dict[str, Any]:
        return await ctx.run(tick, 1)

    return len(await ctx.parallel(*[branch] * count))


FLOWS: Final = (ticks, same_ticks, timed_ticks, gated, mapped, branched)


def make_app(database: Path, *, write_behind: bool = False) -> loom.LoomApp:
    """Return the app over the store in *database*, which is made by the first write."""
    return app_over(loom.sqlite_storage(database), write_behind=write_behind)


def app_over(storage: Storage, *, write_behind: bool = False) -> loom.LoomApp:
    """Return the app over *storage*."""
    return loom.define_config(flows=FLOWS, storage=storage, write_behind=write_behind)


async def warmed(app: loom.LoomApp) -> None:
    """Run each part once: open the store, read the code of the flows, compile the codecs."""
    for flow in (ticks, same_ticks, timed_ticks, mapped, branched):
        (await app.runtime.start(flow, 10)).result()


async def each(work: Callable[[T], Awaitable[R]], over: Iterable[T], *, concurrency: int) -> list[R]:
    """Return what *work* gives for each item, at most *concurrency* of them at once."""
    free = asyncio.Semaphore(concurrency)

    async def one(item: T) -> R:
        async with free:
            return await work(item)

    return await asyncio.gather(*[one(item) for item in over])
