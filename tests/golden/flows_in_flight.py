"""More flows that wrote golden logs: those whose code changed while their runs were in flight. They are never edited either."""

from __future__ import annotations

from typing import Any

import loom
from tests.golden.flows import saw, work


@loom.flow(id="patched")
async def patched_before(ctx: loom.Context) -> list[Any]:
    return [await ctx.run(work, "a"), await ctx.suspend("go"), await ctx.run(work, "old")]


@loom.flow(id="patched")
async def patched(ctx: loom.Context) -> list[Any]:
    a = saw("a", await ctx.run(work, "a" if not saw("early", ctx.patched("early")) else "new a"))
    go = saw("go", await ctx.suspend("go"))
    return [a, go, saw("b", await ctx.run(work, "new" if saw("late", ctx.patched("late")) else "old"))]
