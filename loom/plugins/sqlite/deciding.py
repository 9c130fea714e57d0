"""What a transaction changes, decided from where its logs and lanes stand. No SQL here: the shell is writing.py.

A transaction holds any number of writes, each an append of a batch or an insert into a lane. They are decided one
after the other, as if each were alone: what one changes, the next one sees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.event_store import (
    Append,
    Appended,
    AppendResult,
    Conflict,
    IndexRow,
    LaneNotEmpty,
    RequestKind,
    RequestTaken,
)


class Insert(NamedTuple):
    """A request on its way into a lane; see `RequestLane.insert`."""

    execution_id: ExecutionId
    incarnation: Incarnation
    kind: RequestKind
    key: str
    at: int
    body: bytes


Batch: TypeAlias = Sequence[Append]
Write: TypeAlias = Batch | Insert

Inserted: TypeAlias = int | RequestTaken | None
WriteResult: TypeAlias = list[AppendResult] | Inserted

EventRow: TypeAlias = "tuple[Incarnation, int, str, int, bytes, bytes]"
"""An event with the incarnation of its log before it."""

RequestRow: TypeAlias = "tuple[Incarnation, int, RequestKind, str, int, bytes]"
"""A request with the incarnation of its log before it."""

AppendedAs: TypeAlias = dict[tuple[str, int], int]
"""What the last append that touched a log wrote there: append id and expected length, to the length afterwards."""

Sorted: TypeAlias = tuple[str, str, int, int | None]
"""What listings are sorted and searched by: flow, status, started_at, wake_at."""


@dataclass(slots=True, kw_only=True)
class Stand:
    """Where a log and its lane stand; *was* is what its row is sorted by on disk, None when it has no row yet.

    *pending* has all the pending requests of a log that is about to be parked. For a lane that is about to grow, *last*
    is the greatest number in it, and *keys* has the numbers of the keys in question (those pending are in *pending*).
    *index* is the index row to write, None when the log has not been touched.
    """

    incarnation: Incarnation
    length: int = 0
    was: Sorted | None = None
    appended: AppendedAs = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)
    last: int = 0
    keys: dict[str, int] = field(default_factory=dict)
    index: IndexRow | None = None


class Decisions:
    """One transaction: what its writes come to, and the rows that have to be written for it."""

    def __init__(self, stands: Mapping[str, Stand], last_incarnation: int) -> None:
        self.stands, self._last = dict(stands), last_incarnation
        self.events: list[EventRow] = []
        self.requests: list[RequestRow] = []
        self.consumed: list[tuple[Incarnation, int]] = []

    def decide(self, write: Write) -> WriteResult:
        """Return the result of one write."""
        return self._insert(write) if isinstance(write, Insert) else _BatchDecision(self).decide(write)

    def _insert(self, wish: Insert) -> Inserted:
        stand = self.stands.get(wish.execution_id)
        if stand is None or stand.incarnation != wish.incarnation:
            return None
        if wish.key and (taken := stand.keys.get(wish.key)):
            return RequestTaken(taken, pending=taken in stand.pending)
        stand.last += 1
        stand.pending.add(stand.last)
        stand.keys[wish.key] = stand.last
        self.requests.append((stand.incarnation, stand.last, *wish[2:]))
        return stand.last

    def begin(self, execution_id: ExecutionId) -> Stand:
        """Return the stand of a new log, with the next incarnation."""
        self._last += 1
        stand = self.stands[execution_id] = Stand(incarnation=Incarnation(self._last))
        return stand


class _BatchDecision:
    """One batch: what it has appended where, and whom it has refused."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._appended: dict[ExecutionId, AppendedAs] = {}
        self._refused: set[ExecutionId] = set()

    def decide(self, batch: Batch) -> list[AppendResult]:
        return [self._decide(item) for item in batch]

    def _decide(self, item: Append) -> AppendResult:
        stand = self._decisions.stands.get(item.execution_id)
        result = self._refusal(stand, item)
        if result is not None:
            self._refused.add(item.execution_id)
            return result
        if stand is None:
            stand = self._decisions.begin(item.execution_id)
        name = (item.append_id, item.expected)
        known = stand.appended.get(name)
        appended = self._appended.setdefault(item.execution_id, {})
        appended[name] = item.expected + len(item.events) if known is None else known
        if known is None:
            self._write(stand, item)
            stand.appended = appended
        return Appended(stand.incarnation, appended[name])

    def _refusal(self, stand: Stand | None, item: Append) -> Conflict | LaneNotEmpty | None:
        """Return why *item* is refused, None when it is written or was written before."""
        refused = item.execution_id in self._refused
        if stand is None:
            return Conflict(0, None) if refused or item.expected or item.incarnation is not None else None
        if not refused and (item.append_id, item.expected) in stand.appended:
            return None
        if refused or (item.expected, item.incarnation) != (stand.length, stand.incarnation):
            return Conflict(stand.length, stand.incarnation)
        left = (
            {number for number in stand.pending.difference(item.consumes) if number > item.lane_above}
            if item.lane_above is not None
            else ()
        )
        return LaneNotEmpty(len(left)) if left else None

    def _write(self, stand: Stand, item: Append) -> None:
        run = stand.incarnation
        self._decisions.events.extend((run, *event) for event in item.events)
        self._decisions.consumed.extend((run, number) for number in item.consumes)
        stand.pending.difference_update(item.consumes)
        stand.length += len(item.events)
        stand.index = item.index
