"""Snapshots in SQLite: the part of `SqliteStorage` that is a `SnapshotStore`."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import orjson

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.snapshot_store import Snapshot, SnapshotHead
from loom.spi.snapshot_tables import snapshot_head
from loom.spi.tables import SEQUENCE_END

P = ParamSpec("P")
T = TypeVar("T")

COLUMNS: Final = (
    "s.sequence, s.fold_version, s.state_codec_version, s.codec, s.is_checkpoint, s.at, length(s.body), s.digest"
)
# No snapshot is ahead of its log; and a checkpoint gives its place to another checkpoint only.
PUT: Final = """
    INSERT INTO snapshots (run, sequence, fold_version, state_codec_version, codec, is_checkpoint, at, digest, body)
    SELECT run, :sequence, :fold_version, :state_codec_version, :codec, :is_checkpoint, :at, :digest, :body
    FROM executions WHERE run = :run AND id = :id AND length > :sequence AND :sequence >= 0
    ON CONFLICT (run, sequence) DO UPDATE SET
        fold_version = excluded.fold_version, state_codec_version = excluded.state_codec_version, codec = excluded.codec,
        is_checkpoint = excluded.is_checkpoint, at = excluded.at, digest = excluded.digest, body = excluded.body
    WHERE excluded.is_checkpoint OR NOT snapshots.is_checkpoint
"""
_OF: Final = "FROM snapshots AS s WHERE s.run = (SELECT run FROM executions WHERE run = :run AND id = :id)"
_LATEST: Final = f"""
    SELECT {COLUMNS}, s.body {_OF} AND s.sequence <= :upto ORDER BY s.sequence DESC LIMIT 1
"""
_HEADS: Final = f"SELECT {COLUMNS} {_OF} ORDER BY s.sequence DESC LIMIT :limit"
_DELETE: Final = """
    DELETE FROM snapshots
    WHERE run = (SELECT run FROM executions WHERE run = :run AND id = :id)
      AND sequence IN (SELECT value FROM json_each(:sequences)) AND NOT is_checkpoint
      AND sequence < (SELECT max(sequence) FROM snapshots WHERE run = :run)
    RETURNING sequence
"""
_WITH: Final = f"""
    SELECT e.id, e.run, {COLUMNS}
    FROM (SELECT run, max(sequence) AS sequence FROM snapshots GROUP BY run) AS last
    JOIN executions AS e ON e.run = last.run
    JOIN snapshots AS s ON s.run = last.run AND s.sequence = last.sequence
    WHERE e.id > :after ORDER BY e.id LIMIT :limit
"""  # noqa: S608  # our own text, here and above


class SqliteSnapshots(ABC):
    """Keeps snapshots; how a statement gets to the database is the storage's business."""

    @abstractmethod
    async def _read(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @abstractmethod
    async def _transact(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def put_snapshot(self, snapshot: Snapshot) -> bool:
        """Keep a snapshot that is not ahead of its log; see `SnapshotStore.put_snapshot`."""
        return await self._transact(put, snapshot)

    async def latest_snapshot(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, upto: int | None = None
    ) -> Snapshot | None:
        """Return the newest snapshot; see `SnapshotStore.latest_snapshot`."""
        return await self._read(_latest, execution_id, incarnation, SEQUENCE_END if upto is None else upto)

    async def snapshots(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, limit: int | None = None
    ) -> Sequence[SnapshotHead]:
        """Return snapshots without their bodies, the newest first; see `SnapshotStore.snapshots`."""
        return await self._read(_heads, execution_id, incarnation, SEQUENCE_END if limit is None else limit)

    async def delete_snapshots(
        self, execution_id: ExecutionId, incarnation: Incarnation, sequences: Sequence[int]
    ) -> Sequence[int]:
        """Remove snapshots; see `SnapshotStore.delete_snapshots`."""
        return await self._transact(_delete, execution_id, incarnation, sequences)

    async def executions_with_snapshots(
        self, *, after: ExecutionId | None = None, limit: int = 1000
    ) -> Sequence[SnapshotHead]:
        """Return the latest snapshot of executions; see `SnapshotStore.executions_with_snapshots`."""
        return await self._read(_with_snapshots, after or "", limit)


def put(raw: sqlite3.Connection, snapshot: Snapshot) -> bool:
    """Keep a snapshot that is not ahead of its log: the inside of a transaction."""
    head = snapshot.head
    given = {**head._asdict(), "run": head.incarnation, "id": head.execution_id, "body": snapshot.body}
    return raw.execute(PUT, given).rowcount == 1


def _latest(raw: sqlite3.Connection, run_id: ExecutionId, life: Incarnation, upto: int) -> Snapshot | None:
    row: tuple[Any, ...] | None = raw.execute(_LATEST, {"run": life, "id": run_id, "upto": upto}).fetchone()
    return Snapshot(snapshot_head(run_id, life, row[:-1]), _bytes(row[-1])) if row else None


def _bytes(body: object) -> bytes:
    """Return what stands where a body should: of what is none the digest is wrong, as of any that is damaged."""
    return body if isinstance(body, bytes) else str(body).encode(errors="surrogatepass")


def _heads(raw: sqlite3.Connection, run_id: ExecutionId, life: Incarnation, limit: int) -> list[SnapshotHead]:
    rows = raw.execute(_HEADS, {"run": life, "id": run_id, "limit": limit})
    return [snapshot_head(run_id, life, row) for row in rows]


def _delete(raw: sqlite3.Connection, run_id: ExecutionId, life: Incarnation, sequences: Sequence[int]) -> list[int]:
    given = {"run": life, "id": run_id, "sequences": orjson.dumps(list(sequences)).decode()}
    return sorted(sequence for (sequence,) in raw.execute(_DELETE, given))


def _with_snapshots(raw: sqlite3.Connection, after: str, limit: int) -> list[SnapshotHead]:
    rows = raw.execute(_WITH, {"after": after, "limit": limit})
    return [snapshot_head(ExecutionId(run_id), Incarnation(life), row) for run_id, life, *row in rows]
