"""Flows that bring concurrency of their own."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import loom
from tests.zoo.steps import fetch, look_up, note


async def twice(ctx: loom.Context, item: str) -> str:
    return await ctx.run(fetch, await ctx.run(fetch, item))


@loom.flow
async def gathers_helpers(ctx: loom.Context) -> tuple[str, str]:
    return await asyncio.gather(twice(ctx, "a"), twice(ctx, "b"))


@loom.flow
async def helper_as_a_task(ctx: loom.Context) -> str:
    task = asyncio.create_task(twice(ctx, "a"))
    return await task


@loom.flow
async def helpers_in_a_group(ctx: loom.Context) -> str:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(twice(ctx, "a"))
    return task.result()


@loom.flow
async def first_of_a_set(ctx: loom.Context) -> int:
    tasks = {asyncio.create_task(asyncio.sleep(0, item)) for item in ("a", "b")}
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    return await ctx.run(note, str(len(done)))


@loom.flow
async def time_limit(ctx: loom.Context) -> str:
    async with asyncio.timeout(30):
        return await ctx.run(fetch, "a")


@loom.flow
async def wait_for(ctx: loom.Context) -> str:
    return await asyncio.wait_for(ctx.run(fetch, "a"), timeout=30)


@loom.flow
async def plain_sleep(ctx: loom.Context) -> str:
    await asyncio.sleep(0.01)
    return await ctx.run(fetch, "a")


@loom.flow
async def in_a_thread(ctx: loom.Context) -> str:
    size = await asyncio.to_thread(len, "abc")
    return await ctx.run(fetch, str(size))


@loom.flow
async def own_thread(ctx: loom.Context) -> str:
    found: list[str] = []
    thread = threading.Thread(target=found.append, args=("a",))
    thread.start()
    thread.join()
    return await ctx.run(fetch, found[0])


@loom.flow
async def own_pool(ctx: loom.Context) -> str:
    with ThreadPoolExecutor() as pool:
        size = pool.submit(len, "abc").result()
    return await ctx.run(fetch, str(size))


@loom.flow
async def context_in_an_inline_step(ctx: loom.Context) -> str:
    return await ctx.run("inline", lambda: str(ctx.now()))


@loom.flow
async def bare_step(ctx: loom.Context) -> str:
    name = await fetch("a")
    return await ctx.run(look_up, name)


@loom.flow
async def forgotten_await(ctx: loom.Context) -> str:
    ctx.run(note, "never")  # type: ignore[unused-coroutine]
    return await ctx.run(fetch, "a")
