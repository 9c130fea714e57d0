"""Helpers in another module, some of which look at the world: what a flow reaches through them counts as its own."""

import functools
import random
import time

import loom
from tests.zoo.steps import fetch

SEEN: list[str] = []


def deadline() -> float:
    return later(60)


def later(seconds: float) -> float:
    return time.time() + seconds


def remember(item: str) -> None:
    SEEN.append(item)


async def fetch_later(ctx: loom.Context, item: str) -> str:
    if random.random() < 2:
        return await ctx.run(fetch, item)
    return item


async def first_page(ctx: loom.Context, item: str) -> str:
    return await ctx.run(fetch.named("page"), item)


async def page(ctx: loom.Context, item: str) -> str:
    return await ctx.run(fetch.named(f"page#{item}"), item)


@functools.cache
def doubled(n: int) -> int:
    return n * 2
