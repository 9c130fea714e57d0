"""Removing snapshots that nobody needs: of each run all but the newest, and never a checkpoint. It runs when somebody asks for it.

A snapshot is a cache, so nothing is lost with it but time: a fold from an earlier place. A fork has a copy of the log that it
left, and needs no snapshot of the other run. In compacted history one is more than that: the run can be forked there and
nowhere else, so it stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId
from loom.driving.fork_points import compacted_through
from loom.driving.snapshotting import snapshot_store
from loom.spi.event_store import Storage
from loom.spi.snapshot_store import SnapshotHead, SnapshotStore


class Pruned(NamedTuple):
    """How much was removed, or would be: so many *snapshots* of so many *executions*, of so many *bytes*."""

    executions: int = 0
    snapshots: int = 0
    bytes: int = 0


def prunable(heads: Sequence[SnapshotHead], *, keep: int = 1) -> list[SnapshotHead]:
    """Return which of the snapshots of one run may go, the oldest first: all but the newest *keep*, and none up to a checkpoint.

    Raises:
        InvalidDeclaration: *keep* is less than one: the newest always stays.
    """
    if keep < 1:
        raise InvalidDeclaration(f"keep={keep}: of each run one snapshot is kept at least, the newest")
    oldest_first = sorted(heads, key=lambda head: head.sequence)
    return [head for head in oldest_first[:-keep] if head.sequence > compacted_through(heads)]


async def prune_snapshots(storage: Storage, *, keep: int = 1, dry_run: bool = False) -> Pruned:
    """Remove what is `prunable` of every run in *storage*, a transaction for each; return how much that was.

    A *dry_run* removes nothing, and returns how much would be.

    Raises:
        InvalidDeclaration: *keep* is less than one, or the store keeps no snapshots.
        StoreError: what was removed so far is gone; asking again goes on.
    """
    store, done, after = snapshot_store(storage), Pruned(), None
    prunable((), keep=keep)
    while page := await store.executions_with_snapshots(after=after):
        for latest in page:
            gone = await _pruned(store, latest, keep=keep, dry_run=dry_run)
            size = sum(head.size for head in gone)
            done = Pruned(done.executions + bool(gone), done.snapshots + len(gone), done.bytes + size)
        after = ExecutionId(page[-1].execution_id)
    return done


async def _pruned(store: SnapshotStore, latest: SnapshotHead, *, keep: int, dry_run: bool) -> list[SnapshotHead]:
    run_id, life = latest.execution_id, latest.incarnation
    wanted = prunable(await store.snapshots(run_id, life), keep=keep)
    if dry_run or not wanted:
        return wanted
    gone = set(await store.delete_snapshots(run_id, life, [head.sequence for head in wanted]))
    return [head for head in wanted if head.sequence in gone]
