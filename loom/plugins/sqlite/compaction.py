"""Removing parts of logs and lanes from SQLite: what `SqliteStorage` does of `EventTrim` beside deleting whole logs.

Of a request that is trimmed, `consumed` is 2. Its row stays for its key, and the last of a lane for its number.
"""

from __future__ import annotations

import contextlib
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Concatenate, Final, ParamSpec, TypeVar

import orjson

from loom.plugins.sqlite.changes import noting_cuts
from loom.plugins.sqlite.snapshots import put
from loom.spi.event_store import Lane, Request
from loom.spi.paging import first_page
from loom.spi.snapshot_store import Snapshot

P = ParamSpec("P")
T = TypeVar("T")

_MAY: Final = """
    SELECT 1 FROM executions
    WHERE run = :run AND id = :id AND length > :sequence
      AND NOT EXISTS (SELECT 1 FROM snapshots WHERE run = :run AND sequence >= :sequence AND is_checkpoint)
"""
_REMOVE: Final = """
    DELETE FROM events WHERE run = ? AND sequence <= ? AND type NOT IN (SELECT value FROM json_each(?))
"""
_EARLIER: Final = "DELETE FROM snapshots WHERE run = ? AND sequence < ? AND is_checkpoint"
_LANE: Final = "(SELECT run FROM executions WHERE id = ? AND run = ?)"
_CONSUMED: Final = f"""
    SELECT number, kind, key, at, body FROM requests WHERE run = {_LANE} AND consumed = 1 AND number > ? ORDER BY number
"""  # noqa: S608  # our own text, here and below
_TRIM: Final = f"""
    UPDATE requests SET consumed = 2, body = x''
    WHERE run = {_LANE} AND consumed = 1 AND number IN (SELECT value FROM json_each(?))
"""  # noqa: S608
_FORGET: Final = f"""
    DELETE FROM requests
    WHERE run = {_LANE} AND consumed = 2 AND key = '' AND number IN (SELECT value FROM json_each(?))
      AND number < (SELECT max(number) FROM requests AS every WHERE every.run = requests.run)
"""  # noqa: S608


class SqliteCompaction(ABC):
    """Trims logs and lanes; how a statement gets to the database is the storage's business."""

    @abstractmethod
    async def _read(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @abstractmethod
    async def _transact(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def trim(self, checkpoint: Snapshot, *, keeping: Sequence[str]) -> int | None:
        """Remove the first part of a log and keep a checkpoint for it; see `EventTrim.trim`."""
        return await self._transact(_trim, checkpoint, keeping)

    async def consumed(self, lane: Lane, *, after: int = 0, limit_bytes: int = 4 << 20) -> Sequence[Request]:
        """Return consumed requests that are whole; see `EventTrim.consumed`."""
        return await self._read(_consumed, lane, after, limit_bytes)

    async def trim_lane(self, lane: Lane, numbers: Sequence[int]) -> int:
        """Remove consumed requests but for their numbers and keys; see `EventTrim.trim_lane`."""
        return await self._transact(_trim_lane, lane, numbers)


def _trim(raw: sqlite3.Connection, checkpoint: Snapshot, keeping: Sequence[str]) -> int | None:
    """Look, remove and keep: the inside of a transaction."""
    head = checkpoint.head
    place = {"run": head.incarnation, "id": head.execution_id, "sequence": head.sequence}
    if raw.execute(_MAY, place).fetchone() is None:
        return None
    with noting_cuts(raw):
        removed = raw.execute(_REMOVE, (head.incarnation, head.sequence, orjson.dumps(list(keeping)).decode())).rowcount
    raw.execute(_EARLIER, (head.incarnation, head.sequence))
    put(raw, checkpoint)
    return removed


def _consumed(raw: sqlite3.Connection, lane: Lane, after: int, limit_bytes: int) -> list[Request]:
    with contextlib.closing(raw.execute(_CONSUMED, (*lane, after))) as rows:  # closing it ends the read transaction
        return first_page(map(Request._make, rows), lambda request: len(request.body), limit_bytes)


def _trim_lane(raw: sqlite3.Connection, lane: Lane, numbers: Sequence[int]) -> int:
    given = (*lane, orjson.dumps(list(numbers)).decode())
    trimmed = raw.execute(_TRIM, given).rowcount
    raw.execute(_FORGET, given)
    return trimmed
