"""Effects in flight: each in a task and a copy of the context of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from loom.kernel.calls import Call


class Flights:
    """The running attempts of a drive, by the call they are for."""

    def __init__(self) -> None:
        self._tasks: dict[Call, asyncio.Task[Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def start(self, call: Call, work: Coroutine[Any, Any, Any], landed: Callable[[asyncio.Task[Any]], None]) -> None:
        """Run *work* for *call*; *landed* is called with the ended task, unless it was grounded."""
        context = None if call.context is None else call.context.copy()
        task = asyncio.get_running_loop().create_task(work, name=call.id, context=context)
        self._tasks[call] = task

        def done(ended: asyncio.Task[Any]) -> None:
            if self._tasks.get(call) is ended:
                del self._tasks[call]
                landed(ended)
            elif not ended.cancelled():
                ended.exception()

        task.add_done_callback(done)

    def are_below(self, prefix: str) -> bool:
        """Whether anything is in flight for a branch at or below *prefix*."""
        return any(call.branch.is_below(prefix) for call in self._tasks)

    async def wait(self, timeout_s: float | None) -> None:
        """Return when nothing is in flight any more, or after *timeout_s*."""
        deadline = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        while self._tasks:
            left = None if deadline is None else deadline - asyncio.get_running_loop().time()
            if left is not None and left <= 0:
                return
            await asyncio.wait(set(self._tasks.values()), timeout=left)
            await asyncio.sleep(0)

    async def ground(self, patience_s: float) -> None:
        """Cancel all that is in flight, without a record, and return when it has ended, or after *patience_s*."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=patience_s)
