"""Taking in whole logs in memory: the part of `MemoryStorage` that is an `EventImport`."""

from __future__ import annotations

from collections.abc import Sequence

from loom.spi.event_fork import Source
from loom.spi.event_import import Arrival, Brought, Taken
from loom.spi.event_store import EventRecord, Head
from loom.spi.feed import Wakes
from loom.spi.memory_logs import Logs
from loom.spi.snapshot_store import reborn


class MemoryImport:
    """Takes in logs that were written elsewhere."""

    _kept: Logs
    _wakes: Wakes

    async def bring(self, arrivals: Sequence[Arrival]) -> Brought:
        """Write all logs that arrive, or none; see `EventImport.bring`."""
        taken = next((each.execution_id for each in arrivals if each.execution_id in self._kept.by_id), None)
        if taken is not None:
            return Taken(taken)
        events = [[record for page in arrival.pages() for record in page] for arrival in arrivals]
        heads = [self._begin(arrival, records) for arrival, records in zip(arrivals, events, strict=True)]
        self._wakes.wake({head.execution_id for head in heads})
        return heads

    def _begin(self, arrival: Arrival, events: list[EventRecord]) -> Head:
        log = self._kept.begin(arrival.execution_id, arrival.index)
        log.events, log.length = events, arrival.length
        log.ended_at = arrival.index.updated_at if arrival.index.ended else None
        if arrival.source is not None:
            origin, through = arrival.source
            log.source = Source(origin, self._kept.by_id[origin].incarnation, through)
        if arrival.checkpoint is not None:
            kept = reborn(arrival.checkpoint, log.incarnation)
            log.snapshots[kept.head.sequence] = kept
        self._kept.written.append((log.execution_id, log.incarnation, 0, log.length))
        self._kept.due.note(log)
        return Head(log.execution_id, log.incarnation, log.length)
