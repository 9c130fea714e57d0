"""What a process claims is driven, whatever became of the store's answers and of its own earlier drives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.driving.runtime import WorkflowRuntime
from loom.spi.clock import VirtualClock
from loom.spi.conflicts import Fenced
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Append, AppendResult, Claim
from loom.spi.host import VirtualHost
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, runtime


class AnswersAreLost(MemoryStorage):
    """A store that does what it is asked; its answers to claims, or to appends, are lost while it is told so."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock=clock)
        self.lost = ""

    async def claim(self, driver: str, **options: Any) -> Sequence[Claim]:
        claims = await super().claim(driver, **options)
        self._lose("claims")
        return claims

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        results = await super().append(batch)
        self._lose("appends")
        return results

    def _lose(self, what: str) -> None:
        if self.lost == what:
            raise StoreUnavailable("the answer was lost", store=self.url)


@loom.flow
async def naps(ctx: loom.Context) -> str:
    await ctx.sleep(60)
    return await ctx.run("yawn", lambda: "awake")


async def asleep(storage: MemoryStorage, clock: VirtualClock) -> WorkflowRuntime:
    """Return the only process there is, which has a run whose time has come."""
    over = runtime(naps, storage=storage, clock=clock)
    await over.start(naps, id=RUN, linger_s=0)
    clock.advance(60_000)
    return over


@pytest.mark.proves("SUS-07")
async def test_a_run_whose_claim_was_never_answered_is_claimed_again_by_the_only_process() -> None:
    clock = VirtualClock()
    storage = AnswersAreLost(clock)
    over = await asleep(storage, clock)
    storage.lost = "claims"
    with pytest.raises(StoreUnavailable):
        await over.claims.take(limit=9)
    storage.lost = ""

    soon = await over.claims.take(limit=9)
    clock.advance(15_000)
    [claim] = await over.claims.take(limit=9)

    assert list(soon) == []
    assert (await over.claims.drive(claim, linger_s=0)).value == "awake"


@pytest.mark.proves("SUS-07")
async def test_a_run_that_moved_though_nobody_was_told_so_is_claimed_again() -> None:
    clock = VirtualClock()
    storage = AnswersAreLost(clock)
    over = await asleep(storage, clock)
    [claim] = await over.claims.take(limit=9)
    storage.lost = "appends"
    with pytest.raises(StoreUnavailable):
        await over.claims.drive(claim, linger_s=0)
    storage.lost = ""

    clock.advance(15_000)
    [again] = await over.claims.take(limit=9)

    assert (await over.claims.drive(again, linger_s=0)).value == "awake"


@pytest.mark.proves("RNG-15")
async def test_a_drive_ends_when_its_process_is_given_the_run_again_that_another_had_meanwhile() -> None:
    clock, host, begun, go = VirtualClock(), VirtualHost(), asyncio.Event(), asyncio.Event()
    storage, mailed = MemoryStorage(clock=clock), list[str]()

    async def hold() -> None:
        begun.set()
        await go.wait()

    async def mail() -> str:
        mailed.append("mail")
        return "mailed"

    @loom.flow
    async def held(ctx: loom.Context) -> str:
        await ctx.run("hold", hold)
        return await ctx.run("mail", mail)

    over = runtime(held, storage=storage, clock=clock, host=host)
    driving = asyncio.create_task(over.start(held, id=RUN))
    await begun.wait()
    while len(await storage.read(ExecutionId(RUN))) < 2:  # that the step began is on disk
        await asyncio.sleep(0.001)
    host.advance(15)
    clock.advance(15_000)
    other = runtime(held, storage=storage, clock=clock, lease_s=1)
    [theirs] = await other.claims.take(limit=9)
    begun.clear()
    abandoned = asyncio.create_task(other.claims.drive(theirs, linger_s=0))
    await begun.wait()
    clock.advance(1_000)

    [claim] = await over.claims.take(limit=9)
    with pytest.raises(Fenced):
        await asyncio.wait_for(driving, 20)
    go.set()

    assert (await over.claims.drive(claim, linger_s=0)).value == "mailed"
    assert isinstance((await asyncio.gather(abandoned, return_exceptions=True))[0], Fenced)
    assert mailed == ["mail"]
