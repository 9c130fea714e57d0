"""Removing parts of what the store in memory keeps: `EventTrim` but for the deleting of whole logs."""

from __future__ import annotations

from collections.abc import Sequence

from loom.spi.event_store import Lane, Request
from loom.spi.memory_logs import Logs
from loom.spi.paging import first_page
from loom.spi.snapshot_store import Snapshot


class MemoryCompaction:
    """Trims logs and lanes."""

    _kept: Logs

    async def trim(self, checkpoint: Snapshot, *, keeping: Sequence[str]) -> int | None:
        """Remove the first part of a log and keep a checkpoint for it; see `EventTrim.trim`."""
        head = checkpoint.head
        log = self._kept.life(head.execution_id, head.incarnation)
        if log is None or head.sequence >= log.length:
            return None
        if any(kept.head.is_checkpoint and at >= head.sequence for at, kept in log.snapshots.items()):
            return None
        before = len(log.events)
        log.events = [event for event in log.events if event.sequence > head.sequence or event.type in keeping]
        log.snapshots = {at: kept for at, kept in log.snapshots.items() if not kept.head.is_checkpoint}
        log.snapshots[head.sequence] = checkpoint
        return before - len(log.events)

    async def consumed(self, lane: Lane, *, after: int = 0, limit_bytes: int = 4 << 20) -> Sequence[Request]:
        """Return consumed requests that are whole; see `EventTrim.consumed`."""
        log = self._kept.life(*lane)
        whole = log.consumed - log.trimmed if log is not None else set[int]()
        wanted = (each for each in (log.requests if log else ()) if each.number in whole and each.number > after)
        return first_page(wanted, lambda request: len(request.body), limit_bytes)

    async def trim_lane(self, lane: Lane, numbers: Sequence[int]) -> int:
        """Remove consumed requests but for their numbers and keys; see `EventTrim.trim_lane`."""
        log = self._kept.life(*lane)
        if log is None:
            return 0
        gone = log.consumed.intersection(numbers) - log.trimmed
        log.requests = [each._replace(body=b"") if each.number in gone else each for each in log.requests]
        log.trimmed |= gone
        return len(gone)
