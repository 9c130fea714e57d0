"""Flows that draw lots, or ask what differs from process to process."""

import os
import platform
import random
import secrets
import uuid
from random import choice

import loom
from tests.zoo import outside
from tests.zoo.steps import fetch, note

REGION = os.environ.get("ZOO_REGION", "eu")
SALT = random.random()


@loom.flow
async def lot(ctx: loom.Context) -> str:
    if random.random() < 0.5:
        return await ctx.run(fetch, "heads")
    return await ctx.run(fetch, "tails")


@loom.flow
async def lot_among(ctx: loom.Context) -> str:
    return await ctx.run(fetch, choice(["a", "b", "c"]))


@loom.flow
async def unseeded_generator(ctx: loom.Context) -> str:
    generator = random.Random()
    return await ctx.run(fetch, str(generator.randint(0, 10**9)))


@loom.flow
async def fresh_id(ctx: loom.Context) -> str:
    return await ctx.run(fetch, str(uuid.uuid4()))


@loom.flow
async def fresh_secret(ctx: loom.Context) -> str:
    return await ctx.run(fetch, secrets.token_hex(8))


@loom.flow
async def chance_in_another_module(ctx: loom.Context) -> str:
    return await outside.fetch_later(ctx, "a")


@loom.flow
async def chance_in_a_branch(ctx: loom.Context) -> int:
    async def one(ctx: loom.Context) -> int:
        return await ctx.run(note, str(random.randint(0, 10**9)))

    return sum(await ctx.parallel(one, one))


@loom.flow
async def chance_in_a_lambda(ctx: loom.Context) -> str:
    items = sorted(["a", "b", "c"], key=lambda _: random.random())
    return await ctx.run(fetch, items[0])


@loom.flow
async def chance_at_import(ctx: loom.Context) -> int:
    return await ctx.run(note, str(SALT))


@loom.flow
async def environment(ctx: loom.Context) -> str:
    if "ZOO_FAST" in os.environ:
        return "fast"
    return await ctx.run(fetch, os.getenv("ZOO_ITEM", "slow"))


@loom.flow
async def environment_at_import(ctx: loom.Context) -> str:
    return await ctx.run(fetch, REGION)


@loom.flow
async def which_machine(ctx: loom.Context) -> str:
    return await ctx.run(fetch, f"{platform.node()}-{os.getpid()}")


@loom.flow
async def address_of_an_object(ctx: loom.Context) -> str:
    item = object()
    return await ctx.run(fetch, str(id(item)))


@loom.flow
async def hash_of_a_text(ctx: loom.Context) -> str:
    return await ctx.run(fetch, "left" if hash("order-7") % 2 else "right")
