"""What adapters share that keep a connection: it belongs to the event loop that opened it, and to the process.

A session is what one loop has open. It closes when the loop ends; another loop gets another one, and so does a fork.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Final, Generic, Protocol, TypeVar

from loom.spi.errors import StoreUnavailable

T = TypeVar("T")
S = TypeVar("S", bound="Session")

_READONLY_HINT: Final = "Open the store without readonly=True to write to it."


class Session(Protocol):
    """What one event loop has open of a store."""

    @property
    def lifetime(self) -> Lifetime: ...

    async def close(self) -> None:
        """Close what is open."""
        ...

    def abandon(self) -> None:
        """Forget or close what an earlier loop has left open.

        Raises:
            StoreUnavailable: that loop is still running.
        """
        ...


class Lifetime:
    """Where a session lives: in the loop and the process that made it. *end* closes what was opened, when the loop ends."""

    def __init__(self, url: str, end: Callable[[], Awaitable[None]]) -> None:
        self._url, self._ended = url, end
        self._loop, self._process = asyncio.get_running_loop(), os.getpid()
        self._end: AsyncGenerator[None] | None = None
        self.over = False

    @property
    def is_inherited(self) -> bool:
        """Whether another process opened it, of which this one is a fork: it must be left alone, not closed."""
        return self._process != os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether the session may be used here and now."""
        return not self.over and self._loop is asyncio.get_running_loop()

    async def begin(self) -> None:
        """See to it that the end of the loop closes what is opened from now on.

        Raises:
            StoreUnavailable: the session was closed.
        """
        if self.over:
            raise StoreUnavailable("the store was closed", store=self._url)
        if self._end is None:
            # A started async generator is closed by the loop that ends (`shutdown_asyncgens`): the one public
            # hook for it. Its first step does not suspend, so no other task comes between.
            self._end = self._until_ended()
            await anext(self._end)

    async def end(self) -> None:
        """End it now, unless nothing was opened."""
        if self._end is not None:
            await self._end.aclose()

    def abandon(self) -> bool:
        """End it without its loop; return False when it was over already.

        Raises:
            StoreUnavailable: that loop is still running.
        """
        if self.over:
            return False
        if self._loop.is_running():
            hint = "Use one storage object for each event loop; they may share the database."
            raise StoreUnavailable("the store is in use by another event loop", store=self._url, hint=hint)
        self.over = True
        return True

    async def _until_ended(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self.over = True
            await self._ended()


class Opening(Generic[T]):
    """Something that is opened by the first who needs it, while the others wait; a failure is tried again."""

    def __init__(self, start: Callable[[], Coroutine[None, None, T]]) -> None:
        self._start = start
        self._task: asyncio.Task[T] | None = None
        self.opened: T | None = None
        """What was opened, until it is taken away."""

    async def get(self) -> T:
        """Return what is open."""
        if self._task is None or _failed(self._task):
            self._task = asyncio.create_task(self._start())
        self.opened = await asyncio.shield(self._task)  # a caller that gives up must not stop it for the others
        return self.opened

    async def take(self) -> T | None:
        """Return what is open or is being opened, for whoever closes it; None when there is nothing."""
        task, self._task, self.opened = self._task, None, None
        if task is None:
            return None
        await asyncio.wait([task])
        return None if _failed(task) else task.result()

    def take_abandoned(self) -> T | None:
        """Return what was left open by a loop that is over."""
        task, self._task, self.opened = self._task, None, None
        return task.result() if task is not None and task.done() and not _failed(task) else None


class Sessions(Generic[S]):
    """Gives each loop the session that *make* makes for it, one at a time."""

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._session: S | None = None
        self._inherited: list[S] = []

    def current(self) -> S:
        """Return the session of the running loop.

        Raises:
            StoreUnavailable: it is in use by another loop.
        """
        if self._session is not None and self._session.lifetime.is_inherited:
            # Closing it would let go of locks, talk on connections or wait for threads that are the parent's.
            self._inherited.append(self._session)
            self._session = None
        if self._session is None or not self._session.lifetime.is_here:
            if self._session is not None:
                self._session.abandon()
            self._session = self._make()
        return self._session

    async def close(self) -> None:
        """Close the session, if there is one; the next use makes another."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def refuse_write(*, readonly: bool, url: str) -> None:
    """Raise when a store was opened to read only.

    Raises:
        StoreUnavailable: it was.
    """
    if readonly:
        raise StoreUnavailable("the store was opened read-only", store=url, hint=_READONLY_HINT)


def _failed(task: asyncio.Task[T]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
