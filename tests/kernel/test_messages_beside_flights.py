"""What waits in the inbox is delivered one after another, also while an effect is under way."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

import pytest

import loom
from loom.spi.clock import VirtualClock
from tests.kernel.running import RUN, payloads, runtime

HANGS_S: Final = 10.0
until: list[asyncio.Event] = []


@pytest.fixture(autouse=True)
def _nothing_over() -> None:
    until[:] = [asyncio.Event()]


@loom.step
async def long() -> str:
    await until[0].wait()
    return "long"


@loom.flow
async def listens(ctx: loom.Context) -> dict[str, Any]:
    await ctx.suspend("begin")

    async def then_asks(ctx: loom.Context) -> Any:
        message = await ctx.receive("a")
        return [message, await ctx.suspend("more")]

    async def then_ends(ctx: loom.Context) -> Any:
        message = await ctx.receive("b")
        until[0].set()
        return message

    async def works(ctx: loom.Context) -> Any:
        return await ctx.run(long)

    return await ctx.parallel({"works": works, "asks": then_asks, "ends": then_ends})


@pytest.mark.parametrize("write_behind", [False, True])
async def test_a_message_is_received_while_an_effect_is_under_way_though_the_one_before_it_led_to_a_gate(
    write_behind: bool,
) -> None:
    over = runtime(listens, write_behind=write_behind)
    await over.start(listens, id=RUN)
    for topic in ("a", "b"):
        await over.send(RUN, topic, topic)

    asked = await asyncio.wait_for(over.resume(RUN, answer=None), HANGS_S)
    done = await over.resume(RUN, answer="yes")

    assert (asked.status, done.value) == ("suspended", {"works": "long", "asks": ["a", "yes"], "ends": "b"})


@loom.flow
async def waits(ctx: loom.Context) -> dict[str, Any]:
    async def then_asks(ctx: loom.Context) -> Any:
        try:
            return await ctx.receive("a", timeout=timedelta(hours=1))
        except loom.ReceiveTimedOut:
            return await ctx.suspend("more")

    async def then_ends(ctx: loom.Context) -> Any:
        try:
            return await ctx.receive("b", timeout=timedelta(hours=1))
        except loom.ReceiveTimedOut:
            until[0].set()
            return "late"

    async def works(ctx: loom.Context) -> Any:
        await ctx.suspend("begin")
        return await ctx.run(long)

    return await ctx.parallel({"works": works, "asks": then_asks, "ends": then_ends})


async def test_two_receives_are_late_at_once_while_an_effect_is_under_way() -> None:
    clock = VirtualClock()
    over = runtime(waits, clock=clock)
    await over.start(waits, id=RUN)
    driven = asyncio.ensure_future(over.resume(RUN, gate="begin", answer=None))
    while len(await payloads(over, "STEP_STARTED")) < 1 and not driven.done():
        await asyncio.sleep(0)

    clock.advance(7_200_000)
    asked = await asyncio.wait_for(driven, HANGS_S)

    assert asked.status == "suspended"
    assert len(await payloads(over, "MESSAGE_TIMED_OUT")) == 2
