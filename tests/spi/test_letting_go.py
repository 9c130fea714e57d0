"""A task can be interrupted alone: what it waits for goes on for the others."""

from __future__ import annotations

import asyncio

import pytest

from loom.spi.letting_go import let_go


async def test_what_a_task_waits_for_goes_on_for_who_else_waits_for_it() -> None:
    shared: asyncio.Task[str] = asyncio.create_task(asyncio.sleep(0.01, "shared"))

    async def waits() -> str:
        return await shared

    leaves, stays = asyncio.create_task(waits()), asyncio.create_task(waits())
    await asyncio.sleep(0)

    assert let_go(leaves)

    with pytest.raises(asyncio.CancelledError):
        await leaves
    assert await stays == await shared == "shared"


async def test_a_task_that_waits_for_nothing_is_left_alone() -> None:
    async def runs() -> str:
        await asyncio.sleep(0)
        return "done"

    task = asyncio.create_task(runs())

    assert not let_go(task)
    assert await task == "done"
