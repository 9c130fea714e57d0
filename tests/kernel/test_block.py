"""The block of `ctx.scope`: its tasks end before it is left, however it is left (row SYS-06; field faults 21, 43)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.kernel.errors import ForeignTask
from tests.kernel.running import RUN, cut_off_after, kinds, payloads, records, runtime

pytestmark = pytest.mark.usefixtures("asyncio_is_quiet")
ran: list[str] = []


class World:
    """What holds the slow steps up, and who of them was cancelled."""

    may_end: asyncio.Event
    cancelled: list[str]


world = World()


@pytest.fixture(autouse=True)
def _new_world() -> None:
    ran.clear()
    world.may_end, world.cancelled = asyncio.Event(), []


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
    try:
        await world.may_end.wait()
    except asyncio.CancelledError:
        world.cancelled.append(name)
        raise
    ran.append(name)
    return name


@loom.step
async def fails(name: str) -> str:
    world.may_end.set()
    raise ConnectionError(name)


async def twice(ctx: loom.Context, name: str, sign: str = "") -> str:
    return await ctx.run(work, name) + sign + await ctx.run(work, name)


async def test_tasks_have_identities_of_their_own_and_give_their_results_in_the_block_and_after_it() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        async with ctx.scope(name="desk") as scope:
            plain, named = scope.start(twice, "a"), scope.start(twice, "b", "-", name="second")
            step = scope.start(work, "c")
            found = [await named, named.done, named.name, await ctx.run(work, "body")]
        return [*found, await plain, await named, await step, plain.name, step.name, step.done]

    over = runtime(flow)

    outcome = await over.start(flow, id=RUN)

    assert outcome.value == ["b-b", True, "second", "body", "aa", "b-b", "c", "0", "1", True]
    assert sorted(start.id for start in await payloads(over, "STEP_STARTED")) == [
        *("desk/0/work", "desk/0/work#1", "desk/1/work", "desk/body/work", "desk/second/work", "desk/second/work#1"),
    ]
    assert (await kinds(over))[1] == "SCOPE_OPENED"
    assert "SCOPE_CUT" not in await kinds(over)


async def test_leaving_the_block_waits_for_its_tasks_also_by_return_and_break() -> None:
    async def late(ctx: loom.Context, name: str) -> None:
        await ctx.sleep(0.001)
        await ctx.run(work, name)

    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        async def returns(ctx: loom.Context) -> str:
            async with ctx.scope() as scope:
                _ = scope.start(late, "after return")
                return "returned"

        for _ in range(3):
            async with ctx.scope() as scope:
                _ = scope.start(late, "after break")
                break
        return [*ran, await returns(ctx), *ran]

    outcome = await runtime(flow).start(flow, id=RUN)

    assert outcome.value == ["after break", "returned", "after break", "after return"]


def raises(error: BaseException) -> Callable[[loom.Context], Awaitable[None]]:
    async def branch(ctx: loom.Context) -> None:
        await ctx.run(work, "before it raises")
        raise error

    return branch


@pytest.mark.proves("SYS-06")
@pytest.mark.parametrize("who", ["body", "task"])
async def test_the_first_failure_cuts_the_others_on_the_record_and_is_raised_as_it_is(who: str) -> None:
    error = ValueError("mine")
    left: list[str] = []

    async def waits(ctx: loom.Context) -> None:
        try:
            await ctx.suspend("never")
        finally:
            left.append("cleaned up")

    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        try:
            async with ctx.scope() as scope:
                _ = scope.start(waits)
                if who == "task":
                    await scope.start(raises(error), name="bad")
                await raises(error)(ctx)
        except ValueError as caught:
            context = caught.__context__
            return [await ctx.suspend("after"), caught is error, context, *left]

    over = runtime(flow)
    parked = await over.start(flow, id=RUN)

    assert [gate.gate for gate in parked.gates] == ["after"]
    assert left == ["cleaned up"]
    assert [cut.branch for cut in await payloads(over, "SCOPE_CUT")] == ["body" if who == "body" else "bad"]
    assert (await runtime(flow, storage=over.storage).resume(RUN, answer=1)).value == [
        *(1, True, None, "cleaned up", "cleaned up"),
    ]


@pytest.mark.proves("SYS-06")
async def test_what_is_in_flight_beside_a_failure_ends_is_recorded_and_is_never_paid_for_again() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        async with ctx.scope() as scope:
            good, bad = scope.start(slow, "good"), scope.start(fails, "bad")
            await bad
        return await good

    over = runtime(flow)
    outcome = await over.start(flow, id=RUN)

    assert outcome.status == "failed"
    assert (await kinds(over))[-4:] == ["STEP_FAILED", "STEP_COMPLETED", "SCOPE_CUT", "FAILED"]
    assert (await over.retry(RUN)).status == "failed"
    assert ran == ["good"]


async def test_failures_that_come_later_are_attached_to_the_first() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        async def second(ctx: loom.Context) -> None:
            await ctx.run(slow, "second")
            raise KeyError("second")

        try:
            async with ctx.scope() as scope:
                _ = scope.start(second, name="second")
                await scope.start(fails, "first")
        except loom.StepFailed as error:
            return [error.message, *error.__notes__]
        return []

    assert (await runtime(flow).start(flow, id=RUN)).value == [
        "first",
        "scope/second failed as well: KeyError: 'second'",
    ]


async def test_a_task_may_be_awaited_by_others_and_start_others() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        async with ctx.scope() as scope:
            first = scope.start(twice, "a")

            async def waits(ctx: loom.Context) -> str:
                return await first + await scope.start(twice, "b", name="below")

            second = scope.start(waits)
            third = scope.start(waits_for, second)
        return [await first, await second, await third]

    async def waits_for(ctx: loom.Context, task: loom.ScopeTask[str]) -> str:
        return await ctx.run(work, await task)

    over = runtime(flow)

    assert (await over.start(flow, id=RUN)).value == ["aa", "aabb", "aabb"]


# Scopes in scopes


@pytest.mark.parametrize("outer", ["parallel", "select", "scope"])
async def test_a_block_below_a_scope_that_ends_is_cut_with_its_tasks_innermost_first(outer: str) -> None:
    order: list[str] = []

    @contextlib.contextmanager
    def noted(name: str) -> Iterator[None]:
        try:
            yield
        finally:
            order.append(name)

    async def waits(ctx: loom.Context) -> None:
        with noted("task"):
            await ctx.suspend("never")

    async def block(ctx: loom.Context) -> None:
        with noted("opener"):
            async with ctx.scope() as scope:
                with noted("body"):
                    _ = scope.start(waits)
                    await ctx.parallel(waits, waits)

    async def ends(ctx: loom.Context) -> None:
        await ctx.run(work, "a")
        if outer != "select":
            raise ValueError

    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        with contextlib.suppress(ValueError):
            if outer == "parallel":
                await ctx.parallel(block, ends)
            elif outer == "select":
                await ctx.select(block=block, ends=ends)
            else:
                async with ctx.scope() as scope:
                    _ = scope.start(block), scope.start(ends)
        return list(order)

    found = (await runtime(flow).start(flow, id=RUN)).value or []

    assert sorted(found[:3]) == ["task", "task", "task"]
    assert found[3:] == ["body", "opener"]


async def test_cut_off_anywhere_a_run_with_blocks_in_blocks_ends_the_same_way() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        async def inner(ctx: loom.Context) -> str:
            async with ctx.scope(timeout=60) as scope:
                task = scope.start(twice, "x")
                won = await ctx.select(gate=loom.gate("ask"), step=lambda ctx: ctx.run(work, "y"))
            return won.name + await task

        async with ctx.scope() as scope:
            tasks = [scope.start(inner), scope.start(inner)]
            await ctx.map(inner_item, ["p", "q"])
        return [await task for task in tasks]

    async def inner_item(ctx: loom.Context, item: str) -> None:
        async with ctx.scope() as scope:
            await scope.start(twice, item)

    over = runtime(flow)
    outcome = await over.start(flow, id=RUN)
    assert outcome.value == ["stepxx", "stepxx"]

    for length in range(1, len(await records(over.storage))):
        left = runtime(flow, storage=await cut_off_after(over.storage, length))
        assert (await left.resume(RUN)).value == outcome.value, f"after {length} events"


async def test_context_variables_are_those_of_where_a_task_was_started() -> None:
    who = ContextVar("who", default="nobody")

    async def seen(ctx: loom.Context) -> str:
        return who.get()

    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        async with ctx.scope() as scope:
            first = scope.start(seen)
            who.set("somebody")
            second = scope.start(seen)
        return [await first, await second, who.get()]

    assert (await runtime(flow).start(flow, id=RUN)).value == ["nobody", "somebody", "somebody"]


# Left half-way


async def pieces(ctx: loom.Context) -> AsyncGenerator[int, None]:
    async with ctx.scope() as scope:
        task = scope.start(ask_for_ever)
        for piece in range(3):
            await ctx.run(work, str(piece))
            yield piece
        await task


async def ask_for_ever(ctx: loom.Context) -> Any:
    return await ctx.suspend("never")


async def test_a_generator_that_is_closed_half_way_ends_its_block_and_what_runs_in_it() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        async with contextlib.aclosing(pieces(ctx)) as stream:
            async for _ in stream:
                break
        return await ctx.run(work, "after")

    over = runtime(flow)

    assert (await over.start(flow, id=RUN)).value == "after"
    assert [cut.branch for cut in await payloads(over, "SCOPE_CUT")] == ["body"]
    assert (await payloads(over, "STEP_STARTED"))[-1].id == "work"


async def test_a_generator_that_is_abandoned_half_way_stops_the_drive_and_leaves_nothing_running() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        async for _ in pieces(ctx):
            break
        await asyncio.sleep(0.01)
        return await ctx.run(work, "after")

    with pytest.raises(ForeignTask, match=r"ctx\.scope"):
        await runtime(flow).start(flow, id=RUN)


# What is refused


async def test_a_task_is_refused_where_its_block_is_not_open_or_its_name_is_taken() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        told = []
        scope = ctx.scope()
        try:
            _ = scope.start(twice, "a")
        except RuntimeError as error:
            told.append(str(error))
        async with scope:
            _ = scope.start(twice, "a", name="a")
            for name in ("a", "body"):
                try:
                    _ = scope.start(twice, "b", name=name)
                except ValueError as error:
                    told.append(str(error))
        try:
            _ = scope.start(twice, "a")
        except RuntimeError as error:
            told.append(str(error))
        return told

    assert (await runtime(flow).start(flow, id=RUN)).value == [
        "the scope scope is not open",
        "a task of this scope is called 'a' already",
        "a task of this scope is called 'body' already",
        "the scope scope is not open",
    ]


@pytest.mark.parametrize("timeout", [-1, timedelta(seconds=-1)])
async def test_a_time_that_lies_in_the_past_is_refused(timeout: Any) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        async with ctx.scope(timeout=timeout):
            pass

    over = runtime(flow)

    assert (await over.start(flow, id=RUN)).status == "failed"
    assert await kinds(over) == ["STARTED", "FAILED"]


async def test_a_task_awaited_from_a_task_that_is_no_branch_stops_the_drive() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        async with ctx.scope() as scope:
            return list(await asyncio.gather(scope.start(twice, "a"), scope.start(twice, "b")))

    with pytest.raises(ForeignTask) as stopped:
        await runtime(flow).start(flow, id=RUN)

    assert "ctx.scope" in stopped.value.hint
