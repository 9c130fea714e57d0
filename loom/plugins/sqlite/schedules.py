"""The record of schedules in SQLite: the part of `SqliteStorage` that is a `ScheduleStore`."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Concatenate, Final, ParamSpec, TypeVar

from loom.spi.schedule_store import ENTRIES_MAX, ScheduleCursor, ScheduleEntry, known_schedule
from loom.spi.schedule_tables import entry_columns, schedule_entry
from loom.spi.tables import SEQUENCE_END

P = ParamSpec("P")
T = TypeVar("T")

_CURSOR: Final = "SELECT at, latest FROM schedules WHERE id = ?"
_BEGIN: Final = "INSERT OR IGNORE INTO schedules (id, at, latest) VALUES (?, ?, ?)"
_MOVE: Final = "UPDATE schedules SET at = ?, latest = ? WHERE id = ? AND at = ? AND latest IS ?"
_ADD: Final = """
    INSERT INTO schedule_entries (schedule, tick_at, until_at, count, at, execution_id, reason)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_PRUNE: Final = """
    DELETE FROM schedule_entries WHERE schedule = :schedule AND tick_at <= (
        SELECT tick_at FROM schedule_entries WHERE schedule = :schedule ORDER BY tick_at DESC LIMIT 1 OFFSET :kept)
"""
_ENTRIES: Final = """
    SELECT tick_at, until_at, count, at, execution_id, reason
    FROM schedule_entries
    WHERE schedule = ? AND tick_at < ?
    ORDER BY tick_at DESC LIMIT ?
"""


class SqliteSchedules(ABC):
    """Keeps cursors and entries; how a statement gets to the database is the storage's business."""

    @abstractmethod
    async def _read(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @abstractmethod
    async def _transact(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def schedule_cursor(self, schedule_id: str) -> ScheduleCursor | None:
        """Return how far a schedule is handled, None when it was never seen."""
        return await self._read(_cursor, known_schedule(schedule_id))

    async def record_ticks(
        self,
        schedule_id: str,
        expected: ScheduleCursor | None,
        cursor: ScheduleCursor,
        *,
        entries: Sequence[ScheduleEntry],
    ) -> bool:
        """Move the cursor and add *entries*; see `ScheduleStore.record_ticks`."""
        return await self._transact(_record, known_schedule(schedule_id), expected, cursor, entries=entries)

    async def schedule_entries(
        self, schedule_id: str, *, limit: int = 100, before: int | None = None
    ) -> Sequence[ScheduleEntry]:
        """Return entries, the newest first; see `ScheduleStore.schedule_entries`."""
        wanted = (known_schedule(schedule_id), limit, SEQUENCE_END if before is None else before)
        return await self._read(_entries, *wanted)


def _cursor(raw: sqlite3.Connection, schedule_id: str) -> ScheduleCursor | None:
    row = raw.execute(_CURSOR, (schedule_id,)).fetchone()
    return ScheduleCursor._make(row) if row else None


def _record(
    raw: sqlite3.Connection,
    schedule_id: str,
    expected: ScheduleCursor | None,
    cursor: ScheduleCursor,
    *,
    entries: Sequence[ScheduleEntry],
) -> bool:
    """Move the cursor if it stands where it should, and then add the entries: the inside of a transaction."""
    if expected is None:
        moved = raw.execute(_BEGIN, (schedule_id, *cursor))
    else:
        moved = raw.execute(_MOVE, (*cursor, schedule_id, *expected))
    if moved.rowcount != 1:
        return False
    raw.executemany(_ADD, [(schedule_id, *entry_columns(entry)) for entry in entries])
    raw.execute(_PRUNE, {"schedule": schedule_id, "kept": ENTRIES_MAX})
    return True


def _entries(raw: sqlite3.Connection, schedule_id: str, limit: int, before: int) -> list[ScheduleEntry]:
    return [schedule_entry(found) for found in raw.execute(_ENTRIES, (schedule_id, before, limit))]
