"""Compaction: the first part of a log is moved to an archive, and a checkpoint stands for it.

First what will go is copied to the archive, durably; then, in one transaction of the store, it is removed and the checkpoint is
kept. Wherever that is cut off, the run is whole: an event is in the log or in the archive, or in both, and the next compaction
goes on. Who drives the run meanwhile notices nothing: a log grows at its end.

What stays: EXECUTION_STARTED, events of the kinds that are asked for, the end of a run and what follows it, and the last event,
so that whoever follows the log always sees how far it has come. An event after which a snapshot stands goes with the one behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Protocol, runtime_checkable

from loom.core.collecting import collected_later
from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState, empty_state
from loom.driving.chains import lane_of
from loom.driving.errors import ExecutionNotFound
from loom.driving.reading import refuse_newer
from loom.driving.snapshots import snapshot_of, state_of
from loom.driving.stored_log import checkpoint_of, records_of
from loom.kernel.codec import decode_events
from loom.kernel.errors import LogCorrupt
from loom.kernel.fold import fold
from loom.services.archiving import refuse_itself
from loom.spi.archive_store import ArchiveStore
from loom.spi.event_store import EventRecord, ExecutionRow, Storage
from loom.spi.event_trim import EventTrim
from loom.spi.snapshot_store import Snapshot, SnapshotCodec, SnapshotStore

ALWAYS_KEPT: Final = ("EXECUTION_STARTED", "EXECUTION_PAUSED")
"""What a listing, a child or a person needs of a run that the state does not say."""
ENDS: Final = frozenset({"EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELLED", "EXECUTION_CONTINUED"})
CHUNK_BYTES: Final = 4 << 20
CHUNK_EVENTS: Final = 5_000


class CompactionNotPossible(LoomError):
    """The store cannot remove a part of a log."""

    code = "compaction-not-possible"
    hint = (
        "Use loom.sqlite_storage(), loom.postgres_storage(), or a store that is an EventTrim and a SnapshotStore too."
    )

    def __init__(self, *, store: str) -> None:
        self.store = store
        super().__init__(f"the store compacts no log ({store})")


class EventStays(LoomError):
    """A log cannot be compacted that far."""

    code = "event-stays"

    def __init__(self, *, execution_id: str, through: int, limit: int) -> None:
        self.execution_id, self.through, self.limit = execution_id, through, limit
        self.hint = f"--through {limit} is as far as it goes." if limit > 0 else "There is nothing to compact yet."
        super().__init__(f"event {through} of {execution_id} stays: the end of a run and the last event of a log do")


@runtime_checkable
class Compactable(Storage, EventTrim, SnapshotStore, Protocol):
    """A store that can remove the first part of a log and keep a checkpoint for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How runs are to be compacted.

    Events of the kinds *keep* stay in the log: types, or beginnings of types with a `*`. *through* is the last event that may go,
    None: as many as can. *codec* is that of the checkpoints. In a *dry_run* nothing is written anywhere.
    """

    keep: Sequence[str] = ()
    through: int | None = None
    codec: SnapshotCodec = "json"
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What was moved, or in a dry run would be: so many *events* (*size* bytes) and consumed *requests* of the lane.

    *through* is the event of the checkpoint that the log has now, None where it has none; *kept* are the events before it that stay
    in the log, *length* is the number of events there ever were.
    """

    execution_id: ExecutionId
    through: int | None
    events: int
    size: int
    kept: int
    requests: int
    length: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a compaction comes to: the events that go, the checkpoint (None: nothing is to be done), the types that stay."""

    gone: Sequence[EventRecord]
    kept: int
    checkpoint: Snapshot | None
    keeping: Sequence[str]
    base: int | None


async def compact(storage: Storage, archive: ArchiveStore | None, row: ExecutionRow, wish: Wish) -> Compacted:
    """Move the first part of the log that *row* is of, and what its lane has consumed, to *archive* (None: only in a dry run).

    Raises:
        CompactionNotPossible: the store cannot.
        EventStays: the log cannot be compacted so far; nothing was moved.
        ExecutionNotFound: it was deleted meanwhile.
        LogCorrupt, LogNewerThanCode: it cannot be folded; nothing was moved.
        SnapshotUnusable: an earlier checkpoint cannot be read; nothing was moved.
        ArchiveConflict: the archive has something else there; nothing was removed.
        ArchiveIsTheStore: nothing was moved.
        StoreError: what was not moved stays; asking again is safe.
    """
    if not isinstance(storage, Compactable):
        raise CompactionNotPossible(store=storage.url)
    plan = await _plan(storage, row, wish)
    through = plan.base
    if plan.checkpoint is not None:
        through = plan.checkpoint.head.sequence
        if archive is not None and not wish.dry_run:
            await refuse_itself(storage, archive)
            for chunk in _chunks(plan.gone):
                await archive.archive(row.execution_id, row.incarnation, chunk)
            through = await _trimmed(storage, plan.checkpoint, plan.keeping)
    requests = await _lane(storage, None if wish.dry_run else archive, row)
    return Compacted(
        execution_id=row.execution_id,
        through=through,
        events=len(plan.gone),
        size=sum(len(record.payload) + len(record.metadata) for record in plan.gone),
        kept=plan.kept,
        requests=requests,
        length=row.length,
    )


async def _plan(storage: Compactable, row: ExecutionRow, wish: Wish) -> _Plan:
    """Read the log, and decide."""
    run_id = row.execution_id
    records, base = await records_of(storage, run_id)
    head = await storage.head(run_id)
    if not records or head is None or head.incarnation != row.incarnation:
        raise ExecutionNotFound(execution_id=run_id, store=storage.url)
    start = base or empty_state(run_id)
    limit = furthest(records)
    if wish.through is not None and wish.through > limit:
        raise EventStays(execution_id=run_id, through=wish.through, limit=limit)
    through = await _beside_snapshots(storage, row, limit if wish.through is None else wish.through)
    types = {record.type for record in records}
    keeping = sorted(type_ for type_ in types if is_kept(type_, wish.keep))
    early = [record for record in records if record.sequence <= through]
    gone = [record for record in early if record.type not in keeping]
    if through <= start.sequence or not gone:
        return _Plan((), len([r for r in records if r.sequence <= start.sequence]), None, (), _sequence(base))
    state = _folded(run_id, [record for record in early if record.sequence > start.sequence], start, through)
    checkpoint = _checkpoint(state, row, at=await storage.now_ms(), codec=wish.codec)
    return _Plan(gone, len(early) - len(gone), checkpoint, keeping, _sequence(base))


async def _beside_snapshots(storage: SnapshotStore, row: ExecutionRow, through: int) -> int:
    """Return the last event up to *through* after which no snapshot stands.

    A checkpoint there would take its place, and give it to the next one: a place to fork from would be lost. So its event waits.
    """
    heads = await storage.snapshots(row.execution_id, row.incarnation)
    taken = {head.sequence for head in heads if not head.is_checkpoint}
    return next((at for at in range(through, 0, -1) if at not in taken), through)


def furthest(records: Sequence[EventRecord]) -> int:
    """Return the last event of a log that may go, -1 where none may: not the end of the run, nor the last event."""
    ends = [record.sequence for record in records if record.type in ENDS]
    retried = [record.sequence for record in records if record.type == "EXECUTION_RETRIED"]
    open_again = max(retried, default=-1)
    end = next((sequence for sequence in ends if sequence > open_again), records[-1].sequence)
    return min(end, records[-1].sequence) - 1


def is_kept(type_: str, keep: Sequence[str]) -> bool:
    """Whether events of a type stay in the log."""
    return type_ in ALWAYS_KEPT or any(fnmatchcase(type_, pattern) for pattern in keep)


def _folded(run_id: ExecutionId, records: Sequence[EventRecord], start: ExecutionState, through: int) -> ExecutionState:
    if [record.sequence for record in records] != list(range(start.length, through + 1)):
        why = f"the log should hold every event from {start.length} on"
        raise LogCorrupt(execution_id=run_id, sequence=start.length, why=why)
    with collected_later():
        events = decode_events(run_id, records)
        refuse_newer(events)
        return fold(events, start)


def _checkpoint(state: ExecutionState, row: ExecutionRow, *, at: int, codec: SnapshotCodec) -> Snapshot:
    """Return the checkpoint that *state* is, once it is known to come back from its bytes as it was."""
    checkpoint = snapshot_of(state, row.incarnation, at=at, codec=codec, is_checkpoint=True)
    if state_of(checkpoint, is_needed=True) != state:
        why = "its state does not come back from its bytes as it was; this is a fault of Loom"
        raise LogCorrupt(execution_id=row.execution_id, sequence=state.sequence, why=why)
    return checkpoint


async def _trimmed(storage: Compactable, checkpoint: Snapshot, keeping: Sequence[str]) -> int:
    """Remove what the checkpoint stands for, and return the event of the one that the log has then.

    Nothing is removed where somebody else has compacted as far meanwhile, and copied it as well.
    """
    head = checkpoint.head
    if await storage.trim(checkpoint, keeping=keeping) is not None:
        return head.sequence
    present = await checkpoint_of(storage, head.execution_id, head.incarnation)
    if present is None or present.head.sequence < head.sequence:
        raise ExecutionNotFound(execution_id=head.execution_id, store=storage.url)
    return present.head.sequence


async def _lane(storage: Compactable, archive: ArchiveStore | None, row: ExecutionRow) -> int:
    """Move what the lane has consumed, page by page, and return how many requests those were; without an archive, count."""
    lane = await lane_of(storage, row)
    moved = after = 0
    while lane is not None and (page := await storage.consumed(lane, after=after)):
        after = page[-1].number
        if archive is not None:
            await archive.archive_requests(*lane, page)
            await storage.trim_lane(lane, [request.number for request in page])
        moved += len(page)
    return moved


def _chunks(records: Sequence[EventRecord]) -> Iterator[Sequence[EventRecord]]:
    """Yield *records* in pieces that an archive takes at once."""
    first = size = 0
    for place, record in enumerate(records):
        if place > first and (size > CHUNK_BYTES or place - first >= CHUNK_EVENTS):
            yield records[first:place]
            first, size = place, 0
        size += len(record.payload) + len(record.metadata)
    if records:
        yield records[first:]


def _sequence(state: ExecutionState | None) -> int | None:
    return None if state is None else state.sequence
