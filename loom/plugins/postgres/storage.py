"""A store in a Postgres database, shared by any number of machines.

Nothing is opened before first use. What is opened belongs to the event loop it was opened in: the end of the loop closes it,
and the next loop opens anew.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.postgres import reading
from loom.plugins.postgres.archive import PostgresArchive
from loom.plugins.postgres.changes import PostgresChanges
from loom.plugins.postgres.compaction import PostgresCompaction
from loom.plugins.postgres.compression import SnapshotCompression, checked_compression
from loom.plugins.postgres.contents import PostgresContent
from loom.plugins.postgres.dsn import address
from loom.plugins.postgres.forking import PostgresForks
from loom.plugins.postgres.hearing import CHANNEL
from loom.plugins.postgres.importing import PostgresImport
from loom.plugins.postgres.leasing import PostgresLeases
from loom.plugins.postgres.lines import PostgresLines
from loom.plugins.postgres.models import PostgresModels
from loom.plugins.postgres.refs import PostgresRefs
from loom.plugins.postgres.schedules import PostgresSchedules
from loom.plugins.postgres.session import PostgresSession, Raw
from loom.plugins.postgres.settings import PostgresSettings
from loom.plugins.postgres.snapshots import PostgresSnapshots
from loom.plugins.postgres.trimming import PostgresTrim
from loom.plugins.postgres.writing import APPEND, INSERT, Batch, inserted, key_bytes
from loom.spi.clock import Clock
from loom.spi.event_store import (
    Append,
    Appended,
    AppendResult,
    EventRecord,
    ExecutionQuery,
    ExecutionRow,
    Head,
    LaneClosed,
    LanePlace,
    Request,
    RequestKind,
    RequestTaken,
)
from loom.spi.feed import Wakes, follow
from loom.spi.sessions import Sessions, refuse_write

T = TypeVar("T")


# No two servers were started at the same microsecond and have a database of the same number.
_PLACE: Final = """
    SELECT 'postgres:' || extract(epoch FROM pg_postmaster_start_time()) || ':' || oid
    FROM pg_database WHERE datname = current_database()
