"""A database on a thread of its own: one hop there and back for each call, whatever the call does."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

import aiosqlite

from loom.plugins.sqlite.connection import Database

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

    @classmethod
    async def start(cls, connect: Callable[[], D]) -> SqliteThread[D]:
        """Start the thread and open the database on it, by *connect*; its errors are the caller's."""
        opened: list[D] = []

        def connector() -> sqlite3.Connection:
            opened.append(connect())
            return opened[0].raw

        unopened = aiosqlite.Connection(connector, iter_chunk_size=64)
        unopened._thread.daemon = True  # noqa: SLF001  # see the class
        driver = await unopened
        return cls(driver, opened[0])

    async def run(self, work: Callable[Concatenate[D, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what *work* returns. A cancelled caller does not stop it: its outcome is then unknown."""
        execute = cast(
            "Callable[..., Coroutine[Any, Any, T]]",
            self._driver._execute,  # noqa: SLF001  # untyped there; see the class
        )
        return await execute(work, self._database, *args, **kwargs)

    async def close(self) -> None:
        """Finish what is queued, close the database and end the thread."""
        await self.run(lambda database: database.close())
        await self._driver.close()

    def abandon(self) -> None:
        """Close without a loop to wait in: the thread closes the connection and ends by itself."""
        self._driver.stop()
