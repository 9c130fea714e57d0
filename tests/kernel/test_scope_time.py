"""The time of a block of `ctx.scope`: when it is over, what is in it is cut on the record (row SYS-06)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.spi.clock import VirtualClock
from tests.kernel.running import RUN, cut_off_after, kinds, records, runtime

pytestmark = pytest.mark.usefixtures("asyncio_is_quiet")
ran: list[str] = []


class World:
    """What holds the slow steps up, and who of them was cancelled."""

    may_end: asyncio.Event
    cancelled: list[str]
    began = False


world = World()


@pytest.fixture(autouse=True)
def _new_world() -> None:
    ran.clear()
    world.may_end, world.cancelled, world.began = asyncio.Event(), [], False


@pytest.fixture(autouse=True)
async def _no_task_is_left() -> AsyncIterator[None]:
    yield
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert left == set()


@loom.step
async def work(name: str) -> str:
    ran.append(name)
    return name


@loom.step
async def slow(name: str) -> str:
    world.began = True
    try:
        await world.may_end.wait()
    except asyncio.CancelledError:
        world.cancelled.append(name)
        raise
    ran.append(name)
    return name


async def twice(ctx: loom.Context, name: str, sign: str = "") -> str:
    return await ctx.run(work, name) + sign + await ctx.run(work, name)


@pytest.mark.proves("SYS-06")
@pytest.mark.parametrize("linger_s", [0, 1_000_000])
async def test_when_its_time_is_over_what_is_in_the_block_is_cut_on_the_record(linger_s: int) -> None:
    clock = VirtualClock()

    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        tasks, told = [], ""
        try:
            async with ctx.scope(timeout=timedelta(days=1)) as scope:
                tasks = [scope.start(twice, "a"), scope.start(ask)]
                await ctx.suspend("body")
        except loom.ScopeTimedOut as error:
            told = error.scope
        try:
            await tasks[1]
        except loom.BranchWasCut as cut:
            return [told, await tasks[0], cut.branch, ctx.now().timestamp() * 1000 - clock.now_ms()]
        return []

    async def ask(ctx: loom.Context) -> str:
        return await ctx.suspend("task", expects=str)

    over = runtime(flow, clock=clock)
    driving = asyncio.ensure_future(over.start(flow, id=RUN, linger_s=linger_s))
    while linger_s and (len(ran) < 2 or (await kinds(over)).count("STEP_COMPLETED") < 2):
        await asyncio.sleep(0)
    outcome = await driving if not linger_s else None
    clock.advance(24 * 3600 * 1000)
    outcome = await (runtime(flow, storage=over.storage, clock=clock).resume(RUN) if outcome else driving)

    assert outcome.value == ["scope", "aa", "scope/1", 0]
    assert (await kinds(over))[-2:] == ["SCOPE_TIMED_OUT", "COMPLETED"]
    log = await records(over.storage)
    left = runtime(flow, storage=await cut_off_after(over.storage, len(log) - 1), clock=clock)
    assert (await left.resume(RUN)).value == ["scope", "aa", "scope/1", 0]


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_step_in_flight_when_time_is_over_is_cancelled_unless_it_must_not_be(idempotent: bool) -> None:
    step = loom.step(id="held", idempotent=idempotent)(slow.fn)

    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        try:
            async with ctx.scope(timeout=0.001) as scope:
                await scope.start(step, "held")
                await ctx.run(work, "never")
        except loom.ScopeTimedOut:
            return [*world.cancelled, *ran]
        return []

    clock = VirtualClock()
    over = runtime(flow, clock=clock)
    driving = asyncio.ensure_future(over.start(flow, id=RUN))
    while not world.began:
        await asyncio.sleep(0)
    clock.advance(1)
    for _ in range(50 * (not idempotent)):
        await asyncio.sleep(0)
        assert not driving.done()
    if not idempotent:
        world.may_end.set()

    assert (await driving).value == ["held"]
    assert world.cancelled == (["held"] if idempotent else [])
    assert "STEP_COMPLETED" in await kinds(over) or idempotent


async def test_a_body_that_waits_for_something_plain_is_cut_by_the_clock_and_goes_on_unharmed() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        with pytest.raises(loom.ScopeTimedOut):
            async with ctx.scope(timeout=0.001):
                await asyncio.Event().wait()
        task = asyncio.current_task()
        async with asyncio.timeout(5):  # which counts the cancellations of its task
            await asyncio.sleep(0)
        return [task.cancelling() if task is not None else None, await ctx.run(work, "after")]

    assert (await runtime(flow).start(flow, id=RUN, linger_s=0)).value == [0, "after"]


async def test_a_retried_run_that_failed_by_a_timeout_asks_anew_with_all_the_time_it_had() -> None:
    clock = VirtualClock()

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        async with ctx.scope(timeout=60):
            return await ctx.suspend("ask", expects=str)

    over = runtime(flow, clock=clock)
    await over.start(flow, id=RUN, linger_s=0)
    clock.advance(60_000)
    assert (await over.resume(RUN, linger_s=0)).status == "failed"
    clock.advance(1_000)

    parked = await over.retry(RUN, linger_s=0)

    assert (parked.status, parked.wake_at) == ("suspended", clock.now_ms() + 60_000)
    assert (await over.resume(RUN, answer="late", linger_s=0)).value == "late"


@pytest.mark.parametrize("later_s", [0, 1_000])
async def test_a_retried_scope_goes_on_where_it_stood_and_pays_no_second_time(later_s: int) -> None:
    clock, done = VirtualClock(), list[str]()

    @loom.step(idempotent=False)
    async def pay() -> str:
        done.append("paid")
        return "paid"

    async def branch(ctx: loom.Context) -> str:
        await ctx.run("look", lambda: done.append("looked"))
        await ctx.run(pay)
        return await ctx.suspend("ask", expects=str)

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        async with ctx.scope(timeout=60) as scope:
            task = scope.start(branch)
        return await task

    over = runtime(flow, clock=clock)
    await over.start(flow, id=RUN, linger_s=0)
    clock.advance(60_000)
    assert (await over.resume(RUN, linger_s=0)).status == "failed"
    clock.advance(later_s * 1000)

    parked = await over.retry(RUN, linger_s=0)
    clock.advance(59_000)

    assert (parked.status, parked.wake_at) == ("suspended", clock.now_ms() + 1_000)
    assert (await over.resume(RUN, answer="in time", linger_s=0)).value == "in time"
    assert done == ["looked", "paid"]


async def test_a_retried_run_that_only_has_to_sleep_is_woken() -> None:
    clock = VirtualClock()

    async def rests(ctx: loom.Context) -> str:
        await ctx.sleep(90)
        return "rested"

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        async with ctx.scope(timeout=60) as scope:
            task = scope.start(rests)
        return await task

    over = runtime(flow, clock=clock)
    await over.start(flow, id=RUN, linger_s=0)
    clock.advance(60_000)
    await over.resume(RUN, linger_s=0)

    parked = await over.retry(RUN, linger_s=0)
    assert (parked.status, parked.wake_at) == ("suspended", clock.now_ms() + 30_000)
    clock.advance(30_000)

    assert (await over.resume(RUN, linger_s=0)).value == "rested"


async def test_time_does_not_go_back_where_a_block_is_left() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> bool:
        async with ctx.scope():
            await ctx.sleep(0.002)
            inside = ctx.now()
        return ctx.now() == inside

    assert (await runtime(flow).start(flow, id=RUN)).value is True
