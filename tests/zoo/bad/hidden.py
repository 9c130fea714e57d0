"""Flows whose fault no reading of the source can be sure of."""

import importlib
from typing import Any

import loom
from tests.zoo.steps import fetch, note

READERS: dict[str, Any] = {"text": open}


@loom.flow
async def clock_behind_getattr(ctx: loom.Context) -> int:
    clock = getattr(importlib.import_module("time"), "time")
    return await ctx.run(note, str(clock()))


@loom.flow
async def chance_by_a_computed_name(ctx: loom.Context) -> int:
    module = __import__("ran" + "dom")
    return await ctx.run(note, str(module.random()))


@loom.step
def tags() -> Any:
    return {"a", "b", "c"}


@loom.flow
async def order_of_what_was_answered_as_set(ctx: loom.Context) -> list[str]:
    found = await ctx.run(tags)
    return [await ctx.run(fetch, each) for each in found]


@loom.flow
async def file_behind_a_table(ctx: loom.Context) -> int:
    with READERS["text"]("/etc/hostname") as file:
        return await ctx.run(note, file.read())
