"""The logs of the store in memory, their lanes and leases, and one batch on its way in."""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.clock import Clock
from loom.spi.event_fork import Forked, Source, SourceLacking
from loom.spi.event_store import (
    NOBODY,
    Append,
    Appended,
    AppendResult,
    Conflict,
    EventRecord,
    ExecutionRow,
    IndexRow,
    LaneClosed,
    LaneNotEmpty,
    LeaseChange,
    Leased,
    Request,
    RequestTaken,
    Send,
    cancel_key,
)
from loom.spi.memory_due import DueTimes
from loom.spi.read_model_store import ModelRow
from loom.spi.ref_store import RefMove
from loom.spi.snapshot_store import Snapshot, reborn

Inserted: TypeAlias = "int | RequestTaken | LaneClosed | None"


class KeptRow(NamedTuple):
    """A row of a read model, and when the first one was put in its place (ms since the epoch)."""

    row: ModelRow
    since: int


@dataclass(slots=True)
class Log:
    """One life of an execution. *appended* holds the items of the last batch that touched it, *snapshots* are by sequence.

    *length* counts the events there ever were, *events* are those that are still here. Of the requests that are *trimmed* the
    bodies are gone; *keys* has the number of each that has a key.

    *driver* holds it until *leased_until*. *called* is the number of the last request for which its driver was called, *called_at*
    the time of the first such call, None when there was none, *ended_at* that of its end. *noted* belongs to `DueTimes`. Times are ms since the epoch.
    """

    execution_id: ExecutionId
    incarnation: Incarnation
    index: IndexRow
    length: int = 0
    events: list[EventRecord] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    keys: dict[str, int] = field(default_factory=dict)
    consumed: set[int] = field(default_factory=set)
    trimmed: set[int] = field(default_factory=set)
    appended: dict[tuple[str, int], Appended] = field(default_factory=dict)
    driver: str = ""
    leased_until: int = 0
    is_released: bool = False
    called: int = 0
    called_at: int | None = None
    ended_at: int | None = None
    noted: tuple[int, str] | None = None
    source: Source | None = None
    refs: dict[str, list[RefMove]] = field(default_factory=dict)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    models: dict[tuple[str, str], KeptRow] = field(default_factory=dict)
    is_erased: bool = False

    def between(self, start: int, stop: int | None) -> list[EventRecord]:
        """Return the events that are here from sequence *start* up to but not including *stop* (None: the end)."""
        first = bisect_left(self.events, start, key=_sequence)
        return self.events[first : None if stop is None else bisect_left(self.events, stop, key=_sequence)]

    def pending(self, above: int = 0) -> list[Request]:
        return [request for request in self.requests[above:] if request.number not in self.consumed]

    def change_lease(self, lease: LeaseChange, now: int) -> None:
        self.driver, self.is_released = lease.driver, False
        self.leased_until = now + lease.ms if lease.driver else 0
        if not lease.driver:
            self.called, self.called_at = 0, None


def _sequence(event: EventRecord) -> int:
    return event.sequence


