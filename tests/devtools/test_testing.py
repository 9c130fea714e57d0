"""A virtual world: months in no time, the same each time, and processes that die in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import pytest

import loom
from loom.core.errors import ExecutionTerminated, InvalidDeclaration
from loom.core.missing import MISSING
from loom.devtools.testing import ProcessDied, VirtualWorld, WorldStands, virtual_world
from loom.driving.errors import ExecutionAlreadyExists
from loom.spi.event_store import ExecutionQuery

START: Final = datetime(2026, 11, 30, tzinfo=UTC)
letters: list[str] = []


@pytest.fixture(autouse=True)
def _no_letters() -> None:
    letters.clear()


@loom.step
def write(step: loom.StepContext, to: str) -> str:
    letters.append(f"{step.idempotency_key} {to}")
    return f"wrote to {to}"


@loom.step
async def look_up(name: str) -> str:
    for _ in name:
        await asyncio.sleep(0)
    return name.upper()


@loom.flow
async def trial(ctx: loom.Context, name: str) -> str:
    await ctx.run(write, name)
    await ctx.sleep(timedelta(days=10))
    await ctx.map(look_up, ["a", "bcd", "ef"])
    try:
        return await ctx.suspend("stay", expects=str, timeout=timedelta(days=7))
    except loom.GateTimedOut:
        return "left"


@loom.flow
async def tidy(ctx: loom.Context) -> str:
    return await ctx.run(write, f"tidy {ctx.uuid()}")


@loom.flow
async def inbox(ctx: loom.Context) -> list[Any]:
    return [await ctx.receive("news"), await ctx.receive("news")]


def app(*flows: Any, days: str = "*") -> loom.LoomApp:
    daily = loom.schedule("daily", f"30 6 * * {days}", tidy, tz="Europe/Paris")
    return loom.define_config(flows=[trial, tidy, inbox, *flows], schedules=[daily])


async def result(world: VirtualWorld, id: str) -> Any:
    return (await world.runtime.load_state(id)).facts.result


async def logs(world: VirtualWorld) -> dict[str, list[Any]]:
    rows = await world.runtime.find(ExecutionQuery(limit=1000))
    return {row.execution_id: list(await world.storage.read(row.execution_id)) for row in rows}


async def test_timers_and_timeouts_come_when_they_are_due() -> None:
    async with virtual_world(app(), start=START) as world:
        await world.runtime.start(trial, "Ada", id="trial-1")
        await world.run_for(timedelta(days=17) - timedelta(milliseconds=1))
        before = (await world.runtime.load_state("trial-1")).status
        await world.run_for(timedelta(milliseconds=1))

        assert (before, await result(world, "trial-1")) == ("suspended", "left")
        assert world.now == START + timedelta(days=17)
        fired = [event.at for event in await world.runtime.events("trial-1") if event.type == "TIMER_FIRED"]
        assert [datetime.fromtimestamp(at / 1000, UTC) for at in fired] == [START + timedelta(days=10)]


@pytest.mark.proves("AUT-09")
async def test_schedules_tick_on_the_clock_of_the_world() -> None:
    async with virtual_world(app(), start=START) as world:
        await world.run_for(timedelta(days=3))

        found = await logs(world)
    assert sorted(found) == [f"daily-202611{30}T053000Z", "daily-20261201T053000Z", "daily-20261202T053000Z"]
    assert all(log[-1].type == "EXECUTION_COMPLETED" for log in found.values())


async def test_who_is_outside_acts_at_their_time_and_in_their_order() -> None:
    seen: list[tuple[str, timedelta]] = []

    async with virtual_world(app(), start=START) as world:

        def note(what: str) -> Callable[[], None]:
            return lambda: seen.append((what, world.now - START))

        async def answer() -> None:
            await world.runtime.resume("trial-1", answer="yes")
            world.at(timedelta(hours=1), note("an hour later"))

        await world.runtime.start(trial, "Ada", id="trial-1")
        world.at(timedelta(days=12), answer)
        world.at(START + timedelta(days=2), note("second"))
        world.at(timedelta(days=2), note("third"))
        world.at(timedelta(), note("first"))
        await world.run_for(timedelta(days=13))

        assert await result(world, "trial-1") == "yes"
    days = [timedelta(), timedelta(days=2), timedelta(days=2), timedelta(days=12, hours=1)]
    assert seen == list(zip(["first", "second", "third", "an hour later"], days, strict=True))


async def test_what_somebody_outside_raises_fails_the_test() -> None:
    async with virtual_world(app(), start=START) as world:
        world.at(timedelta(hours=1), lambda: world.runtime.resume("nobody"))

        with pytest.raises(loom.LoomError, match="nobody"):
            await world.run_for(timedelta(hours=2))


async def test_the_same_seed_gives_the_same_logs_byte_for_byte() -> None:
    async def lived(seed: int) -> dict[str, list[Any]]:
        async with virtual_world(app(), start=START, seed=seed) as world:
            for number in range(4):
                world.at(timedelta(days=number), partial(world.runtime.start, trial, "Ada", id=f"trial-{number}"))
                world.at(timedelta(days=11), lambda: world.runtime.enqueue(inbox))
            world.at(timedelta(days=14), lambda: world.runtime.resume("trial-2", answer="yes"))
            await world.run_for(timedelta(days=30))
            return await logs(world)

    first, second, other = await lived(5), await lived(5), await lived(6)

    assert len(first) == 30 + 4 + 4
    assert first == second
    assert first != other


async def test_years_in_which_nothing_is_due_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    @loom.flow
    async def patience(ctx: loom.Context) -> None:
        await ctx.sleep(timedelta(days=3000))

    looked = 0
    async with virtual_world(loom.define_config(flows=[patience]), start=START) as world:
        claim = world.storage.claim

        async def counted(*args: Any, **options: Any) -> Any:
            nonlocal looked
            looked += 1
            return await claim(*args, **options)

        monkeypatch.setattr(world.storage, "claim", counted)
        await world.runtime.start(patience, id="long")
        await world.run_for(timedelta(days=4000))

        assert (await world.runtime.load_state("long")).status == "completed"
    assert looked < 10


@pytest.mark.proves("RNG-13")
async def test_a_run_ends_the_same_wherever_the_process_dies() -> None:
    async def begin(world: VirtualWorld) -> None:
        for flow, given in {"trial": "Ada", "inbox": MISSING}.items():
            with suppress(ExecutionAlreadyExists):  # whoever met the death of the process tries again
                await world.runtime.enqueue(flow, given, id=f"{flow}-1")

    async def tell(world: VirtualWorld, number: int) -> None:
        with suppress(ExecutionTerminated):
            await world.runtime.send("inbox-1", "news", f"news {number}", key=str(number))

    async def lived(dies_after: int | None) -> tuple[Any, ...]:
        async with virtual_world(app(days="MON"), start=START, dies_after=dies_after) as world:
            world.at(timedelta(hours=1), partial(begin, world))
            for number in (1, 2):
                world.at(timedelta(hours=number + 1), partial(tell, world, number))
            await world.run_for(timedelta(days=20))
            ended = (
                await result(world, "trial-1"),
                await result(world, "inbox-1"),
                len(set(letters)) - len(await logs(world)),
            )
            letters.clear()
            return *ended, world.writes

    *whole, writes = await lived(None)

    assert whole == ["left", ["news 1", "news 2"], -1]
    for number in range(1, writes + 1):
        assert list(await lived(number))[:3] == whole, f"after a death behind write {number}"


async def test_a_process_that_died_is_told_from_the_one_that_took_its_place() -> None:
    async with virtual_world(app(), start=START, dies_after=2) as world:
        dead = world.runtime
        world.at(timedelta(days=2), lambda: dead.enqueue(inbox))

        with pytest.raises(ProcessDied, match=r"the process is dead"):
            await world.run_for(timedelta(days=3))


async def test_an_instant_that_does_not_end_is_told_with_what_is_driven() -> None:
    @loom.step
    async def waits() -> None:
        await asyncio.Event().wait()

    @loom.flow
    async def stuck(ctx: loom.Context) -> None:
        await ctx.run(waits)

    async with virtual_world(app(stuck), start=START, patience_s=0.2) as world:
        world.at(timedelta(hours=1), lambda: world.runtime.enqueue(stuck, id="stuck-1"))

        with pytest.raises(WorldStands, match=r"2026-11-30T01:00:00\+00:00 for 0\.2 s; still driven: stuck-1"):
            await world.run_for(timedelta(days=1))


async def test_a_run_that_this_code_cannot_drive_fails_the_test() -> None:
    turns = iter(["one", "two"])

    @loom.flow
    async def fickle(ctx: loom.Context) -> None:
        await ctx.suspend(next(turns), timeout=timedelta(days=1))

    async with virtual_world(app(fickle), start=START) as world:
        await world.runtime.start(fickle, id="fickle-1")

        with pytest.raises(loom.LoomError) as refused:
            await world.run_for(timedelta(days=2))

    assert refused.value.code == "replay-divergence"


async def test_a_beginning_in_no_zone_is_refused() -> None:
    with pytest.raises(InvalidDeclaration, match="2026-11-30"):
        async with virtual_world(app(), start=START.replace(tzinfo=None)):
            pass


async def test_the_storage_of_the_app_is_not_touched_and_its_resources_are_closed() -> None:
    from collections.abc import AsyncIterator
    from contextlib import asynccontextmanager

    open_now: list[str] = []

    @asynccontextmanager
    async def desk() -> AsyncIterator[str]:
        open_now.append("desk")
        yield "desk"
        open_now.remove("desk")

    storage = loom.MemoryStorage()
    made = loom.define_config(flows=[trial], storage=storage, resources={"desk": desk})
    async with virtual_world(made, start=START) as world:
        await world.runtime.start(trial, "Ada", id="trial-1")
        assert open_now == ["desk"]

    assert open_now == []
    assert await storage.ids() == []
