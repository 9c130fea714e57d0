"""The record of schedules in Postgres: the part of `PostgresStorage` that is a `ScheduleStore`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from loom.core.ids import ExecutionId
from loom.plugins.postgres.session import Raw
from loom.spi.schedule_store import ENTRIES_MAX, ScheduleCursor, ScheduleEntry, known_schedule
from loom.spi.schedule_tables import entry_columns, schedule_entry

T = TypeVar("T")

_CURSOR: Final = "SELECT at, latest FROM loom.schedules WHERE id = $1"
# One statement: the entries are added exactly where the cursor has moved. What it removes it sees without those it adds.
_ADD: Final = f"""
    , added AS (
        INSERT INTO loom.schedule_entries (schedule, tick_at, until_at, count, at, execution_id, reason)
        SELECT $1, e.* FROM moved, unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::text[]) AS e
    ), pruned AS (
        DELETE FROM loom.schedule_entries USING moved WHERE schedule = $1 AND tick_at <= (
            SELECT tick_at FROM loom.schedule_entries
            WHERE schedule = $1 ORDER BY tick_at DESC LIMIT 1 OFFSET {ENTRIES_MAX} - cardinality($4::bigint[]))
    )
    SELECT count(*) FROM moved
"""  # noqa: S608  # our own text, here and below
_BEGIN: Final = f"""
    WITH moved AS (
        INSERT INTO loom.schedules (id, at, latest) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING RETURNING id
    ) {_ADD}
"""  # noqa: S608
_MOVE: Final = f"""
    WITH moved AS (
        UPDATE loom.schedules SET at = $2, latest = $3
        WHERE id = $1 AND at = $10 AND latest IS NOT DISTINCT FROM $11 RETURNING id
    ) {_ADD}
"""  # noqa: S608
_ENTRIES: Final = """
    SELECT tick_at, until_at, count, at, execution_id, reason FROM loom.schedule_entries
    WHERE schedule = $1 AND ($2::bigint IS NULL OR tick_at < $2) ORDER BY tick_at DESC LIMIT $3
"""


class PostgresSchedules(ABC):
    """Keeps the record; how a statement gets to the database is the storage's business."""

    @abstractmethod
    async def _read(self, work: Callable[[Raw], Awaitable[T]]) -> T: ...

    @abstractmethod
    async def _change(self, work: Callable[[Raw], Awaitable[T]], *, repeatable: bool = True) -> T: ...

    async def schedule_cursor(self, schedule_id: str) -> ScheduleCursor | None:
        """Return how far a schedule is handled, None when it was never seen."""
        known = known_schedule(schedule_id)
        row = await self._read(lambda raw: raw.fetchrow(_CURSOR, known))
        return None if row is None else ScheduleCursor(row[0], None if row[1] is None else ExecutionId(row[1]))

    async def record_ticks(
        self,
        schedule_id: str,
        expected: ScheduleCursor | None,
        cursor: ScheduleCursor,
        *,
        entries: Sequence[ScheduleEntry],
    ) -> bool:
        """Move the cursor and add *entries*; see `ScheduleStore.record_ticks`."""
        rows = [entry_columns(entry) for entry in entries[-ENTRIES_MAX:]]
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(6)]
        statement, place = (_BEGIN, ()) if expected is None else (_MOVE, expected)
        given = (known_schedule(schedule_id), *cursor, *columns, *place)
        return bool(await self._change(lambda raw: raw.fetchval(statement, *given), repeatable=False))

    async def schedule_entries(
        self, schedule_id: str, *, limit: int = 100, before: int | None = None
    ) -> Sequence[ScheduleEntry]:
        """Return entries, the newest first; see `ScheduleStore.schedule_entries`."""
        known = known_schedule(schedule_id)
        rows = await self._read(lambda raw: raw.fetch(_ENTRIES, known, before, limit))
        return [schedule_entry(row) for row in rows]
