"""What becomes of asyncio's own forms inside a flow, and of the Loom form that stands for each: docs/guide/side-by-side.md."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.kernel.errors import ForeignTask, UnrecordedCancellation
from tests.kernel.running import RUN, cut_off_after, records, runtime

pytestmark = pytest.mark.timeout(60)


@loom.step
async def fetch(what: str) -> str:
    await asyncio.sleep(0 if what == "a" else 0.01)
    return what


@loom.step
async def hangs() -> None:
    await asyncio.Event().wait()


@loom.step
async def fails(what: str) -> str:
    raise ValueError(what)


async def twice(ctx: loom.Context, what: str) -> str:
    """A helper with two steps: what people put into tasks."""
    return await ctx.run(fetch, what) + await ctx.run(fetch, what)


Body = Callable[[loom.Context], Awaitable[Any]]


async def gather_of_syscalls(ctx: loom.Context) -> Any:
    return await asyncio.gather(ctx.run(fetch, "a"), ctx.run(fetch, "b"))


async def task_group_of_syscalls(ctx: loom.Context) -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ctx.run(fetch, what)) for what in "ab"]
    return [task.result() for task in tasks]


async def first_completed_and_the_rest(ctx: loom.Context) -> Any:
    tasks = [asyncio.ensure_future(ctx.run(fetch, what)) for what in "ab"]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    return [task.result() for task in done] + [await task for task in rest]


async def as_they_complete(ctx: loom.Context) -> Any:
    return [await each for each in asyncio.as_completed([ctx.run(fetch, what) for what in "ba"])]


async def an_event_between_branches(ctx: loom.Context) -> Any:
    ready = asyncio.Event()

    async def waits(ctx: loom.Context) -> str:
        await ready.wait()
        return await ctx.run(fetch, "b")

    async def sets(ctx: loom.Context) -> str:
        done = await ctx.run(fetch, "a")
        ready.set()
        return done

    return await ctx.parallel(waits, sets)


async def a_queue_between_branches(ctx: loom.Context) -> Any:
    queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=1)

    async def puts(ctx: loom.Context) -> None:
        for what in "ab":
            await queue.put(await ctx.run(fetch, what))
        await queue.put(None)

    async def gets(ctx: loom.Context) -> list[str]:
        found = []
        while (what := await queue.get()) is not None:
            found.append(await ctx.run(fetch, what))
        return found

    return await ctx.parallel(puts, gets)


ALLOWED: list[tuple[Body, Any]] = [
    (gather_of_syscalls, ["a", "b"]),
    (task_group_of_syscalls, ["a", "b"]),
    (first_completed_and_the_rest, ["a", "b"]),
    (as_they_complete, ["a", "b"]),
    (an_event_between_branches, ("b", "a")),
    (a_queue_between_branches, (None, ["a", "b"])),
]


@pytest.mark.parametrize(("body", "result"), ALLOWED, ids=[body.__name__ for body, _ in ALLOWED])
async def test_what_waits_for_syscalls_alone_works_and_replays_alike_from_anywhere(body: Body, result: Any) -> None:
    over = runtime(flow := loom.flow(id="flow")(body))

    outcome = await over.start(flow, id=RUN)

    assert outcome.value == result
    for length in range(1, len(await records(over.storage)) - 1):
        again = await runtime(flow, storage=await cut_off_after(over.storage, length)).resume(RUN)
        assert again.value is not None
        assert sorted(map(str, again.value)) == sorted(map(str, result))
    whole = await cut_off_after(over.storage, len(await records(over.storage)) - 1)
    assert (await runtime(flow, storage=whole).resume(RUN)).value == result


async def gather_of_helpers(ctx: loom.Context) -> Any:
    return await asyncio.gather(twice(ctx, "a"), twice(ctx, "b"))


async def task_group_of_helpers(ctx: loom.Context) -> Any:
    async with asyncio.TaskGroup() as group:
        group.create_task(twice(ctx, "a"))


async def wait_for_the_first_helper(ctx: loom.Context) -> Any:
    tasks = [asyncio.create_task(twice(ctx, what)) for what in "ab"]
    return await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def helpers_as_they_complete(ctx: loom.Context) -> Any:
    return [await each for each in asyncio.as_completed([twice(ctx, "a"), twice(ctx, "b")])]


async def a_pool_of_workers(ctx: loom.Context) -> Any:
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def works() -> None:
        while True:
            await ctx.run(fetch, await queue.get())
            queue.task_done()

    pool = [asyncio.create_task(works()) for _ in range(2)]
    for what in "ab":
        queue.put_nowait(what)
    await queue.join()
    return pool


@pytest.mark.parametrize(
    "body",
    [gather_of_helpers, task_group_of_helpers, wait_for_the_first_helper, helpers_as_they_complete, a_pool_of_workers],
    ids=lambda body: body.__name__,
)
async def test_a_task_of_ones_own_that_calls_a_syscall_is_refused_and_told_the_form_to_use(body: Body) -> None:
    over = runtime(flow := loom.flow(id="flow")(body))

    with pytest.raises(ForeignTask) as stopped:
        await over.start(flow, id=RUN)

    assert "ctx.parallel" in stopped.value.hint
    assert "ctx.scope" in stopped.value.hint
    assert [event.type for event in await over.events(RUN)] == ["EXECUTION_STARTED"]


async def wait_for(ctx: loom.Context) -> Any:
    return await asyncio.wait_for(ctx.run(hangs), 0.01)


async def timeout(ctx: loom.Context) -> Any:
    async with asyncio.timeout(0.01):
        return await ctx.run(hangs)


async def first_completed_with_the_rest_cancelled(ctx: loom.Context) -> Any:
    tasks = [asyncio.ensure_future(ctx.run(fetch, "a")), asyncio.ensure_future(ctx.suspend("ask"))]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    await ctx.sleep(0)
    return [task.result() for task in done]


async def task_group_in_which_one_fails(ctx: loom.Context) -> Any:
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.suspend("ask"))
        group.create_task(ctx.run(fails, "a"))


@pytest.mark.parametrize(
    "body",
    [wait_for, timeout, first_completed_with_the_rest_cancelled, task_group_in_which_one_fails],
    ids=lambda body: body.__name__,
)
async def test_what_cancels_a_syscall_by_the_clock_or_by_itself_is_refused_and_told_the_form_to_use(body: Body) -> None:
    over = runtime(flow := loom.flow(id="flow")(body))

    with pytest.raises(UnrecordedCancellation) as stopped:
        await over.start(flow, id=RUN)

    for form in ("ctx.scope(timeout=...)", "ctx.select"):
        assert form in stopped.value.hint
    assert stopped.value.where.startswith(__file__)


async def test_a_timeout_round_a_wait_that_parks_never_comes_and_that_of_loom_does() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        async with asyncio.timeout(60):
            return await ctx.suspend("ask", expects=str)

    @loom.flow
    async def loom_flow(ctx: loom.Context) -> str:
        async with ctx.scope(timeout=timedelta(milliseconds=10)):
            return await ctx.suspend("ask", expects=str)

    over = runtime(flow)

    assert (await over.start(flow, id=RUN)).wake_at is None
    assert (await runtime(flow, storage=over.storage).resume(RUN, answer="late")).value == "late"
    late = await runtime(loom_flow).start(loom_flow)
    assert late.failure is not None
    assert late.failure.type == "loom.ScopeTimedOut"


# the Loom forms


async def test_each_loom_form_stands_for_one_of_asyncio() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        async def twice(ctx: loom.Context, what: str) -> str:
            return await ctx.run(fetch, what) + await ctx.run(fetch, what)

        both = await ctx.map(twice, ["a", "b"])
        async with ctx.scope() as scope:
            task = scope.start(twice, "a")
        won = await ctx.select(step=lambda ctx: twice(ctx, "a"), ask=loom.gate("ask"))
        two = await ctx.first(2, lambda ctx: twice(ctx, "a"), lambda ctx: twice(ctx, "b"), loom_never)
        return [both, await task, won.name, sorted(two)]

    async def loom_never(ctx: loom.Context) -> str:
        return await ctx.suspend("never", expects=str)

    assert (await runtime(flow).start(flow)).value == [["aa", "bb"], "aa", "step", ["aa", "bb"]]
