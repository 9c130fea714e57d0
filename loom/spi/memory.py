"""A store in memory: for tests, trials and one process. It keeps every promise of `Storage` but the disk's.

No method awaits anything, so each is atomic to the tasks of its loop; and nothing kept is bound to a loop.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import islice, takewhile

from loom.core.ids import ExecutionId, Incarnation
from loom.spi import memory_leases
from loom.spi.archive_memory import MemoryArchive
from loom.spi.clock import Clock, SystemClock
from loom.spi.content_memory import MemoryContent
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
    LeaseChange,
    Request,
    RequestKind,
    Send,
)
from loom.spi.feed import Wakes, follow
from loom.spi.listing import matches, newest
from loom.spi.memory_changes import MemoryChanges
from loom.spi.memory_compaction import MemoryCompaction
from loom.spi.memory_import import MemoryImport
from loom.spi.memory_lines import MemoryLines
from loom.spi.memory_logs import Inserted, Logs, Transaction, written_to
from loom.spi.memory_models import MemoryModels
from loom.spi.memory_trim import MemoryTrim
from loom.spi.paging import first_page
from loom.spi.ref_memory import MemoryRefs
from loom.spi.schedule_memory import MemorySchedules
from loom.spi.snapshot_memory import MemorySnapshots
from loom.spi.snapshot_store import Snapshot
from loom.spi.where import Field


class MemoryStorage(
    MemorySchedules,
    MemoryLines,
    MemorySnapshots,
    MemoryCompaction,
    MemoryTrim,
    MemoryArchive,
    MemoryRefs,
    MemoryImport,
    MemoryChanges,
    MemoryModels,
):
    """A `Storage` that forgets everything with the object.

    It is a `ScheduleStore`, an `AdmissionStore`, a `SnapshotStore`, a `ReadModelStore`, an `EventTrim` and a `ChangeFeed`, too, and may be opened as an
    `ArchiveStore`.
    Closing it keeps what it holds.
    *clock* is the one by which leases and calls are judged.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        MemorySchedules.__init__(self)
        MemoryLines.__init__(self)
        MemoryArchive.__init__(self)
        self._kept = Logs(clock or SystemClock())
        self._contents = MemoryContent(clock=self._kept.clock)
        self._logs = self._kept.by_id
        self._wakes = Wakes()

    @property
    def url(self) -> str:
        """The name of the store in messages."""
        return "memory:"

    async def place(self) -> str:
        """Return what no other store has; see `Located`."""
        return f"memory:{id(self)}"

    def content_store(self) -> MemoryContent:
        """Return where the contents of its runs live: in memory, too."""
        return self._contents

    async def open(self) -> None:
        """Do nothing: the store is there once it is made."""

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Apply each item whole or not at all; see `EventStore.append`."""
        results = Transaction(self._kept).apply(batch)
        self._wakes.wake({name for item in batch for name in written_to(item)})
        return results

    async def fork(self, source: Source, item: Append, *, checkpoint: Snapshot | None = None) -> Forked:
        """Begin the log of *item* with a copy of *source*; see `EventFork.fork`."""
        forked = self._kept.fork(source, item, checkpoint)
        self._wakes.wake({item.execution_id})
        return forked

    async def payloads_with(self, source: Source, text: bytes) -> Sequence[bytes]:
        """Return the payloads that hold *text*; see `EventFork.payloads_with`."""
        log = self._kept.life(source.execution_id, source.incarnation)
        copied = log.between(0, source.through + 1) if log is not None else []
        return [event.payload for event in copied if text in event.payload]

    async def forks_of(self, execution_id: ExecutionId, incarnation: Incarnation) -> Sequence[Fork]:
        """Return the forks of one life of an execution; see `EventFork.forks_of`."""
        logs = [log for log in self._logs.values() if log.source and log.source[:2] == (execution_id, incarnation)]
        return [Fork(log.execution_id, log.incarnation, log.source.through) for log in logs if log.source]

    async def source_of(self, execution_id: ExecutionId) -> Source | None:
        """Return what an execution is a fork of; see `EventFork.source_of`."""
        log = self._logs.get(execution_id)
        source = log.source if log is not None else None
        return source if source is not None and self._kept.life(*source[:2]) is not None else None

    async def read(
        self, execution_id: ExecutionId, *, start: int = 0, stop: int | None = None, limit_bytes: int = 4 << 20
    ) -> Sequence[EventRecord]:
        """Return a page of events; see `EventStore.read`."""
        log = self._logs.get(execution_id)
        return first_page(log.between(start, stop), lambda event: len(event.payload), limit_bytes) if log else []

    async def head(self, execution_id: ExecutionId) -> Head | None:
        """Return where the log stands, None when there is no such execution."""
        log = self._logs.get(execution_id)
        return Head(execution_id, log.incarnation, log.length) if log else None

    async def ids(self, *, after: str = "", prefix: str = "", limit: int = 1000) -> Sequence[ExecutionId]:
        """Return execution ids by code point order; see `EventStore.ids`."""
        names = self._kept.names
        start = max(bisect_right(names, after), bisect_left(names, prefix))
        return list(takewhile(lambda name: name.startswith(prefix), islice(names, start, start + limit)))

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
        wish = Send(execution_id, kind, key, at, body)
        return self._kept.insert(wish, incarnation=incarnation, while_open=while_open)

    async def pending(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, above: int = 0
    ) -> Sequence[Request]:
        """Return the requests that no append has consumed, in order; see `RequestLane.pending`."""
        log = self._kept.life(execution_id, incarnation)
        return log.pending(above) if log else []

    async def have_news(self, places: Sequence[LanePlace]) -> Sequence[bool]:
        """Tell for each place whether a request after it is pending; see `RequestLane.have_news`."""
        logs = [(place, self._kept.life(place.execution_id, place.incarnation)) for place in places]
        return [log is not None and bool(log.pending(place.above)) for place, log in logs]

    async def find(self, query: ExecutionQuery) -> Sequence[ExecutionRow]:
        """Return the matching rows, newest first; see `ExecutionIndex.find`."""
        now, last = self._kept.clock.now_ms(), self._kept.tip_link
        logs = [log for log in self._logs.values() if matches(log.execution_id, log.index, query)]
        if query.tips:
            logs = [log for log in logs if log.index.link == last(log.index.chain)]
        return newest([self._kept.row(log, now) for log in logs], query, self._body)

    def _body(self, row: ExecutionRow, field: Field) -> str:
        log = self._logs.get(row.execution_id)
        kept = log.models.get((field.model, field.version)) if log is not None else None
        return kept.row.body.decode("utf-8", "surrogateescape") or "{}" if kept is not None else "{}"

    async def row(self, execution_id: ExecutionId) -> ExecutionRow | None:
        """Return the index row of one execution, None when there is no such execution."""
        log = self._logs.get(execution_id)
        return self._kept.row(log, self._kept.clock.now_ms()) if log else None

    async def now_ms(self) -> int:
        """Return the time by the store's clock, ms since the epoch."""
        return self._kept.clock.now_ms()

    def next_due_ms(self, *, after: int) -> int | None:
        """Return the first time after *after* at which something can be claimed (ms since the epoch), None: nothing by itself."""
        return self._kept.due.next_after(after)

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
        """Take up what can go on and nobody holds, longest due first; see `LeaseStore.claim`."""
        lease = LeaseChange(driver, lease_ms)
        return memory_leases.claim(self._kept, lease, limit=limit, flows=flows, gone=gone, skip=skip, driving=driving)

    async def renew(self, driver: str, executions: Sequence[ExecutionId], *, lease_ms: int) -> Sequence[ExecutionId]:
        """Hold *executions* for another *lease_ms*; see `LeaseStore.renew`."""
        return memory_leases.renew(self._kept, LeaseChange(driver, lease_ms), executions)

    async def leave(self, driver: str, seen: Mapping[ExecutionId, int]) -> None:
        """Give up parked executions that were claimed and did not move; see `LeaseStore.leave`."""
        memory_leases.leave(self._kept, driver, seen)

    async def release(self, driver: str, executions: Sequence[ExecutionId]) -> None:
        """Let leases lapse; see `LeaseStore.release`."""
        memory_leases.release(self._kept, driver, executions)

    async def drivers(self) -> Sequence[str]:
        """Return the drivers that hold something, in order."""
        return sorted({log.driver for log in self._kept.due.held.values()})

    def subscribe(self, execution_id: ExecutionId, *, start: int = 0) -> AsyncIterator[EventRecord]:
        """Yield the events from *start* on, for ever; see `EventFeed.subscribe`."""

        async def read(sequence: int) -> Sequence[EventRecord]:
            return await self.read(execution_id, start=sequence)

        return follow(read, self._wakes, execution_id, start=start)
