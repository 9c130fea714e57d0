"""The logs that were looked at last, folded as far as the store has them: each is read once, and then only what is new of it.

A log of 100,000 events is held with one state in 64 (see `Moments`), so moving over it costs neither a read nor a fold of the whole.
What is kept is bounded by the events of all runs together; the run that was asked for last is always kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from loom.core.collecting import collected_later
from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId, Incarnation
from loom.driving.errors import ExecutionNotFound
from loom.driving.run_reader import RunReader
from loom.driving.stored_log import log_of
from loom.kernel.codec import decode_events
from loom.lenses.moments import Moments
from loom.lenses.timeline import Timeline

Event = EventEnvelope[Any]

EVENTS_MAX: Final = 250_000
"""So many events of all runs together are kept in memory."""
RUNS_MAX: Final = 16
_AT_ONCE: Final = 1_000


class KeptRun:
    """One log with the state after each of its events, and its timeline."""

    def __init__(self, run_id: ExecutionId) -> None:
        self.run_id = run_id
        self.moments, self.timeline = Moments(run_id), Timeline()
        self._incarnation: Incarnation | None = None
        self._lock = asyncio.Lock()

    async def refresh(self, store: RunReader) -> None:
        """Take what the store has of the log beyond what is known.

        Raises:
            ExecutionNotFound: there is no such execution any more.
            LogCorrupt, SnapshotUnusable: the log cannot be read.
        """
        async with self._lock:
            head = await store.head(self.run_id)
            if head is None:
                raise ExecutionNotFound(execution_id=self.run_id, store=store.url)
            if head.incarnation != self._incarnation or not await self._is_gone_on_with(store, head.length):
                await self._read_anew(store)
                self._incarnation = head.incarnation

    async def _is_gone_on_with(self, store: RunReader, length: int) -> bool:
        """Take the events up to *length* one page after the other; return False where they do not follow those known."""
        last = self.moments.last
        if last >= length:
            return False
        while last + 1 < length:
            page = decode_events(self.run_id, await store.read(self.run_id, start=last + 1, stop=length))
            if not page or page[0].sequence != last + 1:
                return False
            await self._add(page)
            last = self.moments.last
        return True

    async def _read_anew(self, store: RunReader) -> None:
        log = await log_of(store, self.run_id)
        if not log.events:
            raise ExecutionNotFound(execution_id=self.run_id, store=store.url)
        self.moments, self.timeline = Moments(self.run_id, base=log.base), Timeline()
        await self._add(log.events)

    async def _add(self, events: Sequence[Event]) -> None:
        for at in range(0, len(events), _AT_ONCE):
            with collected_later():
                self.moments.add(events[at : at + _AT_ONCE])
                self.timeline.add(events[at : at + _AT_ONCE])
            await asyncio.sleep(0)  # others are answered meanwhile


class KeptRuns:
    """The runs that were asked for last."""

    def __init__(self, store: RunReader, *, events_max: int = EVENTS_MAX, runs_max: int = RUNS_MAX) -> None:
        self._store, self._events_max, self._runs_max = store, events_max, runs_max
        self._runs: dict[ExecutionId, KeptRun] = {}

    async def get(self, run_id: ExecutionId) -> KeptRun:
        """Return a run as the store has it now; errors as those of `KeptRun.refresh`."""
        kept = self._runs.pop(run_id, None) or KeptRun(run_id)
        self._runs[run_id] = kept
        try:
            await kept.refresh(self._store)
        except BaseException:
            if self._runs.get(run_id) is kept:
                del self._runs[run_id]
            raise
        self._forget()
        return kept

    @property
    def events(self) -> int:
        """How many events are kept."""
        return sum(len(kept.moments.events) for kept in self._runs.values())

    def _forget(self) -> None:
        while len(self._runs) > 1 and (self.events > self._events_max or len(self._runs) > self._runs_max):
            del self._runs[next(iter(self._runs))]
