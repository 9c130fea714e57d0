"""What one event loop has open of a database: a thread that writes and one that reads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from loom.plugins.sqlite import reading
from loom.plugins.sqlite.connection import Database, SqliteSettings, open_reader
from loom.plugins.sqlite.thread import SqliteThread
from loom.spi.sessions import Lifetime, Opening

if TYPE_CHECKING:
    from loom.plugins.sqlite.deciding import Write
    from loom.plugins.sqlite.writable import WritableDatabase

    Writer: TypeAlias = SqliteThread[WritableDatabase, Write]

Reader: TypeAlias = SqliteThread[Database, reading.Read]


class SqliteSession:
    """The writer and the reader of one loop, each opened when first asked for."""

    def __init__(self, settings: SqliteSettings) -> None:
        self._settings = settings
        self.lifetime = Lifetime(settings.url, self._close_threads)
        self._writer: Opening[Writer] = Opening(partial(_start_writer, settings))
        self._reader = Opening[Reader](partial(SqliteThread.start, partial(open_reader, settings), reading.read))

    async def writer(self) -> Writer:
        """Return the connection that writes; opening it makes the database."""
        if self._writer.opened is not None and not self.lifetime.over:
            return self._writer.opened
        await self.lifetime.begin()
        return await self._writer.get()

    async def reader(self) -> Reader:
        """Return the connection that reads. A store that may write makes the database first."""
        if self._reader.opened is not None and not self.lifetime.over:
            return self._reader.opened
        await self.lifetime.begin()
        if not self._settings.readonly:
            await self._writer.get()
            await self.lifetime.begin()  # it may have been closed meanwhile
        return await self._reader.get()

    async def close(self) -> None:
        """Close what is open, once what is queued is done."""
        await self.lifetime.end()

    def abandon(self) -> None:
        """Close what an earlier loop has left open.

        Raises:
            StoreUnavailable: that loop is still running.
        """
        if self.lifetime.abandon():
            for left in (self._reader.take_abandoned(), self._writer.take_abandoned()):
                if left is not None:
                    left.abandon()

    async def _close_threads(self) -> None:
        if (reader := await self._reader.take()) is not None:
            await reader.close()
        if (writer := await self._writer.take()) is not None:
            await writer.close()


async def _start_writer(settings: SqliteSettings) -> Writer:
    from loom.plugins.sqlite import writable, writing  # half of this plugin, which who only looks has no use for

    return await SqliteThread.start(partial(writable.open_writer, settings), writing.write)
