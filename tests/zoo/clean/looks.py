"""Flows that look suspicious, and are right: whoever finds something here cries wolf."""

import asyncio
import datetime as dt
import itertools
import json
import logging
import math
import random
import re
import time
import uuid
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

import loom
from tests.zoo import outside
from tests.zoo.steps import fetch, look_up, note, pay, save, stamp, token

LIMITS = {"small": 100, "large": 10_000}
KINDS = frozenset({"small", "large"})
WORD = re.compile(r"\w+")
log = logging.getLogger(__name__)


@loom.flow
async def sorted_set(ctx: loom.Context) -> list[str]:
    return [await ctx.run(fetch, item) for item in sorted({"b", "a"} | {"c"})]


@loom.flow
async def set_that_is_only_asked(ctx: loom.Context) -> int:
    seen = {"a"}
    seen.add("b")
    found = len(seen) + sum(len(item) for item in seen) + max(map(len, seen))
    if "a" in seen and "small" in KINDS and any(item == "b" for item in seen):
        found += await ctx.run(note, "both")
    return found


@loom.flow
async def set_that_was_sorted(ctx: loom.Context) -> list[str]:
    items: Any = {"a", "b"}
    items = sorted(items)
    return [await ctx.run(fetch, item) for item in items]


@loom.flow
async def set_made_of_a_set(ctx: loom.Context) -> int:
    doubled = {item * 2 for item in {"a", "b"}}
    for item in {"c", "d"}:
        doubled.add(item)
    return await ctx.run(note, str(len(doubled)))


@loom.flow
async def set_as_an_argument(ctx: loom.Context) -> Any:
    return await ctx.run("count", len, {"a", "b"})


@loom.flow
async def clock_in_a_step(ctx: loom.Context) -> float:
    return await ctx.run(stamp) + len(await ctx.run(token))


@loom.flow
async def clock_as_an_inline_step(ctx: loom.Context) -> float:
    seconds = await ctx.run("clock", time.time)
    number = await ctx.run("lot", lambda: random.randint(1, 6))
    return seconds + number


@loom.flow
async def chance_in_a_chooser(ctx: loom.Context) -> Any:
    def draw(candidates: list[str]) -> str:
        return random.choice(candidates)

    return await ctx.decide("lot", draw, ["a", "b"])


@loom.flow
async def helpers_of_the_context(ctx: loom.Context) -> str:
    due = ctx.now() + timedelta(days=1)
    chance = "heads" if ctx.random() < 0.5 else "tails"
    return await ctx.run(fetch, f"{due:%Y} {chance} {ctx.uuid()}")


@loom.flow
async def times_that_are_given(ctx: loom.Context) -> str:
    begin = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    day = dt.date(2026, 1, 2)
    stamped = datetime.fromtimestamp(0, tz=dt.UTC)
    return await ctx.run(fetch, f"{begin + timedelta(hours=1)} {day} {stamped} {time.struct_time}")


@loom.flow
async def seeded_generator(ctx: loom.Context) -> str:
    generator = random.Random(ctx.random())
    items = ["a", "b", "c"]
    generator.shuffle(items)
    return await ctx.run(fetch, items[0])


@loom.flow
async def name_derived_id(ctx: loom.Context) -> str:
    return await ctx.run(fetch, str(uuid.uuid5(uuid.NAMESPACE_URL, ctx.execution_id)))


@loom.flow
async def local_state(ctx: loom.Context) -> dict[str, int]:
    found: dict[str, int] = {}
    totals: defaultdict[str, int] = defaultdict(int)
    for item in ("a", "b"):
        found[item] = await ctx.run(note, item)
        totals["all"] += found[item]
    found.update(totals)
    found.pop("a")
    return found


@loom.flow
async def constants_of_the_module(ctx: loom.Context) -> int:
    words = WORD.findall("two words")
    return await ctx.run(note, words[0]) + LIMITS["small"] + int(math.sqrt(16))


@loom.flow
async def broad_except_round_a_step(ctx: loom.Context) -> str:
    try:
        return await ctx.run(fetch, "a")
    except Exception:
        return await ctx.run(look_up, "a")


