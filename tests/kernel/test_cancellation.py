"""What a flow must not do itself: cancel by the clock, and ask from a task that is no branch (kernel rules 4.4, 6.3)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import loom
from loom.kernel.errors import ForeignTask, UnrecordedCancellation
from tests.kernel.running import RUN, kinds, runtime

pytestmark = pytest.mark.usefixtures("asyncio_is_quiet")
ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@loom.step
async def act(what: str) -> str:
    ran.append(what)
    return what


async def never() -> None:
    await asyncio.Event().wait()


def line_of(function: Callable[..., Any], text: str) -> str:
    """Return `file:line` of the line of *function* that holds *text*."""
    lines, first = inspect.getsourcelines(function)
    [offset] = [i for i, line in enumerate(lines) if text in line]
    return f"{inspect.getsourcefile(function)}:{first + offset}"


@loom.flow
async def by_timeout(ctx: loom.Context) -> None:
    async with asyncio.timeout(0.01):
        await ctx.run("slow", never)  # HERE


@loom.flow
async def by_wait_for(ctx: loom.Context) -> None:
    await asyncio.wait_for(ctx.run("slow", never), 0.01)  # HERE


@loom.flow
async def by_cancelling(ctx: loom.Context) -> None:
    task = asyncio.create_task(ctx.run("slow", never))
    await ctx.run(act, "first")
    task.cancel()
    await asyncio.wait([task])  # HERE


@loom.flow
async def by_task_group(ctx: loom.Context) -> None:
    async with asyncio.TaskGroup() as group:  # HERE
        group.create_task(ctx.run("slow", never))
        group.create_task(ctx.run("fails", "".index, "x"))


@pytest.mark.parametrize("flow", [by_timeout, by_wait_for, by_cancelling, by_task_group])
async def test_a_cancellation_from_inside_the_flow_stops_the_drive_and_names_the_line(
    flow: loom.Flow[[], None],
) -> None:
    over = runtime(flow)

    async with asyncio.timeout(10):
        with pytest.raises(UnrecordedCancellation) as stopped:
            await over.start(flow, id=RUN)

    assert stopped.value.syscall == "slow"
    assert stopped.value.where == line_of(flow.fn, "# HERE")
    assert (await over.load_state(RUN)).status == "running"


async def helper(ctx: loom.Context) -> str:
    return await ctx.run(act, "foreign")  # FOREIGN


@loom.flow
async def from_gather(ctx: loom.Context) -> Any:
    return await asyncio.gather(helper(ctx))


@loom.flow
async def from_task_group(ctx: loom.Context) -> Any:
    async with asyncio.TaskGroup() as group:
        group.create_task(helper(ctx))


@loom.flow
async def from_a_task_left_alone(ctx: loom.Context) -> Any:
    task = asyncio.create_task(helper(ctx))
    await ctx.suspend("never")
    return await task


@loom.flow
async def from_a_step(ctx: loom.Context) -> Any:
    async def step() -> str:
        return await helper(ctx)

    return await ctx.run("outer", step)


@loom.flow
async def from_a_thread(ctx: loom.Context) -> Any:
    def step() -> None:
        helper(ctx).send(None)

    return await ctx.run("outer", step)


@loom.flow
async def from_a_chooser(ctx: loom.Context) -> Any:
    async def chooser() -> str:
        return await helper(ctx)

    return await ctx.decide("outer", chooser)


FOREIGN: list[loom.Flow[[], Any]] = [
    from_gather,
    from_task_group,
    from_a_task_left_alone,
    from_a_step,
    from_a_thread,
    from_a_chooser,
]


@pytest.mark.parametrize("flow", FOREIGN, ids=[flow.id for flow in FOREIGN])
async def test_a_syscall_from_a_task_that_is_no_branch_stops_the_drive(flow: loom.Flow[[], Any]) -> None:
    over = runtime(flow)

    async with asyncio.timeout(10):
        with pytest.raises(ForeignTask) as stopped:
            await over.start(flow, id=RUN)

    assert stopped.value.where == line_of(helper, "# FOREIGN")
    assert "ctx.parallel" in stopped.value.hint
    assert ran == []
    assert "SUSPENDED" not in await kinds(over)


async def test_a_middleware_is_no_branch_either() -> None:
    held: list[loom.Context] = []

    async def nosy(about: Any, args: dict[str, Any], after: Callable[[dict[str, Any]], Awaitable[Any]]) -> Any:
        await helper(held[0])
        return await after(args)

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        held.append(ctx)
        return await ctx.run(act, "a")

    with pytest.raises(ForeignTask):
        await runtime(flow, middleware=[nosy]).start(flow, id=RUN)

    assert ran == []


async def test_a_cancellation_while_waiting_for_the_first_call_of_a_name_is_seen_as_well() -> None:
    slow = loom.step(id="slow")(never).named("first")

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        first = asyncio.ensure_future(ctx.run(slow))
        await asyncio.sleep(0)
        try:
            await asyncio.wait_for(ctx.run(slow), 0.01)
        except TimeoutError:
            first.cancel()
            return "the clock came in"
        return "not reached"

    async with asyncio.timeout(5):
        with pytest.raises(UnrecordedCancellation) as stopped:
            await runtime(flow).start(flow, id=RUN)

    assert stopped.value.where.startswith(__file__)
    assert "wait_for" in inspect.getsource(flow.fn).splitlines()[_offset(flow, stopped.value.where)]


def _offset(flow: loom.Flow[[], Any], where: str) -> int:
    return int(where.rpartition(":")[2]) - inspect.getsourcelines(flow.fn)[1]


async def directly(shared: asyncio.Task[str], own: Awaitable[Any]) -> object:
    later = asyncio.ensure_future(own)
    return [await shared, await later]


async def gathered(shared: asyncio.Task[str], own: Awaitable[Any]) -> object:
    return await asyncio.gather(own, shared)


async def gathered_twice(shared: asyncio.Task[str], own: Awaitable[Any]) -> object:
    return await asyncio.gather(asyncio.gather(shared), own)


@pytest.mark.parametrize("awaited", [directly, gathered, gathered_twice])
async def test_a_task_that_branches_share_outlives_the_cut_of_one_of_them(
    awaited: Callable[..., Awaitable[object]],
) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        shared = asyncio.ensure_future(ctx.suspend("shared", expects=str))

        async def waits(ctx: loom.Context) -> object:
            return await awaited(shared, ctx.suspend("own"))

        async def fails(ctx: loom.Context) -> str:
            raise ValueError

        try:
            await ctx.parallel(waits, fails)
        except ValueError:
            return await shared
        return "not reached"

    over = runtime(flow)
    await over.start(flow, id=RUN)
    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer="shared")

    assert outcome.value == "shared"
