"""More flows that wrote golden logs: those whose code changed while their runs were in flight. They are never edited either."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass
class Euros:
    euros: int


@dataclass
class Cents:
    cents: int


@loom.flow(id="resumed_as")
async def resumed_as_before(ctx: loom.Context, price: Euros) -> list[Any]:
    return [await ctx.run(work, f"{price.euros}"), await ctx.suspend("go")]


@loom.flow(id="resumed_as", version="2")
async def resumed_as(ctx: loom.Context, price: Cents) -> list[Any]:
    early = saw("early", ctx.patched("early"))
    paid = saw("paid", await ctx.run(work, f"{price.cents} cents" if early else f"{price.cents / 100}"))
    return [paid, saw("go", await ctx.suspend("go")), saw("cents", await ctx.run(work, f"{price.cents}"))]


def in_cents(old: Any) -> Cents:
    return Cents(old.input["euros"] * 100)
