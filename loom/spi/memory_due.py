"""When the executions of the store in memory can go on: a heap, so that what is due is found without a look at all others.

An entry is right while its time and flow are those last noted of its log; what has changed since is passed over.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from loom.core.ids import ExecutionId, Incarnation

if TYPE_CHECKING:
    from loom.spi.memory_logs import Log


def ready_at(log: Log) -> int | None:
    """Return since or from when an execution can go on without whoever holds it (ms), None: not by itself."""
    if log.index.ended:
        return None
    if log.driver:
        return log.leased_until
    return min((at for at in (log.index.wake_at, log.called_at) if at is not None), default=None)


class DueTimes:
    """The times of *logs*, longest due first; of one time by flow, then in the order in which they began. And who is *held*."""

    def __init__(self, logs: Mapping[ExecutionId, Log]) -> None:
        self._logs = logs
        self._heap: list[tuple[int, str, Incarnation, ExecutionId]] = []
        self.held: dict[ExecutionId, Log] = {}

    def note(self, log: Log) -> None:
        """*log* may be due at another time than before, or be held by another."""
        if log.driver:
            self.held[log.execution_id] = log
        else:
            self.held.pop(log.execution_id, None)
        at = ready_at(log)
        noted = None if at is None else (at, log.index.flow)
        if noted != log.noted:
            log.noted = noted
            if noted is not None:
                heapq.heappush(self._heap, (*noted, log.incarnation, log.execution_id))

    def take(self, now: int) -> Iterator[Log]:
        """Yield what is due at *now* (ms). Each has to be noted again, once it is claimed or left."""
        while (log := self._first()) is not None and self._heap[0][0] <= now:
            heapq.heappop(self._heap)
            log.noted = None
            yield log

    def next_after(self, now: int) -> int | None:
        """Return the first time after *now* at which something is due (ms), None when nothing is."""
        passed = list(self.take(now))
        at = self._heap[0][0] if self._heap else None
        for log in passed:
            self.note(log)
        return at

    def _first(self) -> Log | None:
        while self._heap:
            *noted, incarnation, execution_id = self._heap[0]
            log = self._logs.get(execution_id)
            if log is not None and (log.incarnation, log.noted) == (incarnation, tuple(noted)):
                return log
            heapq.heappop(self._heap)
        return None
