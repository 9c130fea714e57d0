"""A database on a thread of its own: one hop there and back for each call, whatever the call does."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

import aiosqlite

from loom.plugins.sqlite.connection import Database
from loom.spi.errors import StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D", bound=Database)


class SqliteThread(Generic[D]):
    """Runs functions on an open database, one after the other, on aiosqlite's thread.

    This class is the only one that reaches into aiosqlite: its public methods hop once for each statement,
    and a transaction here is one function. The thread is a daemon, so that a loop that dies without closing
    cannot keep the process alive.
    """

    def __init__(self, driver: aiosqlite.Connection, database: D) -> None:
        self._driver, self._database = driver, database
        self._closed = False

    @classmethod
    async def start(cls, connect: Callable[[], D]) -> SqliteThread[D]:
        """Start the thread and open the database on it, by *connect*; its errors are the caller's."""
        opening = _Opening(connect)
        driver = aiosqlite.Connection(opening.connection, iter_chunk_size=64)
        driver._thread.daemon = True  # noqa: SLF001  # see the class
        try:
            driver = await driver
        except asyncio.CancelledError:
            await _ended(driver)
            opening.discard()
            raise
        if opening.database is None:
            await driver.close()
            await _ended(driver)
            raise opening.error
        return cls(driver, opening.database)

    async def run(self, work: Callable[Concatenate[D, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what *work* returns. A cancelled caller does not stop it: its outcome is then unknown.

        Raises:
            StoreUnavailable: the thread was closed.
        """
        if self._closed:
            raise StoreUnavailable("the store was closed", store=self._database.url)
        execute = cast(
            "Callable[..., Coroutine[Any, Any, T]]",
            self._driver._execute,  # noqa: SLF001  # untyped there; see the class
        )
        return await execute(work, self._database, *args, **kwargs)

    async def close(self) -> None:
        """Finish what is queued, close the database and end the thread."""
        closing = asyncio.ensure_future(self.run(lambda database: database.close()))
        await asyncio.sleep(0)  # it is in the queue now, and is the last there
        self._closed = True
        await closing
        await self._driver.close()
        await _ended(self._driver)

    def abandon(self) -> None:
        """Close what a loop that is over has left, waiting for the thread to end."""
        self._driver.stop()
        self._driver._thread.join()  # noqa: SLF001  # see the class


class _Opening(Generic[D]):
    """What came of opening a database on the thread.

    aiosqlite would end the thread of a failed attempt behind our back, and report to a loop that may be over by
    then. So it is always given a connection, and the failure is told afterwards.
    """

    def __init__(self, connect: Callable[[], D]) -> None:
        self._connect = connect
        self.database: D | None = None
        self.error: BaseException = asyncio.CancelledError()

    def connection(self) -> sqlite3.Connection:
        try:
            self.database = self._connect()
        except Exception as error:  # noqa: BLE001  # it is raised where the loop waits
            self.error = error
            return sqlite3.connect(":memory:")
        return self.database.raw

    def discard(self) -> None:
        if self.database is not None:
            self.database.close()


async def _ended(driver: aiosqlite.Connection) -> None:
    """Wait for the thread to end: it reports to this loop, and is to be gone when we say so."""
    while driver._thread.is_alive():  # noqa: SLF001  # see `SqliteThread`
        await asyncio.sleep(0.001)
