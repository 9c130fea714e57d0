"""Snapshots in memory: the part of `MemoryStorage` that is a `SnapshotStore`."""

from __future__ import annotations

from collections.abc import Sequence

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.memory_logs import Logs
from loom.spi.snapshot_store import Snapshot, SnapshotHead


class MemorySnapshots:
    """A `SnapshotStore` that forgets everything with the object."""

    _kept: Logs

    async def put_snapshot(self, snapshot: Snapshot) -> bool:
        """Keep a snapshot that is not ahead of its log; see `SnapshotStore.put_snapshot`."""
        head = snapshot.head
        log = self._kept.by_id.get(head.execution_id)
        if log is None or log.incarnation != head.incarnation or not 0 <= head.sequence < log.length:
            return False
        before = log.snapshots.get(head.sequence)
        if before is not None and before.head.is_checkpoint and not head.is_checkpoint:
            return False
        log.snapshots[head.sequence] = snapshot
        return True

    async def latest_snapshot(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, upto: int | None = None
    ) -> Snapshot | None:
        """Return the newest snapshot; see `SnapshotStore.latest_snapshot`."""
        kept = self._of(execution_id, incarnation)
        return next((kept[at] for at in sorted(kept, reverse=True) if upto is None or at <= upto), None)

    async def snapshots(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, limit: int | None = None
    ) -> Sequence[SnapshotHead]:
        """Return snapshots without their bodies, the newest first; see `SnapshotStore.snapshots`."""
        kept = self._of(execution_id, incarnation)
        return [kept[at].head for at in sorted(kept, reverse=True)[:limit]]

    async def delete_snapshots(
        self, execution_id: ExecutionId, incarnation: Incarnation, sequences: Sequence[int]
    ) -> Sequence[int]:
        """Remove snapshots; see `SnapshotStore.delete_snapshots`."""
        kept = self._of(execution_id, incarnation)
        gone = sorted(at for at in {*sequences} & kept.keys() if at != max(kept) and not kept[at].head.is_checkpoint)
        for at in gone:
            del kept[at]
        return gone

    async def executions_with_snapshots(
        self, *, after: ExecutionId | None = None, limit: int = 1000
    ) -> Sequence[SnapshotHead]:
        """Return the latest snapshot of executions; see `SnapshotStore.executions_with_snapshots`."""
        found = sorted(name for name, log in self._kept.by_id.items() if log.snapshots and name > (after or ""))
        kept = [self._kept.by_id[name].snapshots for name in found[:limit]]
        return [each[max(each)].head for each in kept]

    def _of(self, execution_id: ExecutionId, incarnation: Incarnation) -> dict[int, Snapshot]:
        log = self._kept.life(execution_id, incarnation)
        return log.snapshots if log is not None else {}