"""


class PostgresStorage(
    PostgresLeases,
    PostgresSchedules,
    PostgresLines,
    PostgresSnapshots,
    PostgresTrim,
    PostgresCompaction,
    PostgresArchive,
    PostgresForks,
    PostgresImport,
    PostgresRefs,
    PostgresChanges,
    PostgresModels,
):
    """A `Storage` in the schema `loom` of a Postgres database.

    It is a `ScheduleStore`, an `AdmissionStore`, a `SnapshotStore`, a `ReadModelStore`, an `EventTrim` and a `ChangeFeed`, too, and may be opened as an
    `ArchiveStore`.
    The schema is made by the first write; with *readonly* nothing is made or changed. A batch is written in one round
    trip, on one of up to *connections* connections; an answer is waited for up to *timeout_s* seconds. A feed looks for what
    others appended every *poll_s* seconds; with *notify*, and without a pooler, Postgres tells it sooner. `pooler=transaction`
    in the *dsn* says that connections go through a transaction pooler. The store's clock is the server's, unless a *clock* is
    given. With *snapshot_compression* the server compresses snapshots so, where it can.

    Raises (every method):
        StoreUnavailable: unreachable, full, read-only, or the user may not; nothing was written in part.
        StoreCorrupt: damaged.
        StoreNewer: written by a newer Loom.
        StoreNotFound: with *readonly*, there is nothing to read.
    """

    spi_version: Final = "1.0.0"

    def __init__(
        self,
        dsn: str,
        *,
        readonly: bool = False,
        connections: int = 10,
        timeout_s: float = 30.0,
        poll_s: float = 0.05,
        notify: bool = True,
        clock: Clock | None = None,
        snapshot_compression: SnapshotCompression | None = None,
    ) -> None:
        if connections < 1:
            raise InvalidDeclaration(f"connections is {connections}: a store needs one at least")
        self._settings = PostgresSettings(
            address=address(dsn),
            readonly=readonly,
            connections=connections,
            timeout_s=timeout_s,
            clock=clock,
            snapshot_compression=checked_compression(snapshot_compression),
        )
        self._dsn, self._poll_s = dsn, poll_s
        self._channel = CHANNEL if notify and not self._settings.address.pooler else None
        self._wakes = Wakes()
        self._sessions = Sessions(partial(PostgresSession, self._settings, self._wakes))
        self._contents = PostgresContent(dsn, timeout_s=timeout_s, clock=clock)

    def content_store(self) -> PostgresContent:
        """Return where the contents of its runs live: in the same database."""
        return self._contents

    @property
    def url(self) -> str:
        """The name of the store in messages, with no secret in it."""
        return self._settings.url

    async def place(self) -> str:
        """Return what tells the database from others, by whatever address it was reached; see `Located`."""
        return str(await self._read(lambda raw: raw.fetchval(_PLACE)))

    def reader(self) -> PostgresStorage:
        """Return the same store, to read only."""
        return PostgresStorage(
            self._dsn,
            readonly=True,
            connections=self._settings.connections,
            timeout_s=self._settings.timeout_s,
            poll_s=self._poll_s,
            notify=self._channel is not None,
            clock=self._settings.clock,
        )

    async def open(self) -> None:
        """Connect now rather than at first use; make or migrate the schema unless the store is read-only."""
        await self._sessions.current().open()

    async def close(self) -> None:
        """Release every connection and end the feeds; the store may be used again."""
        await self._sessions.close()
        self._wakes.wake_all()

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Apply each item whole or not at all, in one round trip; see `EventStore.append`."""
        if not batch:
            return []

        asked = Batch(batch)

        async def work(raw: Raw) -> list[AppendResult]:
            [found] = await raw.fetch(APPEND, *asked.arguments(self._settings.now_ms, self._channel))
            return asked.results(*found)

        results = await self._change(work)
        done = [item for item, result in zip(batch, results, strict=True) if isinstance(result, Appended)]
        self._wakes.wake({item.execution_id for item in done} | {i.follows.execution_id for i in done if i.follows})
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
    ) -> int | RequestTaken | LaneClosed | None:
        """Add a request to the lane; see `RequestLane.insert`."""
        token, tries = uuid.uuid4().bytes, 0

        async def work(raw: Raw) -> str | None:
            nonlocal tries
            tries += 1
            request = (execution_id, incarnation, kind, key_bytes(key), at, body, while_open)
            found: str | None = await raw.fetchval(INSERT, *request, token, tries > 1, self._settings.now_ms)
            return found

        return inserted(await self._change(work))

    async def read(
        self, execution_id: ExecutionId, *, start: int = 0, stop: int | None = None, limit_bytes: int = 4 << 20
    ) -> Sequence[EventRecord]:
        """Return a page of events; see `EventStore.read`."""
        wanted = partial(reading.events, start=start, stop=stop, limit_bytes=limit_bytes)
        return await self._read(lambda raw: wanted(raw, execution_id))

    async def head(self, execution_id: ExecutionId) -> Head | None:
        """Return where the log stands, None when there is no such execution."""
        return await self._read(lambda raw: reading.head(raw, execution_id))

    async def ids(self, *, after: str = "", prefix: str = "", limit: int = 1000) -> Sequence[ExecutionId]:
        """Return execution ids by code point order; see `EventStore.ids`."""
        return await self._read(lambda raw: reading.ids(raw, after=after, prefix=prefix, limit=limit))

    async def pending(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, above: int = 0
    ) -> Sequence[Request]:
        """Return the requests that no append has consumed, in order; see `RequestLane.pending`."""
        return await self._sessions.current().lanes.get(LanePlace(execution_id, incarnation, above))

    async def have_news(self, places: Sequence[LanePlace]) -> Sequence[bool]:
        """Tell for each place whether a request after it is pending; see `RequestLane.have_news`."""
        return await self._read(lambda raw: reading.news(raw, places)) if places else []

    async def find(self, query: ExecutionQuery) -> Sequence[ExecutionRow]:
        """Return the matching rows, newest first; see `ExecutionIndex.find`."""
        return await self._read(lambda raw: reading.find(raw, query, now=self._settings.now_ms))

    async def row(self, execution_id: ExecutionId) -> ExecutionRow | None:
        """Return the index row of one execution, None when there is no such execution."""
        return await self._sessions.current().rows.get(execution_id)

    def subscribe(self, execution_id: ExecutionId, *, start: int = 0) -> AsyncIterator[EventRecord]:
        """Yield the events from *start* on, for ever; see `EventFeed.subscribe`.

        Raises:
            StoreUnavailable: the store was closed meanwhile.
        """
        session = self._sessions.current()
        self._hear()

        async def read(sequence: int) -> Sequence[EventRecord]:
            page = partial(reading.events, start=sequence, stop=None, limit_bytes=4 << 20)
            return await session.run(lambda raw: page(raw, execution_id))

        return follow(read, self._wakes, execution_id, start=start, poll_s=self._poll_s)

    def _hear(self) -> None:
        if self._channel is not None:
            self._sessions.current().ear.start()

    async def _read(self, work: Callable[[Raw], Awaitable[T]]) -> T:
        return await self._sessions.current().run(work)

    async def _change(self, work: Callable[[Raw], Awaitable[T]], *, repeatable: bool = True) -> T:
        refuse_write(readonly=self._settings.readonly, url=self.url)
        return await self._sessions.current().run(work, repeatable=repeatable)
