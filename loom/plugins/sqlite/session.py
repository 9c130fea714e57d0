"""What one event loop has open of a database, and closing it when the loop ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from loom.plugins.sqlite import reading, writing
from loom.plugins.sqlite.connection import Database, SqliteSettings, WritableDatabase, open_reader, open_writer
from loom.plugins.sqlite.deciding import Write
from loom.plugins.sqlite.thread import SqliteThread
from loom.spi.errors import StoreUnavailable

D = TypeVar("D", bound=Database)
J = TypeVar("J")

Writer: TypeAlias = SqliteThread[WritableDatabase, Write]
Reader: TypeAlias = SqliteThread[Database, reading.Read]


class Session:
    """The writer and the reader of one loop, each opened when first asked for."""

    def __init__(self, settings: SqliteSettings) -> None:
        self._settings = settings
        self._loop, self._process = asyncio.get_running_loop(), os.getpid()
        self._writer = _Opening(partial(SqliteThread.start, partial(open_writer, settings), writing.write))
        self._reader = _Opening(partial(SqliteThread.start, partial(open_reader, settings), reading.read))
        self._end: AsyncGenerator[None] | None = None
        self._closed = False

    @property
    def is_inherited(self) -> bool:
        """Whether another process opened it, of which this one is a fork: it must be left alone, not closed."""
        return self._process != os.getpid()

    @property
    def serves_running_loop(self) -> bool:
        """Whether the session may be used here and now."""
        return not self._closed and self._loop is asyncio.get_running_loop()

    async def writer(self) -> Writer:
        """Return the connection that writes; opening it makes the database."""
        if self._writer.opened is not None and not self._closed:
            return self._writer.opened
        await self._watch_loop()
        return await self._writer.get()

    async def reader(self) -> Reader:
        """Return the connection that reads. A store that may write makes the database first."""
        if self._reader.opened is not None and not self._closed:
            return self._reader.opened
        await self._watch_loop()
        if not self._settings.readonly:
            await self._writer.get()
            await self._watch_loop()  # it may have been closed meanwhile
        return await self._reader.get()

    async def close(self) -> None:
        """Close what is open, once what is queued is done."""
        if self._end is not None:
            await self._end.aclose()

    def abandon(self) -> None:
        """Close what an earlier loop has left open.

        Raises:
            StoreUnavailable: that loop is still running.
        """
        if self._closed:
            return
        if self._loop.is_running():
            hint = "Use one storage object for each event loop; they may share the file."
            raise StoreUnavailable("the store is in use by another event loop", store=self._settings.url, hint=hint)
        self._closed = True
        self._reader.abandon()
        self._writer.abandon()

    async def _watch_loop(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store was closed", store=self._settings.url)
        if self._end is None:
            # A started async generator is closed by the loop that ends (`shutdown_asyncgens`): the one public
            # hook for it. Its first step does not suspend, so no other task comes between.
            self._end = _until_closed(self._close_threads)
            await anext(self._end)

    async def _close_threads(self) -> None:
        self._closed = True
        await self._reader.close()
        await self._writer.close()


class _Opening(Generic[D, J]):
    """A thread that is started by the first who needs it, while the others wait; a failure is tried again."""

    def __init__(self, start: Callable[[], Coroutine[None, None, SqliteThread[D, J]]]) -> None:
        self._start = start
        self._task: asyncio.Task[SqliteThread[D, J]] | None = None
        self.opened: SqliteThread[D, J] | None = None
        """The thread that was started, until it is closed."""

    async def get(self) -> SqliteThread[D, J]:
        if self._task is None or _failed(self._task):
            self._task = asyncio.create_task(self._start())
        self.opened = await asyncio.shield(self._task)  # a caller that gives up must not stop it for the others
        return self.opened

    async def close(self) -> None:
        task, self._task, self.opened = self._task, None, None
        if task is not None:
            await asyncio.wait([task])
            if not _failed(task):
                await task.result().close()

    def abandon(self) -> None:
        if self._task is not None and self._task.done() and not _failed(self._task):
            self._task.result().abandon()


def _failed(task: asyncio.Task[SqliteThread[D, J]]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _until_closed(close: Callable[[], Awaitable[None]]) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await close()
