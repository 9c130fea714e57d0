"""What a store has of a log: the events that are there, and the state that stands for those which compaction has moved away.

Compaction takes events out of the first part of a log, and leaves a checkpoint: the state after the last of them. Events of some
kinds stay in place, and the last event of a log always does. So a log of which something is gone is known by its numbers alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from loom.core.collecting import collected_later
from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId, Incarnation
from loom.core.state import ExecutionState, empty_state
from loom.driving.errors import SnapshotUnusable
from loom.driving.reading import read_log
from loom.driving.run_reader import LogReader, RunReader
from loom.driving.snapshots import state_of
from loom.kernel.fold import fold
from loom.spi.event_store import EventRecord, Head
from loom.spi.snapshot_store import Snapshot, SnapshotStore

Event = EventEnvelope[Any]
E = TypeVar("E", Event, EventRecord)


class StoredLog(NamedTuple):
    """The *events* that a store has of a log, in order; *base* is the state before which some are missing, None: it is whole.

    Of the events up to that of *base* only some are there; from its length on there are all.
    """

    run_id: ExecutionId
    events: Sequence[Event]
    base: ExecutionState | None = None

    @property
    def start(self) -> ExecutionState:
        """The state with which a fold of the `tail` begins."""
        return self.base or empty_state(self.run_id)

    @property
    def tail(self) -> Sequence[Event]:
        """The events after that of the base: all of a log that is whole."""
        if self.base is None:
            return self.events
        return [event for event in self.events if event.sequence > self.base.sequence]

    @property
    def length(self) -> int:
        """The number of events there ever were."""
        return self.events[-1].sequence + 1 if self.events else 0

    def state(self) -> ExecutionState:
        """Return the fold of the log.

        Raises:
            LogCorrupt: an event does not fit those before it.
        """
        with collected_later():
            return fold(self.tail, self.start)


async def log_of(storage: RunReader, run_id: ExecutionId) -> StoredLog:
    """Return what *storage* has of a log: no event where there is no such execution.

    Raises:
        LogCorrupt: a record cannot be read.
        SnapshotUnusable: events were moved away, and the checkpoint that stands for them cannot be read.
    """
    events, base = await _with_base(storage, run_id, lambda: read_log(storage, run_id))
    return StoredLog(run_id, events, base)


class StoredRecords(NamedTuple):
    """The same as bytes: the *records* that a store has of a log, and the state of the checkpoint before which some are missing."""

    records: Sequence[EventRecord]
    base: ExecutionState | None = None


async def stored_records(reader: LogReader, run_id: ExecutionId) -> list[EventRecord]:
    """Return what the store has of a log, as stored."""
    records: list[EventRecord] = []
    while page := await reader.read(run_id, start=len(records) and records[-1].sequence + 1):
        records += page
    return records


async def records_of(storage: RunReader, run_id: ExecutionId) -> StoredRecords:
    """Return what *storage* has of a log, as stored.

    Raises:
        SnapshotUnusable: see `log_of`.
    """
    records, base = await _with_base(storage, run_id, lambda: stored_records(storage, run_id))
    return StoredRecords(records, base)


async def _with_base(
    storage: RunReader, run_id: ExecutionId, read: Callable[[], Awaitable[Sequence[E]]]
) -> tuple[Sequence[E], ExecutionState | None]:
    """Return what is *read* of a log, and the state before which some is missing.

    Where the log has gone on and was compacted again since it was read, it is read again.
    """
    seen: Head | None = None
    while True:
        found = await read()
        if not has_gap([each.sequence for each in found]):
            return found, None
        head = await storage.head(run_id)
        if head is None:  # it was deleted meanwhile
            return (), None
        snapshot = await checkpoint_of(storage, run_id, head.incarnation)
        if snapshot is None:
            return found, None
        if snapshot.head.sequence <= found[-1].sequence or head == seen:
            return found, state_of(snapshot, is_needed=True)
        seen = head


async def base_beyond(storage: RunReader, run_id: ExecutionId, length: int) -> ExecutionState | None:
    """Return the state of the newest checkpoint, None where it is not of more than *length* events, or there is none.

    It is asked for by who follows a log, when an event comes that does not follow the last one: those between were moved away.

    Raises:
        SnapshotUnusable: it cannot be read.
    """
    head = await storage.head(run_id)
    snapshot = await checkpoint_of(storage, run_id, head.incarnation) if head is not None else None
    if snapshot is None or snapshot.head.sequence < length:
        return None
    return state_of(snapshot, is_needed=True)


def has_gap(sequences: Sequence[int]) -> bool:
    """Whether events are missing among, or before, those with these *sequences*, which are in order."""
    return bool(sequences) and sequences[-1] != len(sequences) - 1


async def checkpoint_of(storage: object, run_id: ExecutionId, incarnation: Incarnation) -> Snapshot | None:
    """Return the checkpoint of a run, None where no compaction has made one.

    Raises:
        SnapshotUnusable: the store has that of another run, or of another life, in its place.
    """
    if not isinstance(storage, SnapshotStore):
        return None
    while True:
        heads = await storage.snapshots(run_id, incarnation)
        sequence = next((head.sequence for head in heads if head.is_checkpoint), None)
        if sequence is None:
            return None
        found = await storage.latest_snapshot(run_id, incarnation, upto=sequence)
        if found is None or found.head.sequence != sequence:
            continue  # another has taken its place in between
        if (found.head.execution_id, found.head.incarnation) != (run_id, incarnation):
            why = f"it is that of {found.head.execution_id}, life {found.head.incarnation}"
            raise SnapshotUnusable(execution_id=run_id, sequence=sequence, why=why)
        return found
