"""Raising a cancellation in a task without what it waits for being cancelled as well; and standing still for ever."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Generator
from typing import Any


def awaited_by(task: asyncio.Task[Any]) -> set[object]:
    """Return what *task* waits for: one future or task, and, where that is a gather, all that is gathered."""
    found: set[object] = set()
    left = [getattr(task, "_fut_waiter", None)]
    while left:
        future = left.pop()
        if future is not None and future not in found:
            found.add(future)
            left += getattr(future, "_children", ())
    return found


def let_go(task: asyncio.Task[Any]) -> bool:
    """Raise CancelledError in *task* where it waits, and let what it waits for go on, for whoever else waits for that.

    `Task.cancel` always cancels what is waited for. Return False, with nothing done, where asyncio does not show who waits.
    """
    waits_for = getattr(task, "_fut_waiter", None)
    for callback, context in getattr(waits_for, "_callbacks", None) or ():
        if getattr(callback, "__self__", None) is task:
            assert waits_for is not None
            waits_for.remove_done_callback(callback)
            if hasattr(waits_for, "_children"):  # a gather that nobody waits for any more
                waits_for.add_done_callback(_retrieve)
            nothing: asyncio.Future[None] = task.get_loop().create_future()
            nothing.add_done_callback(callback, context=context)
            nothing.cancel()
            return True
    return False


def _retrieve(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


async def never() -> None:
    """Wait for ever, in a task that the end of its loop does not wait for, though it swallows its cancellation."""
    task = asyncio.current_task() if asyncio._get_running_loop() is not None else None  # noqa: SLF001  # never raises
    if task is not None:
        asyncio.tasks._unregister_task(task)  # noqa: SLF001  # documented for whoever takes over a task's life
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  # it is destroyed pending
        forever: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await forever
    await _give_way()  # the coroutine is being collected, outside any loop: this ends that


@types.coroutine
def _give_way() -> Generator[None, None, None]:
    yield
