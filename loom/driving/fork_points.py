"""Where a run can be forked: where all events before are in its log, and in compacted history only where a snapshot stands.

A compacted log is known from its checkpoint on. Before that, the state after an event is what a snapshot says that was made exactly
there, and was kept: nothing is folded from somewhere near, and no archive is looked into.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loom.core.state import ExecutionState
from loom.driving.errors import CompactedForkPoint, SnapshotUnusable
from loom.driving.reading import read_log
from loom.driving.run_reader import RunReader
from loom.driving.snapshots import is_readable, state_of
from loom.driving.stored_log import StoredLog
from loom.spi.event_store import ExecutionRow
from loom.spi.snapshot_store import SnapshotHead, SnapshotStore

_NOWHERE: Final = -1


def compacted_through(heads: Sequence[SnapshotHead]) -> int:
    """Return the event up to which a log was compacted that has the snapshots *heads*, -1 where it was not."""
    return max((head.sequence for head in heads if head.is_checkpoint), default=_NOWHERE)


def fork_points(heads: Sequence[SnapshotHead]) -> list[int]:
    """Return the events in compacted history at which a run with the snapshots *heads* can be forked, in order."""
    checkpoint = compacted_through(heads)
    return sorted(head.sequence for head in heads if head.sequence < checkpoint and is_readable(head))


async def prefix_of(storage: RunReader, row: ExecutionRow, through: int) -> StoredLog:
    """Return the beginning of a log up to and including event *through*: all of it, or a state and what comes after that.

    Raises:
        CompactedForkPoint: some of it was moved to an archive, and no snapshot stands exactly there.
        SnapshotUnusable: some of it was, and the checkpoint that stands for it cannot be read.
    """
    run_id = row.execution_id
    events = await read_log(storage, run_id, length=through + 1)
    if len(events) > through or not isinstance(storage, SnapshotStore):
        return StoredLog(run_id, events)
    heads = await storage.snapshots(run_id, row.incarnation)
    checkpoint = compacted_through(heads)
    if checkpoint == _NOWHERE:
        return StoredLog(run_id, events)
    base = await _state_at(storage, row, min(checkpoint, through), heads)
    return StoredLog(run_id, events, base) if base is not None else await prefix_of(storage, row, through)


async def known_last(storage: RunReader, row: ExecutionRow, log: StoredLog, at: int) -> int | None:
    """Return which event of compacted history was the last at the time *at*, ms since the epoch; None where that is not known.

    It is where a snapshot stands that is not later, and what came next is known to be: by an event that stayed in the log, by
    another snapshot, or by the checkpoint. Of anything between nobody knows when it was.
    """
    if log.base is None or not isinstance(storage, SnapshotStore):
        return None
    heads = await storage.snapshots(row.execution_id, row.incarnation)
    later = {event.sequence for event in log.events if event.at > at}
    later |= {log.base.sequence} if log.base.at > at else set()
    for point in reversed(fork_points(heads)):
        try:
            state = await _state_at(storage, row, point, heads)
        except CompactedForkPoint:
            continue  # a snapshot that cannot be used is none
        if state is None:
            continue
        if state.at <= at:
            return point if point + 1 in later else None
        later.add(point)
    return None


async def _state_at(
    storage: SnapshotStore, row: ExecutionRow, at: int, heads: Sequence[SnapshotHead]
) -> ExecutionState | None:
    """Return the state after event *at*, None where what is kept of it has changed since *heads* were read."""
    checkpoint, why = compacted_through(heads), ""
    if at in {head.sequence for head in heads}:
        found = await storage.latest_snapshot(row.execution_id, row.incarnation, upto=at)
        if found is None or found.head.sequence != at:
            return None
        try:
            return state_of(found, is_needed=True)
        except SnapshotUnusable as error:
            if at == checkpoint:
                raise
            why = error.why
    points = [point for point in fork_points(heads) if point != at]
    raise CompactedForkPoint(execution_id=row.execution_id, through=checkpoint, at=at, points=points, why=why)
