"""A small store that the tests of the reading commands look at: one run for each way a run can stand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import loom
from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.driving.reading import read_log
from loom.driving.runtime import WorkflowRuntime
from loom.plugins.sqlite import SqliteStorage
from loom.spi.clock import SeededEntropy, VirtualClock
from loom.spi.event_store import Storage

Event = EventEnvelope[Any]

HOSTILE: Final = "\x1b]52;c;aGk=\x07\x9b2J[red]\u202eЗдравствуй \U0001f600\u0000"  # noqa: RUF001  # a name in Cyrillic
"""A clipboard write, a C1 sequence, rich's markup, a reversal of the reading order, and harmless Cyrillic and emoji."""

CLOCK: Final = VirtualClock()


@loom.step(retry=loom.Retry(attempts=3, delay=timedelta(0)))
async def assess_risk(step: loom.StepContext, claim: str) -> float:
    CLOCK.advance(120)
    if step.attempt == 1:
        raise ValueError("the risk service is busy")
    return 0.7


@loom.step
async def fetch(n: int) -> int:
    for _ in range(10 * n):  # so that branches end in the order of their numbers
        await asyncio.sleep(0)
    CLOCK.advance(7)
    if n == 99:
        raise RuntimeError(f"no such thing {HOSTILE}")
    return n


@loom.step(idempotent=False, timeout=timedelta(milliseconds=1))
async def pay(claim: str) -> str:
    await asyncio.Event().wait()
    return "paid"


@loom.flow
async def refund(ctx: loom.Context, claim: str) -> bool:
    risk = await ctx.run(assess_risk, claim)
    await ctx.map(fetch, [1, 2, 3])
    await ctx.decide("model", lambda models: models[-1], ["small", "large"])
    await ctx.emit("claim_checked", {"risk": risk})
    approved: bool = await ctx.suspend("approval", show={"claim": claim}, expects=bool, timeout=timedelta(days=3))
    return approved


@loom.flow
async def broken(ctx: loom.Context) -> None:
    await ctx.run(fetch, 99)


@loom.flow
async def nap(ctx: loom.Context) -> None:
    await ctx.sleep(timedelta(hours=2))


@loom.flow
async def payout(ctx: loom.Context, claim: str) -> str:
    return await ctx.run(pay, claim)


@loom.step
async def look(n: int) -> int:
    return n


@loom.flow
async def many(ctx: loom.Context, branches: int) -> None:
    await ctx.map(look, range(branches))


@loom.step
async def check(n: int) -> int:
    if n == 20:
        raise ValueError("not this one")
    return n


@loom.flow
async def looping(ctx: loom.Context, times: int) -> None:
    for n in range(times):
        with contextlib.suppress(loom.StepFailed):
            await ctx.run(check, n)


@loom.flow
async def in_turn(ctx: loom.Context, times: int) -> None:
    for n in range(times):
        await ctx.run(look, n)
        await ctx.run(check, -n)


FLOWS: Final[dict[str, Any]] = {flow.id: flow for flow in (refund, broken, nap, payout, many, looping, in_turn)}


async def tell(storage: Storage, *, hostile: bool = True) -> int:
    """Write the story to *storage* and return when it ends, ms since the epoch."""
    CLOCK.advance(1_700_000_000_000 - CLOCK.now_ms())
    runtime = WorkflowRuntime(storage, flows=FLOWS, clock=CLOCK, entropy=SeededEntropy(7))
    await runtime.start(refund, "c-7", id="refund-41", principal="ann", attributes={"customer": "c7"})
    await runtime.resume("refund-41", answer=True, principal="bob")
    CLOCK.advance(60_000)
    await runtime.start(refund, HOSTILE if hostile else "c-8", id="refund-42")
    CLOCK.advance(60_000)
    await runtime.start(broken, id="broken-1")
    await runtime.start(nap, id="nap-1")
    await runtime.start(payout, "c-9", id="payout-1")
    CLOCK.advance(180_000)
    await storage.close()
    return CLOCK.now_ms()


def store_at(path: Path) -> int:
    """Tell the story into a new SQLite store and return when it ends."""
    return asyncio.run(tell(SqliteStorage(path)))


async def log_of(storage: Storage, execution_id: str) -> list[Event]:
    return await read_log(storage, ExecutionId(execution_id))


def types_of(events: Iterable[Event]) -> list[str]:
    return [event.type for event in events]
