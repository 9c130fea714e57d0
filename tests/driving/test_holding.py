"""An operator holds a topic of one run back, and releases it: both on the log, nothing lost, nothing out of order."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.core.errors import ExecutionTerminated, InvalidId
from loom.core.ids import ExecutionId
from loom.driving.errors import ExecutionNotFound
from loom.spi.clock import VirtualClock
from tests.kernel.running import RUN, cut_off_after, kinds, payloads, runtime


@loom.flow
async def three(ctx: loom.Context) -> list[Any]:
    return [await ctx.receive("news") for _ in range(3)]


@loom.flow
async def either(ctx: loom.Context) -> list[Any]:
    async def listens(ctx: loom.Context, topic: str) -> Any:
        return await ctx.receive(topic)

    return await ctx.map(listens, ["news", "weather"])


@loom.flow
async def asks(ctx: loom.Context) -> Any:
    return await ctx.suspend("ask")


@pytest.mark.proves("SUS-09")
async def test_a_held_topic_is_not_delivered_and_its_release_resumes_in_order() -> None:
    over = runtime(three)
    await over.start(three, id=RUN)
    await over.send(RUN, "news", 1)

    await over.hold(RUN, "news", reason="spam", principal="ada")
    held = [await over.send(RUN, "news", number) for number in (2, 3)]
    still = await over.resume(RUN)
    done = await over.release(RUN, "news", principal="bob")

    assert [each.status for each in held] == ["accepted", "accepted"]
    assert (still.status, done.value) == ("suspended", [1, 2, 3])
    told = [(event.type, event.payload, event.metadata) for event in await over.events(RUN) if "TOPIC" in event.type]
    assert [(type_, payload.topic, about) for type_, payload, about in told] == [
        ("TOPIC_HELD", "news", {"principal": "ada"}),
        ("TOPIC_RELEASED", "news", {"principal": "bob"}),
    ]
    assert told[0][1].reason == "spam"


async def test_the_other_topics_of_the_run_and_other_runs_go_on() -> None:
    over = runtime(either)
    await over.start(either, id=RUN)
    await over.start(either, id="other")
    await over.hold(RUN, "news")

    for run in (RUN, "other"):
        await over.send(run, "news", "n")
        await over.send(run, "weather", "w")

    assert [fact.message for fact in await payloads(over, "MESSAGE_RECEIVED")] == ["w"]
    assert (await over.wait("other")).value == ["n", "w"]


async def test_a_run_that_is_driven_journals_the_hold_itself_before_it_looks_at_later_messages() -> None:
    over = runtime(beside)
    Elsewhere.done = asyncio.Event()
    driving = asyncio.ensure_future(over.start(beside, id=RUN, linger_s=0))
    async with asyncio.timeout(5):
        while "MESSAGE_AWAITED" not in await kinds(over):
            await asyncio.sleep(0)

    await over.hold(RUN, "news", principal="ada")
    await over.send(RUN, "news", 1)
    Elsewhere.done.set()
    parked = await driving

    assert parked.status == "suspended"
    [held] = [event for event in await over.events(RUN) if event.type == "TOPIC_HELD"]
    assert held.metadata == {"request": 1, "principal": "ada"}
    assert await payloads(over, "MESSAGE_RECEIVED") == []
    assert (await over.release(RUN, "news")).value == [None, 1]


class Elsewhere:
    """What a step waits for."""

    done: asyncio.Event


@loom.step
async def linger() -> None:
    await Elsewhere.done.wait()


@loom.flow
async def beside(ctx: loom.Context) -> list[Any]:
    async def works(ctx: loom.Context) -> None:
        await ctx.run(linger)

    async def listens(ctx: loom.Context) -> Any:
        return await ctx.receive("news")

    return list(await ctx.parallel(works, listens))


async def test_a_hold_outlives_the_process_and_is_no_part_of_what_the_flow_replays() -> None:
    over = runtime(three)
    await over.start(three, id=RUN)
    await over.hold(RUN, "news")
    await over.send(RUN, "news", 1)
    left = await cut_off_after(over.storage, len(await over.events(RUN)))

    again = runtime(three, storage=left)
    assert (await again.resume(RUN)).status == "suspended"
    assert (await again.send(RUN, "news", 2)).status == "accepted"
    await again.release(RUN, "news")

    assert [fact.message for fact in await payloads(again, "MESSAGE_RECEIVED")] == [2]


async def test_what_is_held_already_or_was_never_held_writes_nothing() -> None:
    over = runtime(three)
    await over.start(three, id=RUN)

    released = await over.release(RUN, "news")
    await over.hold(RUN, "news")
    await over.hold(RUN, "news")

    assert released.status == "accepted"
    assert await kinds(over) == ["STARTED", "MESSAGE_AWAITED", "SUSPENDED", "TOPIC_HELD"]


async def test_a_receive_of_a_held_topic_times_out_and_the_message_stays() -> None:
    clock = VirtualClock()
    over = runtime(hasty, clock=clock)
    await over.start(hasty, id=RUN, linger_s=0)
    await over.hold(RUN, "news")
    await over.send(RUN, "news", "held")
    clock.advance(60_000)

    await over.resume(RUN)
    done = await over.release(RUN, "news")

    assert done.value == ["nothing", "held"]


@loom.flow
async def hasty(ctx: loom.Context) -> list[str]:
    try:
        first = await ctx.receive("news", timeout=timedelta(minutes=1))
    except loom.ReceiveTimedOut:
        first = "nothing"
    return [first, await ctx.receive("news")]


async def test_holding_and_releasing_is_refused_for_no_run_an_ended_run_and_no_topic() -> None:
    over = runtime(asks)
    for verb in (over.hold, over.release):
        with pytest.raises(ExecutionNotFound):
            await verb(RUN, "news")
    await over.start(asks, id=RUN)
    await over.resume(RUN, answer=1)

    for verb in (over.hold, over.release):
        with pytest.raises(ExecutionTerminated):
            await verb(RUN, "news")
        with pytest.raises(InvalidId):
            await verb(RUN, "")
    assert await over.storage.head(ExecutionId(RUN)) is not None
    assert (await kinds(over))[-1] == "COMPLETED"


@loom.flow
async def rolls(ctx: loom.Context, number: int = 0) -> Any:
    if number == 0:
        await ctx.receive("go")
        await ctx.continue_as_new(1)
    return await ctx.receive("news")


async def test_a_topic_stays_held_when_the_run_continues_as_new() -> None:
    over = runtime(rolls)
    await over.start(rolls, id=RUN)
    await over.hold(RUN, "news")
    await over.send(RUN, "news", "held")

    rolled = await over.send(RUN, "go", None)
    done = await over.release(RUN, "news")

    assert (rolled.status, done.value) == ("suspended", "held")
    assert await kinds(over, f"{RUN}~2") == [
        *("STARTED", "TOPIC_HELD", "MESSAGE_AWAITED", "SUSPENDED"),
        *("TOPIC_RELEASED", "RESUMED", "MESSAGE_RECEIVED", "COMPLETED"),
    ]
