"""Two who take a run up at the same moment: one drives it, the other is told so, whatever lay between its looks (field fault 14)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import loom
from loom.core.ids import ExecutionId
from loom.spi.clock import VirtualClock
from loom.spi.event_store import EventRecord
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, kinds, runtime


class Between(MemoryStorage):
    """A store in which something happens after the row of a run was read and before its log is."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def read(self, execution_id: ExecutionId, **wanted: Any) -> Sequence[EventRecord]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await super().read(execution_id, **wanted)


class World:
    """What the step has done, and when it may end."""

    def __init__(self) -> None:
        self.charged: list[str] = []
        self.may_end = asyncio.Event()


def charging(world: World, *, idempotent: bool) -> loom.Flow[Any, Any]:
    @loom.step(idempotent=idempotent)
    async def charge() -> str:
        world.charged.append("once")
        await world.may_end.wait()
        return "paid"

    @loom.flow
    async def pays(ctx: loom.Context) -> str:
        await ctx.sleep(timedelta(hours=1))
        return await ctx.run(charge)

    return pays


async def taken_twice(*, idempotent: bool) -> tuple[World, list[loom.Outcome[Any]], list[str]]:
    """Have a second process take up a run just as the first has begun a step of it; return what came of both."""
    clock, world = VirtualClock(), World()
    store = Between(clock=clock)
    flow = charging(world, idempotent=idempotent)
    one, other = runtime(flow, storage=store, clock=clock), runtime(flow, storage=store, clock=clock)
    await one.start(flow, id=RUN, linger_s=0)
    clock.advance(3_600_000)
    first: asyncio.Future[loom.Outcome[Any]] = asyncio.get_running_loop().create_future()

    async def begin() -> None:
        nonlocal first
        first = asyncio.ensure_future(one.resume(RUN))
        async with asyncio.timeout(5):
            while not world.charged:
                await asyncio.sleep(0)

    store.meanwhile = begin
    late = asyncio.ensure_future(other.resume(RUN))
    await asyncio.wait({late}, timeout=0.1)
    world.may_end.set()
    outcomes = [await late, await first]
    return world, outcomes, await kinds(one)


async def test_a_run_that_began_to_move_between_the_looks_is_driven_by_the_first_alone() -> None:
    world, [late, first], told = await taken_twice(idempotent=True)

    assert (late.status, first.status, first.value) == ("accepted", "completed", "paid")
    assert world.charged == ["once"]
    assert told.count("RESUMED") == 1


async def test_what_must_not_run_twice_is_not_put_in_doubt_by_who_only_looked() -> None:
    world, [late, first], told = await taken_twice(idempotent=False)

    assert (late.status, first.status, first.value) == ("accepted", "completed", "paid")
    assert world.charged == ["once"]
    assert "EFFECT_INDOUBT" not in told
