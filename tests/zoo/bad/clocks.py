"""Flows that look at a clock."""

import datetime as dt
import time
from dataclasses import dataclass, field
from datetime import date, datetime
from time import monotonic as ticks

import loom
from tests.zoo import outside
from tests.zoo.steps import fetch, note


@loom.flow
async def wall_clock(ctx: loom.Context) -> str:
    if time.time() > 0:
        return await ctx.run(fetch, "old")
    return "new"


@loom.flow
async def naive_now(ctx: loom.Context) -> int:
    return await ctx.run(note, datetime.now().isoformat())


@loom.flow
async def aware_now(ctx: loom.Context) -> int:
    return await ctx.run(note, dt.datetime.now(dt.UTC).isoformat())


@loom.flow
async def today(ctx: loom.Context) -> int:
    return await ctx.run(note, str(date.today()))


@loom.flow
async def aliased_monotonic(ctx: loom.Context) -> int:
    began = ticks()
    await ctx.run(fetch, "a")
    return await ctx.run(note, str(ticks() - began))


@loom.flow
async def clock_two_helpers_deep(ctx: loom.Context) -> int:
    return await ctx.run(note, str(outside.deadline()))


@loom.flow
async def clock_behind_a_name(ctx: loom.Context) -> int:
    clock = time.time
    return await ctx.run(note, str(clock()))


@dataclass
class Ticket:
    words: str
    at: datetime = field(default_factory=datetime.now)


@loom.flow
async def clock_in_a_default(ctx: loom.Context) -> int:
    ticket = Ticket("broken")
    return await ctx.run(note, str(ticket.at))


class Watch:
    def __init__(self) -> None:
        self.began = 0.0

    def start(self) -> float:
        self.began = time.perf_counter()
        return self.began


@loom.flow
async def clock_in_a_method(ctx: loom.Context) -> int:
    watch = Watch()
    return await ctx.run(note, str(watch.start()))


@loom.flow
async def blocking_sleep(ctx: loom.Context) -> str:
    time.sleep(0.01)
    return await ctx.run(fetch, "a")
