"""The default store: one SQLite file for a project, shared by any number of processes.

Nothing is opened before first use. What is opened belongs to the event loop it was opened in: the end of the
loop closes it, and the next loop opens anew. Writing and reading have a connection and a thread each, so that
a long read holds up no append.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.files import FileContent
from loom.plugins.sqlite import reading
from loom.plugins.sqlite.archive import SqliteArchive
from loom.plugins.sqlite.changes import SqliteChanges
from loom.plugins.sqlite.compaction import SqliteCompaction
from loom.plugins.sqlite.connection import SqliteSettings
from loom.plugins.sqlite.deciding import Insert, Inserted, with_following
from loom.plugins.sqlite.forking import SqliteForks
from loom.plugins.sqlite.importing import SqliteImport
from loom.plugins.sqlite.leasing import SqliteLeases
from loom.plugins.sqlite.lines import SqliteLines
from loom.plugins.sqlite.location import DEFAULT_PATH, store_location
from loom.plugins.sqlite.models import SqliteModels
from loom.plugins.sqlite.refs import SqliteRefs
from loom.plugins.sqlite.schedules import SqliteSchedules
from loom.plugins.sqlite.session import SqliteSession
from loom.plugins.sqlite.snapshots import SqliteSnapshots
from loom.plugins.sqlite.trimming import SqliteTrim
from loom.spi.clock import Clock, SystemClock
from loom.spi.event_store import (
    Append,
    Appended,
    AppendResult,
    EventRecord,
    ExecutionQuery,
    ExecutionRow,
    Head,
    Request,
    RequestKind,
    Send,
)
from loom.spi.feed import Wakes, follow
from loom.spi.sessions import Sessions, refuse_write

CONTENT_SUFFIX: Final = ".content"

P = ParamSpec("P")
T = TypeVar("T")


class SqliteStorage(
    SqliteLeases,
    SqliteSchedules,
    SqliteLines,
    SqliteSnapshots,
    SqliteTrim,
    SqliteCompaction,
    SqliteArchive,
    SqliteForks,
    SqliteImport,
    SqliteRefs,
    SqliteChanges,
    SqliteModels,
):
    """A `Storage` in one SQLite file, in WAL mode and synced at every commit.

    It is a `ScheduleStore`, an `AdmissionStore`, a `SnapshotStore`, a `ReadModelStore`, an `EventTrim` and a `ChangeFeed`, too, and may be opened as an
    `ArchiveStore`.
    The file and its directory are made by the first write, with the permissions that the umask gives; with
    *readonly* nothing is made or changed, and a missing file is `StoreNotFound`. Another process's lock is
    waited for up to *busy_timeout_s* seconds. *checkpoint_bytes* is how large the write-ahead log may grow where
    Loom itself makes the checkpoints (see `wal_safety`). A feed looks for what other processes appended every
    *poll_s* seconds.

    Raises (every method):
        StoreUnavailable: locked for too long, full, read-only or unreachable; nothing was written.
        StoreCorrupt: damaged, no SQLite database, another application's, or a directory.
        StoreNewer: written by a newer Loom.
        StoreNotFound: with *readonly*, there is nothing to read.
    """

    spi_version: Final = "1.0.0"

    def __init__(
        self,
        path: str | os.PathLike[str] = DEFAULT_PATH,
        *,
        readonly: bool = False,
        busy_timeout_s: float = 10.0,
        checkpoint_bytes: int = 4 << 20,
        poll_s: float = 0.05,
        clock: Clock | None = None,
    ) -> None:
        if not os.fspath(path) or os.fspath(path).startswith((":", "file:")):
            raise InvalidDeclaration(f"{path!r} names no file", hint="Give a path, or use MemoryStorage for memory.")
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
        file = self._settings.file
        self._contents = FileContent(file.with_name(file.name + CONTENT_SUFFIX), clock=self._settings.clock)

    def content_store(self) -> FileContent:
        """Return where the contents of its runs live: in a folder beside the database, `loom.db.content`."""
        return self._contents

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

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Apply each item whole or not at all; see `EventStore.append`."""
        refuse_write(readonly=self._settings.readonly, url=self.url)
        if not batch:
            return []
        writer = await self._sessions.current().writer()
        results: Sequence[AppendResult] = await writer.ask(batch)
        done = [item for item, result in zip(batch, results, strict=True) if isinstance(result, Appended)]
        self._wakes.wake({each.execution_id for item in done for each in with_following(item)})
        return results

    async def insert(
        self,
        execution_id: ExecutionId,
        incarnation: Incarnation,
        *,
        kind: RequestKind,
        key: str,
        at: int,
        body: bytes,
        while_open: bool = False,
    ) -> Inserted:
        """Add a request to the lane; see `RequestLane.insert`."""
        refuse_write(readonly=self._settings.readonly, url=self.url)
        writer = await self._sessions.current().writer()
        wish = Insert(Send(execution_id, kind, key, at, body), incarnation, while_open)
        result: Inserted = await writer.ask(wish, gather=True)
        return result

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

    async def _transact(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        refuse_write(readonly=self._settings.readonly, url=self.url)
        writer = await self._sessions.current().writer()
        return await writer.run(lambda database: database.run(work, *args, **kwargs))


def sqlite_storage(path: str | os.PathLike[str] | None = None, *, busy_timeout_s: float = 10.0) -> SqliteStorage:
    """Return the default store, which opens nothing yet.

    Without a *path* it is where the `loom` command looks: `LOOM_STORE`, `[tool.loom] store` in the nearest
    pyproject.toml, else `.loom/loom.db` below the working directory.
    """
    return SqliteStorage(store_location().path if path is None else path, busy_timeout_s=busy_timeout_s)
