"""A database on a thread of its own: one hop there and back for all that is asked for meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, cast

import aiosqlite

from loom.plugins.sqlite.connection import Database
from loom.spi.errors import StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D", bound=Database)
J = TypeVar("J")

CarryOut: TypeAlias = Callable[[D, Sequence[J]], Sequence[object]]
"""Does some jobs on the thread, and returns for each its result or the exception to raise."""

_Asked: TypeAlias = list[tuple[J, "asyncio.Future[Any]"]]


class SqliteThread(Generic[D, J]):
    """Carries out jobs on an open database, in the order in which they were asked for, on aiosqlite's thread.

    Those that are asked for while others are under way are carried out together, afterwards.
    No task is needed for it, so that it goes on while a loop that ends cancels all of its tasks.

    This class is the only one that reaches into aiosqlite: its public methods hop once for each statement,
    and a transaction here is one function. The thread is a daemon, so that a loop that dies without closing
    cannot keep the process alive.
    """

    def __init__(self, driver: aiosqlite.Connection, database: D, carry_out: CarryOut[D, J]) -> None:
        self._driver, self._database, self._carry_out = driver, database, carry_out
        self._loop = asyncio.get_running_loop()
        self._waiting: _Asked[J] = []
        self._under_way = 0
        self._gathering = self._closed = False

    @classmethod
    async def start(cls, connect: Callable[[], D], carry_out: CarryOut[D, J]) -> SqliteThread[D, J]:
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
        return cls(driver, opening.database, carry_out)

    async def ask(self, job: J, *, gather: bool = False) -> Any:
        """Return the result of *job*, or raise its error. With *gather*, let others come along in this turn of the loop.

        Of a caller that is cancelled the job may still be carried out: its outcome is then unknown.

        Raises:
            StoreUnavailable: the thread was closed.
        """
        self._refuse_when_closed()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append((job, future))
        if not gather:
            self._go_on()
        elif not self._under_way and not self._gathering:
            self._gathering = True
            self._loop.call_soon(self._go_on)
        return await future

    def _go_on(self) -> None:
        self._gathering = False
        if self._waiting and not self._under_way:
            self._hand_over()

    def _hand_over(self) -> None:
        """Send all that waits to the thread; what comes meanwhile waits until it is done."""
        asked = [(job, future) for job, future in self._waiting if not future.done()]
        self._waiting = []
        if asked:
            self._under_way += 1
            self._driver._tx.put_nowait((None, partial(self._work, asked)))  # noqa: SLF001  # see the class

    def _work(self, asked: _Asked[J]) -> None:
        """Carry out jobs; this runs on the thread."""
        try:
            outcomes = self._carry_out(self._database, [job for job, _ in asked])
        except BaseException as error:  # noqa: BLE001  # it is raised where the loop waits
            outcomes = [error] * len(asked)
        self._loop.call_soon_threadsafe(self._settle, asked, outcomes)

    def _settle(self, asked: _Asked[J], outcomes: Sequence[object]) -> None:
        for (_, future), outcome in zip(asked, outcomes, strict=True):
            if future.done():  # whoever asked has given up
                continue
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        self._under_way -= 1
        self._go_on()

    async def run(self, work: Callable[Concatenate[D, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what *work* returns, once all jobs are carried out that were asked for before.

        Raises:
            StoreUnavailable: the thread was closed.
        """
        self._refuse_when_closed()
        self._hand_over()
        return await self._execute(work, self._database, *args, **kwargs)

    async def _execute(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        execute = cast(
            "Callable[..., Coroutine[Any, Any, T]]",
            self._driver._execute,  # noqa: SLF001  # untyped there; see the class
        )
        return await execute(work, *args, **kwargs)

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store was closed", store=self._database.url)

    async def close(self) -> None:
        """Finish what is asked for, close the database and end the thread."""
        self._closed = True
        self._hand_over()
        await self._execute(self._database.close)
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
