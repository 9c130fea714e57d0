"""Somebody else writes to the log just where a drive is about to: no request is left to nobody, and no verb waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.spi.conflicts import Fenced
from loom.spi.event_store import Conflict
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, kinds, runtime


class NotedMeanwhile(MemoryStorage):
    """A store in which somebody notes something on the log just before a drive writes an event of one type."""

    def __init__(self) -> None:
        super().__init__()
        self.before = ""
        self.note: Callable[[], Awaitable[Any]] | None = None

    async def append(self, batch: Any) -> Any:
        note = self.note
        if note is not None and any(event.type == self.before for event in batch[0].events):
            self.note = None
            await note()
        return await super().append(batch)


@loom.flow
async def waits_for_both(ctx: loom.Context) -> Any:
    async def listens(ctx: loom.Context) -> Any:
        return await ctx.receive("news")

    async def asks(ctx: loom.Context) -> Any:
        return await ctx.suspend("ask")

    return await ctx.parallel(listens, asks)


@pytest.mark.parametrize("verb", ["answer", "send", "release"])
async def test_a_note_that_comes_between_leaves_no_request_to_nobody(verb: str) -> None:
    store = NotedMeanwhile()
    over = runtime(waits_for_both, storage=store)
    await over.start(waits_for_both, id=RUN)
    if verb == "release":
        await over.hold(RUN, "news")
        await over.send(RUN, "news", 1)
    other = runtime(waits_for_both, storage=store)
    store.before, store.note = "EXECUTION_RESUMED", lambda: other.hold(RUN, "weather")

    verbs = {
        "answer": lambda: over.resume(RUN, answer="yes"),
        "send": lambda: over.send(RUN, "news", 1),
        "release": lambda: over.release(RUN, "news"),
    }
    outcome = await verbs[verb]()

    assert outcome.status == "suspended"
    told = await kinds(over)
    assert told.index("TOPIC_HELD") < len(told) - 2
    assert told[-2:] == ["GATE_ANSWERED" if verb == "answer" else "MESSAGE_RECEIVED", "SUSPENDED"]


async def test_a_verb_that_waits_for_a_drive_to_park_is_told_when_its_write_fails() -> None:
    store = NotedMeanwhile()
    over, other = (runtime(waits_for_both, storage=store) for _ in range(2))
    await over.enqueue(waits_for_both, id=RUN)
    await over.hold(RUN, "news")
    await over.send(RUN, "news", 1)
    beside: list[asyncio.Future[Any]] = []

    async def note() -> None:
        await other.release(RUN, "news", drive=False)
        drive = over._driver.drives[ExecutionId(RUN)]
        beside.append(asyncio.ensure_future(over.release(RUN, "news")))
        while drive.unpaused._waited is None:
            await asyncio.sleep(0)

    store.before, store.note = "EXECUTION_SUSPENDED", note
    await over.resume(RUN)
    await asyncio.wait_for(beside[0], 10)

    assert (await kinds(over))[-2:] == ["MESSAGE_RECEIVED", "SUSPENDED"]


class GatesAreSlow(MemoryStorage):
    """A store that does not write that a gate was opened before it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.let = asyncio.Event(), asyncio.Event()

    async def append(self, batch: Any) -> Any:
        if any(event.type == "GATE_OPENED" for event in batch[0].events):
            self.asked.set()
            await self.let.wait()
        return await super().append(batch)


async def test_an_answer_waits_until_the_gate_that_it_answers_is_on_disk() -> None:
    """Else a driver that has lost the run would take answers to gates that the log never had."""
    store = GatesAreSlow()
    over = runtime(asks_and_rests, storage=store)
    driving = asyncio.create_task(over.start(asks_and_rests, id=RUN))
    await store.asked.wait()

    answering = asyncio.create_task(over.resume(RUN, answer="yes"))
    for _ in range(50):
        await asyncio.sleep(0)
    row = await store.row(ExecutionId(RUN))
    assert row is not None
    early = await store.pending(ExecutionId(RUN), row.incarnation)
    store.let.set()
    await answering

    assert list(early) == []
    assert (await driving).value == "yes"


@loom.flow
async def asks_and_rests(ctx: loom.Context) -> Any:
    async def rests(ctx: loom.Context) -> None:
        await ctx.sleep(0.05)  # the drive keeps its place, and the gate is written beside it

    async def asks(ctx: loom.Context) -> Any:
        return await ctx.suspend("ask")

    return (await ctx.parallel(rests, asks))[1]


class Gone(MemoryStorage):
    """A store whose runs another has taken over, once it is said: nothing that ends a step is written."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = asyncio.Event()
        self.is_taken = False

    async def append(self, batch: Any) -> Any:
        if self.is_taken:
            self.refused.set()
            return [Conflict(99, batch[0].incarnation)]
        return await super().append(batch)


class Doors:
    """Which steps may end."""

    open: dict[str, asyncio.Event]


@loom.step
async def waits_at(door: str) -> str:
    await Doors.open[door].wait()
    return door


@loom.flow
async def two_doors(ctx: loom.Context) -> Any:
    return await ctx.map(waits_at, ["front", "back"])


async def test_a_driver_that_loses_its_run_while_it_is_being_paused_is_told_so() -> None:
    """It has read the request to pause, and waits for two steps; the end of the first is refused before the second ends."""
    store = Gone()
    over, Doors.open = runtime(two_doors, storage=store), {"front": asyncio.Event(), "back": asyncio.Event()}
    driving = asyncio.create_task(over.start(two_doors, id=RUN))
    async with asyncio.timeout(10):
        while (await kinds(over)).count("STEP_STARTED") < 2:
            await asyncio.sleep(0)
        await over.pause(RUN)
        while not over._driver.drives[ExecutionId(RUN)].is_interrupted:
            await asyncio.sleep(0)

        store.is_taken = True
        Doors.open["front"].set()
        await store.refused.wait()
        Doors.open["back"].set()

        with pytest.raises(Fenced):
            await driving
