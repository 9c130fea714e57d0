"""What one event loop has open of a database: a pool of connections, closed when the loop ends.

Nothing is kept in a connection from one use to the next: no setting, no lock, no cursor. Behind a transaction pooler each use
is a transaction of its own, since only within one is it the same server process that answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import asyncpg

from loom.core.ids import ExecutionId
from loom.plugins.postgres import reading, schema
from loom.plugins.postgres.compression import compress_snapshots
from loom.plugins.postgres.failures import DRIVER_ERRORS, is_crowded, is_lost, is_rolled_back, store_error
from loom.plugins.postgres.gathering import Gathering
from loom.plugins.postgres.hearing import Ear
from loom.plugins.postgres.settings import PostgresSettings
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import ExecutionRow, LanePlace, Request
from loom.spi.feed import Wakes
from loom.spi.sessions import Lifetime, Opening

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

T = TypeVar("T")

Raw: TypeAlias = "PoolConnectionProxy[Any]"

REPEATS_MAX: Final = 20
"""So often a transaction is run again that Postgres undid for another's sake."""

LOST_MAX: Final = 2
"""So often what may be asked twice is asked again when the connection was lost."""

CROWDED_S: Final = 5.0
"""So long a free connection is waited for, seconds."""

CLOSE_S: Final = 5.0


class PostgresSession:
    """The pool of one loop, opened when first asked for, and the ear that hears for its feeds.

    *lanes* and *rows* are read together by those who ask at once.
    """

    def __init__(self, settings: PostgresSettings, wakes: Wakes) -> None:
        self._settings = settings
        self.lifetime = Lifetime(settings.url, self._close)
        self.ear = Ear(settings, wakes)
        self._pool: Opening[asyncpg.Pool[Any]] = Opening(self._open)
        self.lanes, self.rows = Gathering(self._read_lanes), Gathering(self._read_rows)

    async def open(self) -> None:
        """Connect, and make or migrate the schema unless the store is read-only; a failure is tried again next time."""
        await self.run(_nothing)

    async def run(self, work: Callable[[Raw], Awaitable[T]], *, repeatable: bool = True) -> T:
        """Return what *work* returns with a connection: one statement, or a transaction of its own.

        It is run again when Postgres undid it; for a while when no connection is free; and, if it is *repeatable*, when the
        connection was lost.

        Raises:
            StoreUnavailable, StoreCorrupt, StoreNotFound, StoreNewer: see `PostgresStorage`.
        """
        tries = _Tries(repeatable=repeatable)
        while True:
            try:
                async with self.connection() as raw:
                    return await work(raw)
            except DRIVER_ERRORS as error:
                rest_s = tries.rest_s(error)
                if rest_s is None:
                    raise store_error(error, url=self._settings.url) from error
            await asyncio.sleep(rest_s)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Raw]:
        """Lend a connection; behind a pooler, within a transaction."""
        await self.lifetime.begin()
        pool = await self._pool.get()
        async with pool.acquire(timeout=self._settings.timeout_s) as raw:
            if not self._settings.address.pooler:
                yield raw
                return
            async with raw.transaction():
                yield raw

    async def close(self) -> None:
        """Close what is open."""
        await self.lifetime.end()

    def abandon(self) -> None:
        """Forget what an earlier loop has left open.

        Raises:
            StoreUnavailable: that loop is still running.
        """
        self.lifetime.abandon()

    async def _read_lanes(self, asked: Sequence[LanePlace]) -> Sequence[Sequence[Request]]:
        return await self.run(partial(reading.lanes, asked=asked))

    async def _read_rows(self, asked: Sequence[ExecutionId]) -> Sequence[ExecutionRow | None]:
        return await self.run(partial(reading.rows, asked=asked, now=self._settings.now_ms))

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
                    await schema.migrate(raw, url=settings.url)
                    await compress_snapshots(raw, settings.snapshot_compression, url=settings.url)
        except BaseException:
            await _closed(pool)
            raise
        return pool

    async def _close(self) -> None:
        await self.ear.stop()
        if (pool := await self._pool.take()) is not None:
            await _closed(pool)


class _Tries:
    """How often something was tried, by what it failed of."""

    def __init__(self, *, repeatable: bool) -> None:
        self._repeatable, self._until = repeatable, time.monotonic() + CROWDED_S
        self._undone = self._lost = 0

    def rest_s(self, error: BaseException) -> float | None:
        """Return how long to rest before it is tried again after *error*, None when it is not."""
        if is_rolled_back(error):
            self._undone += 1
            return random.uniform(0.001, 0.005) if self._undone <= REPEATS_MAX else None
        if is_crowded(error):
            return random.uniform(0.02, 0.1) if time.monotonic() < self._until else None
        if is_lost(error) and self._repeatable:
            self._lost += 1
            return 0.05 * self._lost if self._lost <= LOST_MAX else None
        return None


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
