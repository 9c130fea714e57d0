"""The default store: one SQLite file for a project, shared by any number of processes.

Nothing is opened before first use. What is opened belongs to the event loop it was opened in: the end of the
loop closes it, and the next loop opens anew. Writing and reading have a connection and a thread each, so that
a long read holds up no append.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from typing import Concatenate, Final, ParamSpec, TypeVar

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.files import FileContent
from loom.plugins.sqlite.archive import SqliteArchive
from loom.plugins.sqlite.changes import SqliteChanges
from loom.plugins.sqlite.compaction import SqliteCompaction
from loom.plugins.sqlite.deciding import Insert, Inserted, with_following
from loom.plugins.sqlite.forking import SqliteForks
from loom.plugins.sqlite.importing import SqliteImport
from loom.plugins.sqlite.leasing import SqliteLeases
from loom.plugins.sqlite.lines import SqliteLines
from loom.plugins.sqlite.location import DEFAULT_PATH, store_location
from loom.plugins.sqlite.models import SqliteModels
from loom.plugins.sqlite.reader import SqliteReader
from loom.plugins.sqlite.refs import SqliteRefs
from loom.plugins.sqlite.schedules import SqliteSchedules
from loom.plugins.sqlite.snapshots import SqliteSnapshots
from loom.plugins.sqlite.trimming import SqliteTrim
from loom.spi.clock import Clock
from loom.spi.event_store import (
    Append,
    Appended,
    AppendResult,
    RequestKind,
    Send,
)
from loom.spi.sessions import refuse_write

CONTENT_SUFFIX: Final = ".content"

P = ParamSpec("P")
T = TypeVar("T")


class SqliteStorage(
    SqliteReader,
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
        super().__init__(
            path,
            readonly=readonly,
            busy_timeout_s=busy_timeout_s,
            checkpoint_bytes=checkpoint_bytes,
            poll_s=poll_s,
            clock=clock,
        )
        file = self._settings.file
        self._contents = FileContent(file.with_name(file.name + CONTENT_SUFFIX), clock=self._settings.clock)

    async def place(self) -> str:
        """Return what tells the file from others, by whatever links it was reached; see `Located`."""
        file = self._settings.file
        with contextlib.suppress(FileNotFoundError):
            found = await asyncio.to_thread(file.stat)
            return f"file:{found.st_dev}:{found.st_ino}"
        return f"file:{file}"

    def content_store(self) -> FileContent:
        """Return where the contents of its runs live: in a folder beside the database, `loom.db.content`."""
        return self._contents

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
