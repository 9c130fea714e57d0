"""How a feed follows a log: read a page, hand it on, and wait for a wake-up or the next poll.

A wake-up only shortens the wait; what arrives is always what was read from the store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from loom.core.ids import ExecutionId
from loom.spi.change_feed import Change
from loom.spi.event_store import EventRecord

ReadPage: TypeAlias = Callable[[int], Awaitable[Sequence[EventRecord]]]
"""Reads the page of one log that begins at a sequence."""

ReadChanges: TypeAlias = Callable[[str], Awaitable[Sequence[Change]]]
"""Reads the page of changes behind a cursor."""


class Wakes:
    """Who waits for which log to grow, in any event loop."""

    def __init__(self) -> None:
        self._waiting: dict[ExecutionId, set[_Waiter]] = {}
        self._waiting_for_any: set[_Waiter] = set()

    def wake(self, execution_ids: Iterable[ExecutionId]) -> None:
        """Let everybody who waits for one of these logs read again."""
        for execution_id in execution_ids:
            for waiter in tuple(self._waiting.get(execution_id, ())):
                waiter.wake()
        for waiter in tuple(self._waiting_for_any):
            waiter.wake()

    def wake_all(self) -> None:
        """Let everybody read again."""
        self.wake(tuple(self._waiting))

    @contextlib.contextmanager
    def waiting(self, execution_id: ExecutionId) -> Iterator[asyncio.Event]:
        """Give an event of the running loop that is set whenever the log may have grown."""
        waiter = _Waiter()
        self._waiting.setdefault(execution_id, set()).add(waiter)
        try:
            yield waiter.event
        finally:
            self._leave(execution_id, waiter)

    @contextlib.contextmanager
    def waiting_for_any(self) -> Iterator[asyncio.Event]:
        """Give an event of the running loop that is set whenever any log may have grown."""
        waiter = _Waiter()
        self._waiting_for_any.add(waiter)
        try:
            yield waiter.event
        finally:
            self._waiting_for_any.discard(waiter)

    def _leave(self, execution_id: ExecutionId, waiter: _Waiter) -> None:
        waiters = self._waiting[execution_id]
        waiters.discard(waiter)
        if not waiters:
            del self._waiting[execution_id]


class _Waiter:
    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop of an abandoned feed is closed: nobody waits there
            self._loop.call_soon_threadsafe(self.event.set)


async def follow(
    read: ReadPage, wakes: Wakes, execution_id: ExecutionId, *, start: int, poll_s: float | None = None
) -> AsyncIterator[EventRecord]:
    """Yield the events of one log from *start* on, for ever; look again after *poll_s* seconds (None: when woken)."""
    with wakes.waiting(execution_id) as grown:
        while True:
            grown.clear()
            page = await read(start)
            for record in page:
                yield record
            if page:
                start = page[-1].sequence + 1  # events before may have been removed meanwhile
            else:
                await _set_within(grown, poll_s)


async def follow_changes(
    read: ReadChanges, wakes: Wakes, *, after: str, poll_s: float | None = None
) -> AsyncIterator[Sequence[Change]]:
    """Yield the pages of changes behind *after*, for ever; look again after *poll_s* seconds (None: when woken)."""
    with wakes.waiting_for_any() as grown:
        while True:
            grown.clear()
            page = await read(after)
            if page:
                after = page[-1].cursor
                yield page
            else:
                await _set_within(grown, poll_s)


async def _set_within(event: asyncio.Event, timeout_s: float | None) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
