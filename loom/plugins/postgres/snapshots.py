"""Snapshots in Postgres: the part of `PostgresStorage` that is a `SnapshotStore`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.postgres.session import Raw
from loom.spi.snapshot_store import Snapshot, SnapshotHead
from loom.spi.snapshot_tables import snapshot_head
from loom.spi.tables import SEQUENCE_END

T = TypeVar("T")

_COLUMNS: Final = """
    s.sequence, s.fold_version, s.state_codec_version, s.codec, s.is_checkpoint, s.at, octet_length(s.body), s.digest
"""
# No snapshot is ahead of its log; and a checkpoint gives its place to another checkpoint only.
_PUT: Final = """
    INSERT INTO loom.snapshots AS s
        (run, sequence, fold_version, state_codec_version, codec, is_checkpoint, at, digest, body)
    SELECT run, $3, $4, $5, $6, $7, $8, $9, $10
    FROM loom.executions WHERE run = $1 AND id = $2 AND length > $3 AND $3 >= 0
    ON CONFLICT (run, sequence) DO UPDATE SET
        fold_version = excluded.fold_version, state_codec_version = excluded.state_codec_version, codec = excluded.codec,
        is_checkpoint = excluded.is_checkpoint, at = excluded.at, digest = excluded.digest, body = excluded.body
    WHERE excluded.is_checkpoint OR NOT s.is_checkpoint
    RETURNING true
"""
# A run may be deleted while its snapshot is written. Its row is locked only after that, so that no append waits for the bytes.
_STILL: Final = "SELECT true FROM loom.executions WHERE run = $1 FOR KEY SHARE"
_ORPHANED: Final = "DELETE FROM loom.snapshots WHERE run = $1"
_OF: Final = "FROM loom.snapshots AS s WHERE s.run = (SELECT run FROM loom.executions WHERE run = $1 AND id = $2)"
_LATEST: Final = f"SELECT {_COLUMNS}, s.body {_OF} AND s.sequence <= $3 ORDER BY s.sequence DESC LIMIT 1"
_HEADS: Final = f"SELECT {_COLUMNS} {_OF} ORDER BY s.sequence DESC LIMIT $3"  # our own text, here and below
_DELETE: Final = """
    DELETE FROM loom.snapshots
    WHERE run = (SELECT run FROM loom.executions WHERE run = $1 AND id = $2)
      AND sequence = ANY ($3::bigint[]) AND NOT is_checkpoint
      AND sequence < (SELECT max(sequence) FROM loom.snapshots WHERE run = $1)
    RETURNING sequence
"""
_WITH: Final = f"""
    SELECT e.id, e.run, {_COLUMNS}
    FROM (SELECT run, max(sequence) AS sequence FROM loom.snapshots GROUP BY run) AS last
    JOIN loom.executions AS e ON e.run = last.run
    JOIN loom.snapshots AS s ON s.run = last.run AND s.sequence = last.sequence
    WHERE e.id > $1 ORDER BY e.id LIMIT $2
"""  # noqa: S608


class PostgresSnapshots(ABC):
    """Keeps snapshots; how a statement gets to the database is the storage's business."""

    @abstractmethod
    async def _read(self, work: Callable[[Raw], Awaitable[T]]) -> T: ...

    @abstractmethod
    async def _change(self, work: Callable[[Raw], Awaitable[T]], *, repeatable: bool = True) -> T: ...

    async def put_snapshot(self, snapshot: Snapshot) -> bool:
        """Keep a snapshot that is not ahead of its log; see `SnapshotStore.put_snapshot`."""

        async def work(raw: Raw) -> bool:
            async with raw.transaction():
                return await put(raw, snapshot)

        return await self._change(work)

    async def latest_snapshot(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, upto: int | None = None
    ) -> Snapshot | None:
        """Return the newest snapshot; see `SnapshotStore.latest_snapshot`."""
        given = (incarnation, execution_id, SEQUENCE_END if upto is None else upto)
        row = await self._read(lambda raw: raw.fetchrow(_LATEST, *given))
        if row is None:
            return None
        *head, body = row
        return Snapshot(snapshot_head(execution_id, incarnation, head), body)

    async def snapshots(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, limit: int | None = None
    ) -> Sequence[SnapshotHead]:
        """Return snapshots without their bodies, the newest first; see `SnapshotStore.snapshots`."""
        rows = await self._read(lambda raw: raw.fetch(_HEADS, incarnation, execution_id, limit))
        return [snapshot_head(execution_id, incarnation, list(row)) for row in rows]

    async def delete_snapshots(
        self, execution_id: ExecutionId, incarnation: Incarnation, sequences: Sequence[int]
    ) -> Sequence[int]:
        """Remove snapshots; see `SnapshotStore.delete_snapshots`."""
        rows = await self._change(lambda raw: raw.fetch(_DELETE, incarnation, execution_id, list(sequences)))
        return sorted(row[0] for row in rows)

    async def executions_with_snapshots(
        self, *, after: ExecutionId | None = None, limit: int = 1000
    ) -> Sequence[SnapshotHead]:
        """Return the latest snapshot of executions; see `SnapshotStore.executions_with_snapshots`."""
        rows = await self._read(lambda raw: raw.fetch(_WITH, after or "", limit))
        return [snapshot_head(ExecutionId(row[0]), Incarnation(row[1]), list(row)[2:]) for row in rows]


async def put(raw: Raw, snapshot: Snapshot) -> bool:
    """Keep a snapshot that is not ahead of its log: the inside of a transaction."""
    head = snapshot.head
    about = (head.fold_version, head.state_codec_version, head.codec, head.is_checkpoint, head.at, head.digest)
    place = (head.incarnation, head.execution_id, head.sequence)
    if not await raw.fetchval(_PUT, *place, *about, snapshot.body):
        return False
    if await raw.fetchval(_STILL, head.incarnation):
        return True
    await raw.execute(_ORPHANED, head.incarnation)
    return False
