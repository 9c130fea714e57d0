"""Removing parts of logs and lanes from Postgres: what `PostgresStorage` does of `EventTrim` beside deleting whole logs.

Of a request that is trimmed the row stays for its key, and the last of a lane for its number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from loom.plugins.postgres.session import Raw
from loom.plugins.postgres.snapshots import put
from loom.plugins.postgres.writing import key_text
from loom.spi.event_store import Lane, Request
from loom.spi.snapshot_store import Snapshot

T = TypeVar("T")

# Of two that trim one log, one waits; who appends to it does not.
_ALONE: Final = "SELECT pg_advisory_xact_lock(hashtextextended('loom trim ' || $1::bigint, 0))"
_MAY: Final = """
    SELECT true FROM loom.executions
    WHERE run = $1 AND id = $2 AND length > $3
      AND NOT EXISTS (SELECT FROM loom.snapshots WHERE run = $1 AND sequence >= $3 AND is_checkpoint)
"""
# What stays of that which was appended together is a change still: see changes.py.
_NUMBER: Final = """
    UPDATE loom.events AS v SET changed = (
        SELECT changed FROM loom.events
        WHERE run = v.run AND sequence < v.sequence AND changed IS NOT NULL ORDER BY sequence DESC LIMIT 1)
    WHERE run = $1 AND changed IS NULL AND (sequence = $2 + 1 OR (sequence <= $2 AND type = ANY ($3::text[])))
"""
_REMOVE: Final = """
    WITH gone AS (DELETE FROM loom.events WHERE run = $1 AND sequence <= $2 AND type <> ALL ($3::text[]) RETURNING 1)
    SELECT count(*) FROM gone
"""
_EARLIER: Final = "DELETE FROM loom.snapshots WHERE run = $1 AND sequence < $2 AND is_checkpoint"
_LANE: Final = "(SELECT run FROM loom.executions WHERE id = $1 AND run = $2)"
_PAGE_ROWS: Final = 10_000
"""So many rows a page looks at, at most: see reading.py."""

_CONSUMED: Final = f"""
    SELECT number, kind, key, at, body FROM (
        SELECT *, sum(octet_length(body)) OVER (ORDER BY number ROWS UNBOUNDED PRECEDING) - octet_length(body) AS before
        FROM (
            SELECT * FROM loom.requests WHERE run = {_LANE} AND consumed AND NOT trimmed AND number > $3
            ORDER BY number LIMIT {_PAGE_ROWS}
        ) AS next
    ) AS sized
    WHERE before <= $4 ORDER BY number
"""  # noqa: S608  # our own text, here and below
_TRIM: Final = f"""
    WITH gone AS (
        UPDATE loom.requests SET trimmed = true, body = ''
        WHERE run = {_LANE} AND consumed AND NOT trimmed AND number = ANY ($3::bigint[]) RETURNING 1
    )
    SELECT count(*) FROM gone
"""  # noqa: S608
_FORGET: Final = f"""
    DELETE FROM loom.requests AS r
    WHERE r.run = {_LANE} AND r.trimmed AND r.key = '' AND r.number = ANY ($3::bigint[])
      AND r.number < (SELECT max(number) FROM loom.requests AS every WHERE every.run = r.run)
"""  # noqa: S608


class PostgresCompaction(ABC):
    """Trims logs and lanes; how a statement gets to the database is the storage's business."""

    @abstractmethod
    async def _read(self, work: Callable[[Raw], Awaitable[T]]) -> T: ...

    @abstractmethod
    async def _change(self, work: Callable[[Raw], Awaitable[T]], *, repeatable: bool = True) -> T: ...

    async def trim(self, checkpoint: Snapshot, *, keeping: Sequence[str]) -> int | None:
        """Remove the first part of a log and keep a checkpoint for it; see `EventTrim.trim`."""
        head = checkpoint.head

        async def work(raw: Raw) -> int | None:
            async with raw.transaction():
                await raw.execute(_ALONE, head.incarnation)
                if not await raw.fetchval(_MAY, head.incarnation, head.execution_id, head.sequence):
                    return None
                await raw.execute(_NUMBER, head.incarnation, head.sequence, list(keeping))
                removed: int = await raw.fetchval(_REMOVE, head.incarnation, head.sequence, list(keeping))
                await raw.execute(_EARLIER, head.incarnation, head.sequence)
                return removed if await put(raw, checkpoint) else None

        return await self._change(work)

    async def consumed(self, lane: Lane, *, after: int = 0, limit_bytes: int = 4 << 20) -> Sequence[Request]:
        """Return consumed requests that are whole; see `EventTrim.consumed`."""
        rows = await self._read(lambda raw: raw.fetch(_CONSUMED, *lane, after, limit_bytes))
        return [Request(number, kind, key_text(key), at, body) for number, kind, key, at, body in rows]

    async def trim_lane(self, lane: Lane, numbers: Sequence[int]) -> int:
        """Remove consumed requests but for their numbers and keys; see `EventTrim.trim_lane`."""

        async def work(raw: Raw) -> int:
            async with raw.transaction():
                trimmed: int = await raw.fetchval(_TRIM, *lane, list(numbers))
                await raw.execute(_FORGET, *lane, list(numbers))
                return trimmed

        return await self._change(work)
