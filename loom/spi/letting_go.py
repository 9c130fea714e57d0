"""Raising a cancellation in a task without what it waits for being cancelled as well."""

from __future__ import annotations

import asyncio
from typing import Any


def let_go(task: asyncio.Task[Any]) -> bool:
    """Raise CancelledError in *task* where it waits, and let what it waits for go on, for whoever else waits for that.

    `Task.cancel` always cancels what is waited for. Return False, with nothing done, where asyncio does not show who waits.
    """
    waits_for = getattr(task, "_fut_waiter", None)
    for callback, context in getattr(waits_for, "_callbacks", None) or ():
        if getattr(callback, "__self__", None) is task:
            assert waits_for is not None
            waits_for.remove_done_callback(callback)
            nothing: asyncio.Future[None] = task.get_loop().create_future()
            nothing.add_done_callback(callback, context=context)
            nothing.cancel()
            return True
    return False
