"""Flows that keep something outside themselves, and flows that swallow what Loom unwinds them with."""

import asyncio
import contextlib
import itertools
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import loom
from tests.zoo import outside
from tests.zoo.steps import fetch, note, pay

CACHE: dict[str, str] = {}
COUNT = 0
NUMBERS = itertools.count()
CURRENT: list[loom.Context] = []


@loom.flow
async def cache_of_the_module(ctx: loom.Context) -> str:
    if "a" not in CACHE:
        CACHE["a"] = await ctx.run(fetch, "a")
    return CACHE["a"]


@loom.flow
async def global_counter(ctx: loom.Context) -> str:
    global COUNT
    COUNT += 1
    return await ctx.run(fetch, str(COUNT))


@loom.flow
async def global_numbers(ctx: loom.Context) -> str:
    return await ctx.run(fetch, str(next(NUMBERS)))


@loom.flow
async def list_of_another_module(ctx: loom.Context) -> str:
    outside.remember("a")
    return await ctx.run(fetch, str(len(outside.SEEN)))


@dataclass
class Limits:
    tried: ClassVar[int] = 0


@loom.flow
async def attribute_of_a_class(ctx: loom.Context) -> str:
    Limits.tried += 1
    return await ctx.run(fetch, str(Limits.tried))


async def collected(ctx: loom.Context, item: str, found: list[str] = []) -> list[str]:
    found.append(await ctx.run(fetch, item))
    return found


@loom.flow
async def default_that_grows(ctx: loom.Context) -> list[str]:
    return await collected(ctx, "a")


@loom.flow
async def context_kept(ctx: loom.Context) -> str:
    CURRENT.append(ctx)
    return await ctx.run(fetch, "a")


# Swallowed signals


@loom.flow
async def bare_except(ctx: loom.Context) -> Any:
    try:
        return await ctx.suspend("approval", timeout=timedelta(days=1))
    except:
        return "no answer"


@loom.flow
async def except_base_exception(ctx: loom.Context) -> Any:
    try:
        return await ctx.suspend("approval")
    except BaseException as error:
        return str(error)


@loom.flow
async def suppresses_all(ctx: loom.Context) -> str:
    with contextlib.suppress(BaseException):
        await ctx.suspend("approval")
    return "on"


@loom.flow
async def return_in_finally(ctx: loom.Context) -> Any:
    try:
        await ctx.suspend("approval")
    finally:
        return "no answer"


@loom.flow
async def swallows_a_cancellation(ctx: loom.Context) -> Any:
    try:
        return await ctx.run(fetch, "a")
    except asyncio.CancelledError:
        return "cancelled"


# Identities in loops


@loom.flow
async def one_name_in_a_loop(ctx: loom.Context) -> list[str]:
    return [await ctx.run(fetch.named("item"), "a") for _ in range(2)]


@loom.flow
async def one_key_in_a_loop(ctx: loom.Context) -> list[str]:
    found = []
    order = "order-7"
    for _ in range(2):
        found.append(await ctx.run(fetch.keyed(order), "a"))
    return found


@loom.flow
async def one_name_in_a_poll(ctx: loom.Context) -> str:
    tries = 0
    while True:
        tries += 1
        state = await ctx.run(fetch.named("poll"), "a")
        if state == "A" or tries > 3:
            return state


@loom.flow
async def one_name_two_helpers_deep(ctx: loom.Context) -> list[str]:
    return [await outside.first_page(ctx, item) for item in ("a", "a")]


# Effects of a greater class than is said


@loom.step(reads=True)
def reads_that_writes(text: str) -> int:
    with open("/dev/null", "w", encoding="utf-8") as file:
        return file.write(text)


@loom.flow
async def read_that_writes(ctx: loom.Context) -> int:
    return await ctx.run(reads_that_writes, "a")


@loom.step(idempotent=False, retry=loom.Retry(attempts=5))
def pays_again(cents: int) -> str:
    return f"paid {cents}"


@loom.flow
async def retry_that_never_happens(ctx: loom.Context) -> str:
    return await ctx.run(pays_again, 100)


@loom.flow
async def name_with_other_arguments(ctx: loom.Context) -> str:
    total = ""
    for cents in (100, 200):
        total += await ctx.run(pay.named("payment"), cents)
    return total + str(await ctx.run(note, total))
