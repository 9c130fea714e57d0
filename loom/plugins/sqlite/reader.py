"""What is read of the runs in one SQLite file, and no more: the part of the store that a command which only looks has to load."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.sqlite import reading
from loom.plugins.sqlite.connection import SqliteSettings
from loom.plugins.sqlite.location import DEFAULT_PATH, must_name_a_file
from loom.plugins.sqlite.session import SqliteSession
from loom.spi.clock import Clock, SystemClock
from loom.spi.event_store import EventRecord, ExecutionQuery, ExecutionRow, Head, LanePlace, Request
from loom.spi.feed import Wakes, follow
from loom.spi.sessions import Sessions

P = ParamSpec("P")
T = TypeVar("T")


class SqliteReader:
    """A `RunReader` of one SQLite file: all of `SqliteStorage` that looks at runs, and what that says of a file stands here too.

    By itself it makes and changes nothing; a missing file is `StoreNotFound`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = DEFAULT_PATH,
        *,
        readonly: bool = True,
        busy_timeout_s: float = 10.0,
        checkpoint_bytes: int = 4 << 20,
        poll_s: float = 0.05,
        clock: Clock | None = None,
    ) -> None:
        must_name_a_file(path)
        self._settings = SqliteSettings(
            path=Path(path).absolute(),
            readonly=readonly,
            busy_timeout_s=busy_timeout_s,
            checkpoint_bytes=checkpoint_bytes,
            clock=clock or SystemClock(),
        )
        self._poll_s = poll_s
        self._wakes = Wakes()
        self._sessions = Sessions(partial(SqliteSession, self._settings))

    @property
    def url(self) -> str:
        """The name of the store in messages."""
        return self._settings.url

    @property
    def clock(self) -> Clock:
        """The clock by which leases are judged."""
        return self._settings.clock

    async def open(self) -> None:
        """Open the file now rather than at first use; make or migrate it unless the store is read-only."""
        session = self._sessions.current()
        await (session.reader() if self._settings.readonly else session.writer())

    async def close(self) -> None:
        """Release every connection, thread and handle, and end the feeds; the store may be used again."""
        await self._sessions.close()
        self._wakes.wake_all()

    async def read(
        self, execution_id: ExecutionId, *, start: int = 0, stop: int | None = None, limit_bytes: int = 4 << 20
    ) -> Sequence[EventRecord]:
        """Return a page of events; see `EventStore.read`."""
        return await self._read(reading.events, execution_id, start=start, stop=stop, limit_bytes=limit_bytes)

    async def head(self, execution_id: ExecutionId) -> Head | None:
        """Return where the log stands, None when there is no such execution."""
        return await self._read(reading.head, execution_id)

    async def ids(self, *, after: str = "", prefix: str = "", limit: int = 1000) -> Sequence[ExecutionId]:
        """Return execution ids by code point order; see `EventStore.ids`."""
        return await self._read(reading.ids, after=after, prefix=prefix, limit=limit)

    async def pending(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, above: int = 0
    ) -> Sequence[Request]:
        """Return the requests that no append has consumed, in order; see `RequestLane.pending`."""
        return await self._read(reading.pending, execution_id, incarnation, above=above)

    async def have_news(self, places: Sequence[LanePlace]) -> Sequence[bool]:
        """Tell for each place whether a request after it is pending; see `RequestLane.have_news`."""
        return await self._read(reading.news, places) if places else []

    async def find(self, query: ExecutionQuery) -> Sequence[ExecutionRow]:
        """Return the matching rows, newest first; see `ExecutionIndex.find`."""
        return await self._read(reading.find, query, now=self.clock.now_ms())

    async def row(self, execution_id: ExecutionId) -> ExecutionRow | None:
        """Return the index row of one execution, None when there is no such execution."""
        return await self._read(reading.row, execution_id, now=self.clock.now_ms())

    def subscribe(self, execution_id: ExecutionId, *, start: int = 0) -> AsyncIterator[EventRecord]:
        """Yield the events from *start* on, for ever; see `EventFeed.subscribe`.

        Raises:
            StoreUnavailable: the store was closed meanwhile.
        """
        session = self._sessions.current()

        async def read(sequence: int) -> Sequence[EventRecord]:
            reader = await session.reader()
            page: Sequence[EventRecord] = await reader.ask(
                partial(reading.events, execution_id=execution_id, start=sequence, stop=None, limit_bytes=4 << 20)
            )
            return page

        return follow(read, self._wakes, execution_id, start=start, poll_s=self._poll_s)

    async def _read(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        reader = await self._sessions.current().reader()
        result: T = await reader.ask(lambda raw: work(raw, *args, **kwargs), gather=True)
        return result
