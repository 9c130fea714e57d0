"""From sending a message to the flow that has it: a run at work in this process, one that is parked, one of another process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import loom
from tests.benchmarks.report import Line, Target, plain
from tests.benchmarks.scale import Scale, folder

MESSAGES: Final = 200
RUN: Final = "listening"
SEEN: Final[list[float]] = []
"""How many seconds each message took, as the flow saw it. (A flow reads no clock; these are never replayed.)"""


class Signals:
    """What keeps a run at work, and what says that it has a message."""

    done: asyncio.Event
    received: asyncio.Event


@loom.step
async def busy() -> None:
    await Signals.done.wait()


@loom.flow
async def listening(ctx: loom.Context, count: int) -> None:
    async def works(ctx: loom.Context) -> None:
        await ctx.run(busy)

    async def listens(ctx: loom.Context) -> None:
        for _ in range(count):
            sent = await ctx.receive("news", expects=float)
            SEEN.append(time.perf_counter() - sent)
            Signals.received.set()

    await ctx.parallel(works, listens)


@loom.flow
async def parked(ctx: loom.Context) -> None:
    sent = await ctx.receive("news", expects=float)
    SEEN.append(time.perf_counter() - sent)


def messages(scale: Scale) -> Iterator[Line]:
    soon, poll = Target(bound="at most", limit=20), Target(bound="at most", limit=270)
    count = scale.of(MESSAGES)
    for name, target, measured in (
        ("driven", soon, _driven(count, elsewhere=False)),
        ("parked", soon, _parked(count)),
        ("elsewhere", poll, _driven(max(count // 10, 1), elsewhere=True)),
    ):
        seconds = sorted(asyncio.run(measured))
        yield plain(f"message-{name}", [seconds[len(seconds) * 95 // 100] * 1000], unit="ms", target=target)


async def _driven(count: int, *, elsewhere: bool) -> list[float]:
    """Send *count* messages, one after the other, to a run at work: from its own runtime, or by another on the file."""
    Signals.done, Signals.received = asyncio.Event(), asyncio.Event()
    SEEN.clear()
    with folder() as at:
        async with _app(at / "run.db") as app, _app(at / "run.db") as other:
            driving = asyncio.create_task(app.runtime.start(listening, count, id=RUN))
            while len(await app.runtime.events(RUN)) < 4:  # both branches stand where they wait
                await asyncio.sleep(0.01)
            for _ in range(count):
                Signals.received.clear()
                await (other if elsewhere else app).runtime.send(RUN, "news", time.perf_counter())
                await Signals.received.wait()
            Signals.done.set()
            await driving
    return list(SEEN)


async def _parked(count: int) -> list[float]:
    """Send a message each to *count* runs that are parked for it, and drive them on."""
    SEEN.clear()
    with folder() as at:
        async with _app(at / "run.db") as app:
            for number in range(count):
                await app.runtime.start(parked, id=f"{RUN}-{number}")
            for number in range(count):
                await app.runtime.send(f"{RUN}-{number}", "news", time.perf_counter())
    return list(SEEN)


def _app(database: Path) -> loom.LoomApp:
    return loom.define_config(flows=[listening, parked], storage=loom.sqlite_storage(database))
