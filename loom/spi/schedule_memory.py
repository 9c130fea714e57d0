"""The record of schedules in memory: the part of `MemoryStorage` that is a `ScheduleStore`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from loom.spi.schedule_store import ENTRIES_MAX, ScheduleCursor, ScheduleEntry, known_schedule


@dataclass(slots=True)
class _Record:
    cursor: ScheduleCursor
    entries: list[ScheduleEntry] = field(default_factory=list)


class MemorySchedules:
    """A `ScheduleStore` that forgets everything with the object."""

    def __init__(self) -> None:
        self._schedules: dict[str, _Record] = {}

    async def schedule_cursor(self, schedule_id: str) -> ScheduleCursor | None:
        """Return how far a schedule is handled, None when it was never seen."""
        record = self._schedules.get(known_schedule(schedule_id))
        return record.cursor if record else None

    async def record_ticks(
        self,
        schedule_id: str,
        expected: ScheduleCursor | None,
        cursor: ScheduleCursor,
        *,
        entries: Sequence[ScheduleEntry],
    ) -> bool:
        """Move the cursor and add *entries*; see `ScheduleStore.record_ticks`."""
        record = self._schedules.get(known_schedule(schedule_id))
        if (record.cursor if record else None) != expected:
            return False
        record = record or self._schedules.setdefault(schedule_id, _Record(cursor))
        record.cursor = cursor
        record.entries.extend(entries)
        del record.entries[:-ENTRIES_MAX]
        return True

    async def schedule_entries(
        self, schedule_id: str, *, limit: int = 100, before: int | None = None
    ) -> Sequence[ScheduleEntry]:
        """Return entries, the newest first; see `ScheduleStore.schedule_entries`."""
        record = self._schedules.get(known_schedule(schedule_id))
        newest_first = reversed(record.entries) if record else ()
        return [entry for entry in newest_first if before is None or entry.tick_at < before][:limit]
