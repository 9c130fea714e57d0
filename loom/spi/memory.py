"""A store in memory: for tests, trials and one process. It keeps every promise of `Storage` but the disk's.

No method awaits anything, so each is atomic to the tasks of its loop; and nothing kept is bound to a loop.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.event_store import (
    Append,
    Appended,
    AppendResult,
    Conflict,
    EventRecord,
    ExecutionQuery,
    ExecutionRow,
    Head,
    IndexRow,
    LaneNotEmpty,
    Request,
    RequestKind,
    RequestTaken,
)
from loom.spi.feed import Wakes, follow
from loom.spi.schedule_memory import MemorySchedules


@dataclass(slots=True)
class _Log:
    """One life of an execution. *appended* holds the items of the last batch that touched it."""

    incarnation: Incarnation
    index: IndexRow
    events: list[EventRecord] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    consumed: set[int] = field(default_factory=set)
    appended: dict[tuple[str, int], Appended] = field(default_factory=dict)

    def pending(self) -> list[Request]:
        return [request for request in self.requests if request.number not in self.consumed]


class MemoryStorage(MemorySchedules):
    """A `Storage` that forgets everything with the object; it is a `ScheduleStore`, too. Closing it keeps what it holds."""

    def __init__(self) -> None:
        super().__init__()
        self._logs: dict[ExecutionId, _Log] = {}
        self._incarnations = itertools.count(1)
        self._wakes = Wakes()

    @property
    def url(self) -> str:
        """The name of the store in messages."""
        return "memory:"

    async def open(self) -> None:
        """Do nothing: the store is there once it is made."""

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Apply each item whole or not at all; see `EventStore.append`."""
        transaction = _Transaction(self._logs, self._incarnations)
        results = [transaction.apply(item) for item in batch]
        self._wakes.wake({item.execution_id for item in batch})
        return results

    async def read(
        self, execution_id: ExecutionId, *, start: int = 0, stop: int | None = None, limit_bytes: int = 4 << 20
    ) -> Sequence[EventRecord]:
        """Return a page of events; see `EventStore.read`."""
        log = self._logs.get(execution_id)
        return list(_page(log.events[start:stop], limit_bytes)) if log else []

    async def head(self, execution_id: ExecutionId) -> Head | None:
        """Return where the log stands, None when there is no such execution."""
        log = self._logs.get(execution_id)
        return Head(execution_id, log.incarnation, len(log.events)) if log else None

    async def ids(self, *, after: str = "", prefix: str = "", limit: int = 1000) -> Sequence[ExecutionId]:
        """Return execution ids by code point order; see `EventStore.ids`."""
        return sorted(key for key in self._logs if key > after and key.startswith(prefix))[:limit]

    async def insert(
        self,
        execution_id: ExecutionId,
        incarnation: Incarnation,
        *,
        kind: RequestKind,
        key: str,
        at: int,
        body: bytes,
    ) -> int | RequestTaken | None:
        """Add a request to the lane; see `RequestLane.insert`."""
        log = self._life(execution_id, incarnation)
        if log is None:
            return None
        for request in log.requests:
            if key and request.key == key:
                return RequestTaken(request.number, pending=request.number not in log.consumed)
        number = len(log.requests) + 1
        log.requests.append(Request(number, kind, key, at, body))
        return number

    async def pending(self, execution_id: ExecutionId, incarnation: Incarnation) -> Sequence[Request]:
        """Return the requests that no append has consumed, in order."""
        log = self._life(execution_id, incarnation)
        return log.pending() if log else []

    async def find(self, query: ExecutionQuery) -> Sequence[ExecutionRow]:
        """Return the matching rows, newest first; see `ExecutionIndex.find`."""
        rows = [row for row in map(_row, self._logs, self._logs.values()) if _matches(row, query)]
        return sorted(rows, key=_age, reverse=True)[: query.limit]

    async def row(self, execution_id: ExecutionId) -> ExecutionRow | None:
        """Return the index row of one execution, None when there is no such execution."""
        log = self._logs.get(execution_id)
        return _row(execution_id, log) if log else None

    def subscribe(self, execution_id: ExecutionId, *, start: int = 0) -> AsyncIterator[EventRecord]:
        """Yield the events from *start* on, for ever; see `EventFeed.subscribe`."""

        async def read(sequence: int) -> Sequence[EventRecord]:
            return await self.read(execution_id, start=sequence)

        return follow(read, self._wakes, execution_id, start=start)

    def _life(self, execution_id: ExecutionId, incarnation: Incarnation) -> _Log | None:
        log = self._logs.get(execution_id)
        return log if log and log.incarnation == incarnation else None


class _Transaction:
    """One batch on its way in: what it has appended where, and whom it has refused."""

    def __init__(self, logs: dict[ExecutionId, _Log], incarnations: Iterator[int]) -> None:
        self._logs, self._incarnations = logs, incarnations
        self._appended: dict[ExecutionId, dict[tuple[str, int], Appended]] = {}
        self._refused: set[ExecutionId] = set()

    def apply(self, item: Append) -> AppendResult:
        result = self._decide(item)
        if not isinstance(result, Appended):
            self._refused.add(item.execution_id)
        return result

    def _decide(self, item: Append) -> AppendResult:
        log = self._logs.get(item.execution_id)
        if item.execution_id in self._refused:
            return _conflict(log)
        if log and (earlier := log.appended.get((item.append_id, item.expected))):
            return self._remember(item, earlier)
        if not _fits(log, item):
            return _conflict(log)
        if log and item.lane_empty and (left := {r.number for r in log.pending()} - set(item.consumes)):
            return LaneNotEmpty(len(left))
        return self._write(log or self._begin(item), item)

    def _begin(self, item: Append) -> _Log:
        log = _Log(Incarnation(next(self._incarnations)), item.index)
        self._logs[item.execution_id] = log
        return log

    def _write(self, log: _Log, item: Append) -> Appended:
        log.events.extend(item.events)
        log.index = item.index
        log.consumed.update(item.consumes)
        result = self._remember(item, Appended(log.incarnation, len(log.events)))
        log.appended = self._appended[item.execution_id]
        return result

    def _remember(self, item: Append, result: Appended) -> Appended:
        self._appended.setdefault(item.execution_id, {})[item.append_id, item.expected] = result
        return result


def _fits(log: _Log | None, item: Append) -> bool:
    if log is None:
        return item.expected == 0 and item.incarnation is None
    return item.expected == len(log.events) and item.incarnation == log.incarnation


def _conflict(log: _Log | None) -> Conflict:
    return Conflict(len(log.events), log.incarnation) if log else Conflict(0, None)


def _page(events: Sequence[EventRecord], limit_bytes: int) -> Iterator[EventRecord]:
    size = 0
    for event in events:
        yield event
        size += len(event.payload)
        if size > limit_bytes:
            return


def _row(execution_id: ExecutionId, log: _Log) -> ExecutionRow:
    return ExecutionRow(execution_id, log.incarnation, len(log.events), log.index)


def _age(row: ExecutionRow) -> tuple[int, str]:
    return row.index.started_at, row.execution_id


def _matches(row: ExecutionRow, query: ExecutionQuery) -> bool:
    index = row.index
    return (
        (not query.statuses or index.status in query.statuses)
        and (not query.flows or index.flow in query.flows)
        and (not query.with_gates or index.gates != "[]")
        and (query.due_before is None or (index.wake_at is not None and index.wake_at < query.due_before))
        and (query.before is None or _age(row) < query.before)
    )