@loom.flow
async def everything_is_raised_again(ctx: loom.Context) -> str:
    try:
        return await ctx.run(fetch, "a")
    except BaseException:
        await ctx.run(note, "given back")
        raise


@loom.flow
async def broad_except_without_a_wait(ctx: loom.Context) -> str:
    try:
        size = int("no number")
    except:
        size = 0
    return await ctx.run(fetch, str(size))


@loom.flow
async def syscall_in_finally(ctx: loom.Context) -> str:
    try:
        return await ctx.run(fetch, "a")
    finally:
        await ctx.run(note, "given back")


@loom.flow
async def names_that_vary(ctx: loom.Context) -> list[str]:
    found = []
    for item in ("a", "b"):
        found.append(await ctx.run(fetch.keyed(item), item))
        found.append(await ctx.run(fetch.named(f"again#{item}"), item))
        found.append(await outside.page(ctx, item))
    tries = 0
    while tries < 2:
        tries += 1
        found.append(await ctx.run(fetch.named(f"poll#{tries}"), "a"))
    return found


@loom.flow
async def one_name_in_each_branch(ctx: loom.Context) -> list[str]:
    async def one(ctx: loom.Context, item: str) -> str:
        return await ctx.run(fetch.named("only"), item)

    return await ctx.map(one, ["a", "b"])


@loom.flow
async def one_name_outside_the_loop(ctx: loom.Context) -> list[str]:
    begun = await ctx.run(pay.named("payment"), 100)
    return [f"{begun} {await ctx.run(fetch, item)}" for item in ("a", "b")]


@loom.flow
async def gathered_syscalls(ctx: loom.Context) -> list[str]:
    return await asyncio.gather(*(ctx.run(fetch, item) for item in ("a", "b")))


@loom.flow
async def a_lock_between_branches(ctx: loom.Context) -> tuple[str, str]:
    lock = asyncio.Lock()

    async def one(ctx: loom.Context) -> str:
        async with lock:
            return await ctx.run(fetch, "a")

    return await ctx.parallel(one, one)


@loom.flow
async def paths_without_a_disk(ctx: loom.Context) -> int:
    name = Path("reports") / "2026.txt"
    return await ctx.run(save, name.with_suffix(".md").name + PurePosixPath("a/b").stem)


@loom.flow
async def names_like_those_of_the_world(ctx: loom.Context) -> str:
    def open(text: str) -> str:
        return text.strip()

    time = 7
    random = {"random": 1}
    return await ctx.run(fetch, f"{open(' a ')} {time} {random['random']}")


@loom.flow
async def logs_quietly(ctx: loom.Context) -> str:
    ctx.log.info("fetching")
    return await ctx.run(fetch, json.dumps({"b": 1, "a": 2}, sort_keys=True))


class Basket:
    """State of the flow's own, in an object that keeps its context."""

    def __init__(self, ctx: loom.Context) -> None:
        self.ctx, self.items = ctx, Counter[str]()

    async def add(self, item: str) -> None:
        self.items[await self.ctx.run(fetch, item)] += 1


@loom.flow
async def object_of_its_own(ctx: loom.Context) -> int:
    basket = Basket(ctx)
    for item in ("a", "a"):
        await basket.add(item)
    return basket.items["A"]


@dataclass
class Parcel:
    items: list[str] = field(default_factory=list)
    numbers: Any = field(default_factory=itertools.count)


@loom.flow
async def counter_of_its_own(ctx: loom.Context) -> str:
    parcel = Parcel()
    parcel.items.append(str(next(parcel.numbers)))
    return await ctx.run(fetch, parcel.items[0] + str(outside.doubled(2)))


@loom.flow
async def scope_of_tasks(ctx: loom.Context) -> list[str]:
    async def one(ctx: loom.Context, item: str) -> str:
        return await ctx.run(fetch, item)

    async with ctx.scope(timeout=timedelta(hours=1)) as scope:
        tasks = [scope.start(one, item) for item in ("a", "b")]
    return [await task for task in tasks]


@loom.flow
async def allowed_with_a_reason(ctx: loom.Context) -> str:
    print("started")  # loom: allow[log] a person watches this one in a terminal
    return await ctx.run(fetch, "a")