class Logs:
    """All logs, by the id of their execution, and which link is the last of each chain."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.by_id: dict[ExecutionId, Log] = {}
        self.due = DueTimes(self.by_id)
        self.names: list[ExecutionId] = []
        self.written: list[tuple[ExecutionId, Incarnation, int, int]] = []
        """What was appended, in order: to which life, from which sequence, and up to but not including which."""
        self._tips: dict[str, Log] = {}
        self._incarnations = itertools.count(1)

    def begin(self, execution_id: ExecutionId, index: IndexRow) -> Log:
        log = Log(execution_id, Incarnation(next(self._incarnations)), index)
        self.by_id[execution_id] = log
        insort(self.names, execution_id)
        if index.link >= self.tip_link(index.chain):
            self._tips[index.chain] = log
        return log

    def forget(self, log: Log) -> None:
        """Take *log* out, with all that is kept by its execution."""
        del self.by_id[log.execution_id]
        self.due.held.pop(log.execution_id, None)
        self.names.pop(bisect_left(self.names, log.execution_id))
        if self._tips.get(log.index.chain) is log:
            del self._tips[log.index.chain]

    def fork(self, source: Source, item: Append, checkpoint: Snapshot | None) -> Forked:
        """Begin a log with a copy of another; see `EventFork.fork`."""
        if taken := self.by_id.get(item.execution_id):
            known = taken.appended.get((item.append_id, item.expected))
            return known or Conflict(taken.length, taken.incarnation)
        origin = self.life(source.execution_id, source.incarnation)
        copied = origin.between(0, source.through + 1) if origin is not None else []
        whole_from = checkpoint.head.sequence + 1 if checkpoint is not None else 0
        if origin is None or len([e for e in copied if e.sequence >= whole_from]) <= source.through - whole_from:
            return SourceLacking()
        log = self.begin(item.execution_id, item.index)
        log.events = [*copied, *item.events]
        log.length = item.expected + len(item.events)
        if checkpoint is not None:
            log.snapshots[checkpoint.head.sequence] = reborn(checkpoint, log.incarnation)
        self.written.append((log.execution_id, log.incarnation, 0, log.length))
        result = Appended(log.incarnation, log.length)
        log.appended, log.source = {(item.append_id, item.expected): result}, source
        self.due.note(log)
        return result

    def row(self, log: Log, now: int) -> ExecutionRow:
        """Return the row of *log* as it is at *now*."""
        lane, key = self.by_id.get(ExecutionId(log.index.chain)), cancel_key(log.index.link)
        asked = lane is not None and key in lane.keys
        held = (log.driver, max(0, log.leased_until - now), log.is_released, asked)
        return ExecutionRow(log.execution_id, log.incarnation, log.length, log.index, *held, log.ended_at)

    def tip_link(self, chain: str) -> int:
        """Return the number of the last link of a chain, 0 when it has none."""
        return self._tips[chain].index.link if chain in self._tips else 0

    def tip(self, chain: str) -> Log | None:
        """Return the log of the last link of a chain."""
        return self._tips.get(chain)

    def life(self, execution_id: ExecutionId, incarnation: Incarnation) -> Log | None:
        log = self.by_id.get(execution_id)
        return log if log and log.incarnation == incarnation else None

    def insert(self, wish: Send, *, incarnation: Incarnation | None, while_open: bool) -> Inserted:
        """Add a request to the lane of a chain; see `RequestLane.insert`. Any life will do when *incarnation* is None."""
        log = self.by_id.get(wish.chain)
        if log is None or log.index.chain != wish.chain or incarnation not in (None, log.incarnation):
            return None
        if wish.key and (taken := log.keys.get(wish.key)):
            return RequestTaken(taken, pending=taken not in log.consumed)
        tip = self._tips[wish.chain]
        if while_open and tip.index.ended:
            return LaneClosed(tip.index.status)
        number = len(log.requests) + 1
        log.requests.append(Request(number, *wish[1:]))
        if wish.key:
            log.keys[wish.key] = number
        self.call(tip, number)
        return number

    def call(self, log: Log, number: int) -> None:
        """Call the driver of an execution, for the request *number*."""
        log.called = number
        log.called_at = self.clock.now_ms() if log.called_at is None else log.called_at
        self.due.note(log)


class Transaction:
    """One batch on its way in: what it has appended where, and whom it has refused."""

    def __init__(self, logs: Logs) -> None:
        self._logs, self._now = logs, logs.clock.now_ms()
        self._appended: dict[ExecutionId, dict[tuple[str, int], Appended]] = {}
        self._refused: set[ExecutionId] = set()

    def apply(self, batch: Sequence[Append]) -> list[AppendResult]:
        return [self._decide(item) for item in batch]

    def _decide(self, item: Append) -> AppendResult:
        log = self._logs.by_id.get(item.execution_id)
        if log and item.execution_id not in self._refused:
            earlier = log.appended.get((item.append_id, item.expected))
            if earlier:
                return self._remember(item, earlier)
        refusal = self._refusal(item)
        if refusal is None:
            return self._write(item)
        self._refused.update(written_to(item))
        return refusal

    def _refusal(self, item: Append) -> Conflict | Leased | LaneNotEmpty | None:
        for each in _with_following(item):
            log = self._logs.by_id.get(each.execution_id)
            if each.execution_id in self._refused or not _fits(log, each):
                return Conflict(log.length, log.incarnation) if log else Conflict(0, None)
            if log and (refusal := self._leased(log, each)):
                return refusal
            if left := self._left_in_lane(log, each):
                return LaneNotEmpty(left)
        return None

    def _leased(self, log: Log, item: Append) -> Leased | None:
        own = (item.lease or NOBODY).driver
        free = not item.takes_over or log.driver in ("", own, item.gone) or log.leased_until <= self._now
        return None if free else Leased(log.driver, log.leased_until - self._now)

    def _left_in_lane(self, log: Log | None, item: Append) -> int:
        """Return how many requests keep the item out."""
        lane = self._lane(log, item)
        if lane is None or item.lane_above is None:
            return 0
        above = [each for each in lane.pending(item.lane_above) if each.number not in item.consumes]
        return len([each for each in above if not item.lane_kinds or each.kind in item.lane_kinds])

    def _lane(self, log: Log | None, item: Append) -> Log | None:
        return log if item.lane is None else self._logs.life(*item.lane)

    def _write(self, item: Append) -> Appended:
        log = self._logs.by_id.get(item.execution_id) or self._logs.begin(item.execution_id, item.index)
        log.events.extend(item.events)
        self._logs.written.append((log.execution_id, log.incarnation, log.length, log.length + len(item.events)))
        log.length += len(item.events)
        log.index = item.index
        if log.index.ended != (log.ended_at is not None):
            log.ended_at = log.index.updated_at if log.index.ended else None
        if lane := self._lane(log, item):
            lane.consumed.update(item.consumes)
        if item.lease is not None:
            log.change_lease(item.lease, self._now)
        self._logs.due.note(log)
        result = self._remember(item, Appended(log.incarnation, log.length))
        log.appended = self._appended[item.execution_id]
        if item.follows is not None:
            self._write(item.follows)
        for send in item.sends:
            self._logs.insert(send, incarnation=None, while_open=True)
        return result

    def _remember(self, item: Append, result: Appended) -> Appended:
        self._appended.setdefault(item.execution_id, {})[item.append_id, item.expected] = result
        return result


def _with_following(item: Append) -> list[Append]:
    return [item] if item.follows is None else [item, *_with_following(item.follows)]


def written_to(item: Append) -> list[ExecutionId]:
    """Return the executions whose logs *item* may have made longer."""
    return [each.execution_id for each in _with_following(item)]


def _fits(log: Log | None, item: Append) -> bool:
    if log is None:
        return item.expected == 0 and item.incarnation is None
    return item.expected == log.length and item.incarnation == log.incarnation
