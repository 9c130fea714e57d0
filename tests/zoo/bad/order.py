"""Flows whose order is that of a set, which differs from process to process."""

from dataclasses import dataclass, field

import loom
from tests.zoo.steps import fetch, note


@loom.flow
async def loop_over_a_set(ctx: loom.Context) -> list[str]:
    found: list[str] = []
    for item in {"a", "b", "c"}:
        found.append(await ctx.run(fetch, item))
    return found


@loom.flow
async def comprehension_over_a_set(ctx: loom.Context) -> list[str]:
    items = set(["a", "b"]) | {"c"}
    return [await ctx.run(fetch, item) for item in items]


@loom.flow
async def list_of_a_set(ctx: loom.Context) -> str:
    return await ctx.run(fetch, list({"a", "b", "c"})[0])


@loom.flow
async def dict_from_a_set(ctx: loom.Context) -> list[str]:
    waiting = dict.fromkeys({"a", "b", "c"}, 0)
    return [await ctx.run(fetch, item) for item in waiting]


@loom.flow
async def pops_a_set(ctx: loom.Context) -> str:
    items = {"a", "b", "c"}
    return await ctx.run(fetch, items.pop())


@loom.flow
async def maps_a_set(ctx: loom.Context) -> list[str]:
    return await ctx.map(fetch, {"a", "b", "c"})


def missing(have: dict[str, int], want: dict[str, int]) -> set[str]:
    return want.keys() - have.keys()


@loom.flow
async def set_from_a_helper(ctx: loom.Context) -> str:
    return await ctx.run(fetch, ",".join(missing({"a": 1}, {"a": 1, "b": 2, "c": 3})))


@dataclass
class Order:
    tags: set[str] = field(default_factory=lambda: {"a", "b"})


@loom.flow
async def set_in_the_input(ctx: loom.Context, order: Order = Order()) -> int:
    total = 0
    for tag in order.tags:
        total += await ctx.run(note, tag)
    return total
