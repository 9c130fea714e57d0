"""A bundle as a store to read only: whatever reads a store reads it, and whatever writes is refused in words."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.bundle.content import BundleContent
from loom.plugins.bundle.file import BundleFile
from loom.plugins.bundle.refusing import BundleReadOnly
from loom.plugins.bundle.shapes import LogEntry, Part
from loom.plugins.sqlite.location import BUNDLE_SCHEME
from loom.spi.clock import SystemClock
from loom.spi.event_fork import Fork, Forked, Source
from loom.spi.event_store import (
    Append,
    AppendResult,
    Claim,
    EventRecord,
    ExecutionQuery,
    ExecutionRow,
    Head,
    LanePlace,
    Request,
    RequestKind,
)
from loom.spi.feed import Wakes, follow
from loom.spi.listing import listed
from loom.spi.paging import first_page
from loom.spi.ref_store import Family, RefMove
from loom.spi.snapshot_store import Snapshot, SnapshotHead


class _Reading:
    """What is open of a bundle: its logs by id, and the part that was read last."""

    def __init__(self, file: BundleFile) -> None:
        self.file = file
        self.logs = {log.row.execution_id: log for log in file.manifest.logs}
        self._last: tuple[Part, Sequence[EventRecord]] | None = None

    def events(self, log: LogEntry, start: int, stop: int | None, limit_bytes: int) -> list[EventRecord]:
        """Return a page; see `EventStore.read`."""
        for part in log.parts[max(0, bisect_left(log.parts, start + 1, key=_first) - 1) :]:
            if stop is not None and part.first >= stop:
                break
            if self._last is None or self._last[0] is not part:
                self._last = part, self.file.records(log, part)
            wanted = [
                each for each in self._last[1] if each.sequence >= start and (stop is None or each.sequence < stop)
            ]
            if wanted:
                return first_page(wanted, lambda event: len(event.payload), limit_bytes)
        return []


def _first(part: Part) -> int:
    return part.first


class BundleStorage:
    """A `Storage` that is read only, in the one file *path*, with the forks, the checkpoints, the contents and the names in it.

    The file is opened by the first read, and its manifest checked; every part when it is read. It holds no requests: what was asked
    of a run and not yet taken up stayed where it was asked.

    Raises (every method):
        StoreNotFound, StoreCorrupt, StoreNewer: see `BundleFile`.
        BundleReadOnly: it would write.
    """

    spi_version: Final = "1.0.0"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()
        self._open: _Reading | None = None
        self._contents = BundleContent(self.url, lambda: self._reading.file)

    @property
    def url(self) -> str:
        """The name of the store in messages."""
        return f"{BUNDLE_SCHEME}:{self._path}"

    @property
    def file(self) -> BundleFile:
        """The open file."""
        return self._reading.file

    def content_store(self) -> BundleContent:
        """Return the contents that are in the bundle."""
        return self._contents

    async def open(self) -> None:
        """Open the file now rather than at first use."""
        self.file  # noqa: B018  # looking at it opens it

    async def close(self) -> None:
        """Let go of the file; it may be opened again."""
        reading, self._open = self._open, None
        if reading is not None:
            reading.file.close()

    async def read(
        self, execution_id: ExecutionId, *, start: int = 0, stop: int | None = None, limit_bytes: int = 4 << 20
    ) -> Sequence[EventRecord]:
        """Return a page of events; see `EventStore.read`."""
        log = self._reading.logs.get(execution_id)
        return [] if log is None else self._reading.events(log, start, stop, limit_bytes)

    async def head(self, execution_id: ExecutionId) -> Head | None:
        """Return where the log stands, None when there is no such execution."""
        row = await self.row(execution_id)
        return None if row is None else Head(execution_id, row.incarnation, row.length)

    async def ids(self, *, after: str = "", prefix: str = "", limit: int = 1000) -> Sequence[ExecutionId]:
        """Return execution ids by code point order; see `EventStore.ids`."""
        return [id for id in sorted(self._reading.logs) if id > after and id.startswith(prefix)][:limit]

    async def pending(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, above: int = 0
    ) -> Sequence[Request]:
        """Return none: a bundle holds no requests."""
        return []

    async def have_news(self, places: Sequence[LanePlace]) -> Sequence[bool]:
        """Tell of none: a bundle holds no requests."""
        return [False] * len(places)

    async def find(self, query: ExecutionQuery) -> Sequence[ExecutionRow]:
        """Return the matching rows, newest first; see `ExecutionIndex.find`."""
        return listed([log.row for log in self._reading.logs.values()], query)

    async def row(self, execution_id: ExecutionId) -> ExecutionRow | None:
        """Return the index row of one execution, as its store had it; None when there is no such execution."""
        log = self._reading.logs.get(execution_id)
        return None if log is None else log.row

    async def now_ms(self) -> int:
        """Return the time by the clock of this machine."""
        return SystemClock().now_ms()

    async def drivers(self) -> Sequence[str]:
        """Return none: nobody drives what is in a bundle."""
        return []

    def subscribe(self, execution_id: ExecutionId, *, start: int = 0) -> AsyncIterator[EventRecord]:
        """Yield the events from *start* on, and then wait for ever: no more will come."""

        async def read(sequence: int) -> Sequence[EventRecord]:
            return await self.read(execution_id, start=sequence)

        return follow(read, Wakes(), execution_id, start=start)

    # -- what is kept beside the logs --------------------------------------------------------------------------------------

    async def forks_of(self, execution_id: ExecutionId, incarnation: Incarnation) -> Sequence[Fork]:
        """Return the forks of an execution that are in the bundle."""
        of = (execution_id, incarnation)
        logs = [log for log in self._reading.logs.values() if log.source is not None and log.source[:2] == of]
        return [Fork(log.row.execution_id, log.row.incarnation, log.source.through) for log in logs if log.source]

    async def payloads_with(self, source: Source, text: bytes) -> Sequence[bytes]:
        """Return the payloads that hold *text*; see `EventFork.payloads_with`."""
        log = self._life(source.execution_id, source.incarnation)
        pages = self._reading.file.pages(log) if log is not None else ()
        read = (event for page in pages for event in page if event.sequence <= source.through)
        return [event.payload for event in read if text in event.payload]

    async def source_of(self, execution_id: ExecutionId) -> Source | None:
        """Return what an execution is a fork of; None when it is none, or that is not in the bundle."""
        log = self._reading.logs.get(execution_id)
        source = None if log is None else log.source
        return source if source is not None and self._life(*source[:2]) is not None else None

    async def latest_snapshot(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, upto: int | None = None
    ) -> Snapshot | None:
        """Return the checkpoint, where there is one: a bundle has no other snapshots."""
        log = self._life(execution_id, incarnation)
        if log is None or log.checkpoint is None or (upto is not None and log.checkpoint.sequence > upto):
            return None
        return self._reading.file.checkpoint(log)

    async def snapshots(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, limit: int | None = None
    ) -> Sequence[SnapshotHead]:
        """Return the same without its body."""
        found = await self.latest_snapshot(execution_id, incarnation)
        return [] if found is None else [found.head][:limit]

    async def executions_with_snapshots(
        self, *, after: ExecutionId | None = None, limit: int = 1000
    ) -> Sequence[SnapshotHead]:
        """Return the checkpoints of the logs that have one; see `SnapshotStore.executions_with_snapshots`."""
        logs = [log for id, log in sorted(self._reading.logs.items()) if log.checkpoint and id > (after or "")]
        found = [self._reading.file.checkpoint(log) for log in logs[:limit]]
        return [each.head for each in found if each is not None]

    async def refs(self, family: Family) -> Mapping[str, RefMove]:
        """Return the last move of each name; see `RefStore.refs`."""
        log = self._life(*family)
        return {} if log is None else {name: moves[-1] for name, moves in log.names.items()}

    async def ref_moves(self, family: Family, name: str) -> Sequence[RefMove]:
        """Return all moves of a name; see `RefStore.ref_moves`."""
        log = self._life(*family)
        return [] if log is None else log.names.get(name, [])

    # -- what would write --------------------------------------------------------------------------------------------------

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Refuse to."""
        self._refuse()

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
    ) -> int | None:
        """Refuse to."""
        self._refuse()

    async def claim(
        self,
        driver: str,
        *,
        lease_ms: int,
        limit: int,
        flows: Sequence[str] | None = None,
        gone: Sequence[str] = (),
        skip: Sequence[ExecutionId] = (),
        driving: Sequence[ExecutionId] = (),
    ) -> Sequence[Claim]:
        """Refuse to."""
        self._refuse()

    async def renew(self, driver: str, executions: Sequence[ExecutionId], *, lease_ms: int) -> Sequence[ExecutionId]:
        """Refuse to."""
        self._refuse()

    async def leave(self, driver: str, seen: Mapping[ExecutionId, int]) -> None:
        """Refuse to."""
        self._refuse()

    async def release(self, driver: str, executions: Sequence[ExecutionId]) -> None:
        """Refuse to."""
        self._refuse()

    async def fork(self, source: Source, item: Append, *, checkpoint: Snapshot | None = None) -> Forked:
        """Refuse to."""
        self._refuse()

    async def put_snapshot(self, snapshot: Snapshot) -> bool:
        """Refuse to."""
        self._refuse()

    async def delete_snapshots(
        self, execution_id: ExecutionId, incarnation: Incarnation, sequences: Sequence[int]
    ) -> Sequence[int]:
        """Refuse to."""
        self._refuse()

    async def move_ref(self, family: Family, name: str, move: RefMove) -> bool:
        """Refuse to."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise BundleReadOnly(store=self.url)

    def _life(self, execution_id: ExecutionId, incarnation: Incarnation) -> LogEntry | None:
        log = self._reading.logs.get(execution_id)
        return log if log is not None and log.row.incarnation == incarnation else None

    @property
    def _reading(self) -> _Reading:
        if self._open is None:
            self._open = _Reading(BundleFile(self._path, url=self.url))
        return self._open
