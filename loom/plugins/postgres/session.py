"""What one event loop has open of a database: a pool of connections, closed when the loop ends.

Nothing is kept in a connection from one use to the next: no setting, no lock, no cursor. Behind a transaction pooler each use
is a transaction of its own, since only within one is it the same server process that answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import asyncpg

from loom.plugins.postgres import schema
from loom.plugins.postgres.dsn import Address
from loom.plugins.postgres.failures import DRIVER_ERRORS, is_lost, is_rolled_back, store_error
from loom.spi.clock import Clock
from loom.spi.errors import StoreUnavailable

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

T = TypeVar("T")

Raw: TypeAlias = "PoolConnectionProxy[Any]"

REPEATS_MAX: Final = 20
"""So often a transaction is run again that Postgres undid for another's sake."""

LOST_MAX: Final = 2
"""So often what may be asked twice is asked again when the connection was lost."""

CLOSE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSettings:
    """How one database is used. Times are in seconds. Without a *clock*, the time is the server's."""

    address: Address
    readonly: bool
    makes: bool
    connections: int
    timeout_s: float
    clock: Clock | None

    @property
    def url(self) -> str:
        """The name of the store in messages."""
        return self.address.url

    @property
    def now_ms(self) -> int | None:
        """The time to go by (ms since the epoch), None for the server's."""
        return None if self.clock is None else self.clock.now_ms()

    def driver_options(self) -> dict[str, Any]:
        """Return how a connection is opened."""
        cache = {"statement_cache_size": 0} if self.address.pooler else {}
        return {"dsn": self.address.dsn, "timeout": self.timeout_s, "command_timeout": self.timeout_s, **cache}


class Session:
    """The pool of one loop, opened when first asked for."""

    def __init__(self, settings: PostgresSettings, *, ended: Callable[[], Awaitable[None]]) -> None:
        self._settings, self._ended = settings, ended
        self._loop, self._process = asyncio.get_running_loop(), os.getpid()
        self._opening: asyncio.Task[asyncpg.Pool[Any]] | None = None
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

    async def open(self) -> None:
        """Connect, and make or migrate the schema unless the store is read-only; a failure is tried again next time."""
        await self.run(_nothing)

    async def run(self, work: Callable[[Raw], Awaitable[T]], *, repeatable: bool = True) -> T:
        """Return what *work* returns with a connection: one statement, or a transaction of its own.

        It is run again when Postgres undid it; and, if it is *repeatable*, when the connection was lost.

        Raises:
            StoreUnavailable, StoreCorrupt, StoreNotFound, StoreNewer: see `PostgresStorage`.
        """
        undone = lost = 0
        while True:
            try:
                async with self.connection() as raw:
                    return await work(raw)
            except DRIVER_ERRORS as error:
                undone, lost = undone + is_rolled_back(error), lost + is_lost(error)
                again = is_rolled_back(error) or (repeatable and is_lost(error))
                if not again or undone > REPEATS_MAX or lost > LOST_MAX:
                    raise store_error(error, url=self._settings.url) from error
            await asyncio.sleep(random.uniform(0.001, 0.005) if undone else 0.05 * lost)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Raw]:
        """Lend a connection; behind a pooler, within a transaction."""
        pool = await self._pool()
        async with pool.acquire(timeout=self._settings.timeout_s) as raw:
            if not self._settings.address.pooler:
                yield raw
                return
            async with raw.transaction():
                yield raw

    async def close(self) -> None:
        """Close what is open."""
        if self._end is not None:
            await self._end.aclose()

    def abandon(self) -> None:
        """Forget what an earlier loop has left open.

        Raises:
            StoreUnavailable: that loop is still running.
        """
        if self._closed:
            return
        if self._loop.is_running():
            hint = "Use one storage object for each event loop; they may share the database."
            raise StoreUnavailable("the store is in use by another event loop", store=self._settings.url, hint=hint)
        self._closed = True

    async def _pool(self) -> asyncpg.Pool[Any]:
        if self._closed:
            raise StoreUnavailable("the store was closed", store=self._settings.url)
        if self._end is None:
            # A started async generator is closed by the loop that ends (`shutdown_asyncgens`): the one public hook for it.
            self._end = _until_closed(self._close)
            await anext(self._end)
        if self._opening is None or _failed(self._opening):
            self._opening = asyncio.create_task(self._open())
        return await asyncio.shield(self._opening)  # a caller that gives up must not stop it for the others

    async def _open(self) -> asyncpg.Pool[Any]:
        settings = self._settings
        try:
            pool = await asyncpg.create_pool(
                min_size=0,
                max_size=settings.connections,
                reset=_nothing,
                connection_class=_Plain,
                **settings.driver_options(),
            )
        except ValueError as error:
            hint = "See the names of libpq's connection URLs."
            raise StoreUnavailable("the URL of the database cannot be used", store=settings.url, hint=hint) from error
        try:
            async with pool.acquire(timeout=settings.timeout_s) as raw:
                if settings.readonly:
                    await schema.accept_for_reading(raw, url=settings.url)
                else:
                    await schema.migrate(raw, url=settings.url, makes=settings.makes)
        except BaseException:
            await _closed(pool)
            raise
        return pool

    async def _close(self) -> None:
        self._closed = True
        await self._ended()
        task, self._opening = self._opening, None
        if task is not None:
            await asyncio.wait([task])
            if not _failed(task):
                await _closed(task.result())


class _Plain(asyncpg.Connection):
    """A connection that needs no round trip to be clean for the next use: nothing is left in it."""

    def get_reset_query(self) -> str:
        return ""


async def _nothing(raw: object) -> None: ...


async def _closed(pool: asyncpg.Pool[Any]) -> None:
    try:
        async with asyncio.timeout(CLOSE_S):
            await pool.close()
    except DRIVER_ERRORS:
        pool.terminate()


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _until_closed(close: Callable[[], Awaitable[None]]) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await close()
