"""What becomes of the runs in a copy of a store, when somebody drives them: leases, timers, schedules, and effects in doubt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.plugins.sqlite import SqliteStorage
from loom.plugins.sqlite.copying import copy_database
from loom.spi.clock import VirtualClock

DAY_MS = 86_400_000
WORLD: ContextVar[World] = ContextVar("world")


class World:
    """What the steps have done, by which key, and where one of them stands."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.entered, self.may_leave = asyncio.Event(), asyncio.Event()


@pytest.fixture
def world() -> Iterator[World]:
    token = WORLD.set(World())
    yield WORLD.get()
    WORLD.reset(token)


@loom.step
async def pay(step: loom.StepContext) -> str:
    WORLD.get().paid.append(step.idempotency_key)
    return "paid"


@loom.step(idempotent=False)
async def wire(step: loom.StepContext) -> str:
    world = WORLD.get()
    world.paid.append(step.idempotency_key)
    world.entered.set()
    await world.may_leave.wait()
    return "wired"


@loom.flow
async def refund(ctx: loom.Context) -> str:
    await ctx.suspend("approval", expects=bool)
    return await ctx.run(pay)


@loom.flow
async def wired(ctx: loom.Context) -> str:
    return await ctx.run(wire)


@loom.flow
async def later(ctx: loom.Context) -> str:
    await ctx.sleep(timedelta(days=1))
    return await ctx.run(pay)


@loom.flow
async def report(ctx: loom.Context) -> str:
    return await ctx.run(pay)


NIGHTLY = loom.schedule("nightly", flow=report, cron="0 3 * * *", tz="UTC", catch_up=loom.CatchUp.all(10))


@asynccontextmanager
async def house(path: Path, clock: VirtualClock, **options: Any) -> AsyncIterator[loom.LoomApp]:
    storage = SqliteStorage(path, clock=clock)
    async with loom.define_config(flows=[refund, wired, later, report], storage=storage, clock=clock, **options) as app:
        yield app


async def worked(app: loom.LoomApp) -> None:
    await app.worker(until_idle=True).run()


async def test_what_both_drive_is_done_twice_under_one_key(tmp_path: Path, world: World) -> None:
    clock, copy = VirtualClock(), tmp_path / "copy.db"
    async with house(tmp_path / "loom.db", clock) as original:
        await original.runtime.start("refund", id="r-1")
        copy_database(tmp_path / "loom.db", copy)
        await original.runtime.resume("r-1", answer=True)
    async with house(copy, clock) as restored:
        outcome = await restored.runtime.resume("r-1", answer=True)

    assert outcome.result() == "paid"
    assert len(world.paid) == 2
    assert len(set(world.paid)) == 1


async def test_an_effect_that_may_have_happened_is_in_doubt_in_the_copy(tmp_path: Path, world: World) -> None:
    clock, copy = VirtualClock(), tmp_path / "copy.db"
    async with house(tmp_path / "loom.db", clock) as original:
        driving = asyncio.create_task(original.runtime.start("wired", id="w-1"))
        await world.entered.wait()
        copy_database(tmp_path / "loom.db", copy)
        world.may_leave.set()
        await driving
    clock.advance(DAY_MS)
    async with house(copy, clock) as restored:
        await worked(restored)
        state = await restored.runtime.load_state("w-1")

    assert state.status == "in_doubt"
    assert len(world.paid) == 1


async def test_who_drove_the_original_keeps_the_copy_back_until_the_lease_is_over(tmp_path: Path, world: World) -> None:
    clock, copy = VirtualClock(), tmp_path / "copy.db"
    async with house(tmp_path / "loom.db", clock) as original, house(copy, clock) as restored:
        driving = asyncio.create_task(original.runtime.start("wired", id="w-1"))
        await world.entered.wait()
        copy_database(tmp_path / "loom.db", copy)

        await worked(restored)
        row = await restored.storage.row(ExecutionId("w-1"))
        clock.advance(60_000)
        await worked(restored)

        assert row is not None
        assert (row.index.status, bool(row.driver)) == ("running", True)
        assert (await restored.runtime.load_state("w-1")).status == "in_doubt"
        world.may_leave.set()
        await driving


async def test_what_came_due_meanwhile_goes_on_at_once(tmp_path: Path, world: World) -> None:
    clock, copy = VirtualClock(), tmp_path / "copy.db"
    async with house(tmp_path / "loom.db", clock) as original:
        await original.runtime.start("later", id="l-1", linger_s=0)
        copy_database(tmp_path / "loom.db", copy)
    clock.advance(30 * DAY_MS)
    async with house(copy, clock) as restored:
        await worked(restored)

        assert (await restored.runtime.load_state("l-1")).facts.result == "paid"
    assert len(world.paid) == 1


async def test_ticks_since_the_copy_start_again_in_it(tmp_path: Path, world: World) -> None:
    clock, copy = VirtualClock(), tmp_path / "copy.db"
    async with house(tmp_path / "loom.db", clock, schedules=[NIGHTLY]) as original:
        await worked(original)
        copy_database(tmp_path / "loom.db", copy)
        clock.advance(2 * DAY_MS)
        await worked(original)
        in_the_original = list(await original.storage.ids())
    async with house(copy, clock, schedules=[NIGHTLY]) as restored:
        await worked(restored)

        assert list(await restored.storage.ids()) == in_the_original
    assert len(in_the_original) == 2
    assert len(world.paid) == 4
