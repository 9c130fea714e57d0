"""Flows to be watched, with what they stand on, in a module of an author's."""

import itertools
import random
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import loom

NUMBERS = itertools.count()
SEEN: list[str] = []
CONFIGURED: dict[str, Any] = {"clock": time.time}


@loom.step
async def stamped(text: str) -> str:
    SEEN.append(text)
    return f"{text} {time.time() > 0} {random.random() < 1}"


@loom.step
def stamped_in_a_thread(text: str) -> str:
    SEEN.append(text)
    return f"{text} {time.time() > 0}"


@loom.flow
async def decent(ctx: loom.Context) -> list[str]:
    ctx.log.info("begins")
    chosen = await ctx.decide("which", random.choice, ["a"])
    first = await ctx.run(stamped, chosen)
    second = await ctx.run(stamped_in_a_thread, chosen)
    return [first, second, await ctx.run("now", lambda: str(time.time() > 0)), str(random.Random(7).random())]


@loom.flow
async def zoned(ctx: loom.Context) -> str:
    return datetime(2030, 7, 1, 12, tzinfo=UTC).astimezone(ZoneInfo.no_cache("Europe/Berlin")).isoformat()


@loom.flow
async def hasty(ctx: loom.Context) -> str:
    await ctx.run(stamped, "a")
    return await ctx.run(stamped, str(CONFIGURED["clock"]()))


@loom.flow(id="hasty")
async def mended(ctx: loom.Context) -> str:
    await ctx.run(stamped, "a")
    return await ctx.run(stamped, str(ctx.now()))


@loom.flow
async def stubborn(ctx: loom.Context) -> str:
    try:
        await ctx.run(stamped, str(CONFIGURED["clock"]()))
    except BaseException:  # noqa: BLE001  # that is the fault
        await ctx.run(stamped, "after all")
    return "done"


@loom.flow
async def excused(ctx: loom.Context) -> str:
    began = CONFIGURED["clock"]()  # loom: allow[clock] how long it takes is shown to nobody
    result = await ctx.run(stamped, "a")
    assert began > 0
    return result


@loom.flow
async def branching(ctx: loom.Context) -> Any:
    async def one(ctx: loom.Context) -> float:
        await ctx.run(stamped, "a")
        return random.random()

    return await ctx.parallel(one, one)


@loom.flow
async def counting(ctx: loom.Context) -> int:
    await ctx.run(stamped, "a")
    return next(NUMBERS)


@loom.flow
async def counting_before_it_waits(ctx: loom.Context) -> Any:
    await ctx.run(stamped, str(next(NUMBERS)))
    return await ctx.suspend("approval")


@loom.flow
async def remembering(ctx: loom.Context) -> str:
    SEEN.append("flow")
    return await ctx.run(stamped, "a")


@loom.flow
async def patient(ctx: loom.Context) -> str:
    await ctx.sleep(timedelta(days=1))
    return str(CONFIGURED["clock"]())
