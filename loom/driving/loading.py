"""Reading a run before something is done with it: its newest snapshot and the events after it, folded, and its row in the index.

A snapshot is a cache: one that cannot be used is told of, and the log is folded from its beginning. Only where compaction has
taken events out of the log is there no way but by its checkpoint.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from loom.core.collecting import collected_later
from loom.core.envelope import EventEnvelope
from loom.core.errors import SnapshotIgnored
from loom.core.ids import execution_id
from loom.core.links import link_named
from loom.core.state import ExecutionState, empty_state
from loom.driving.chains import last_link
from loom.driving.errors import ExecutionNotFound, SnapshotUnusable
from loom.driving.reading import read_log, refuse_newer, refuse_newer_rules
from loom.driving.run_reader import RunReader
from loom.driving.snapshots import state_of
from loom.driving.state_codec import decode
from loom.driving.stored_log import checkpoint_of
from loom.kernel.errors import LogCorrupt
from loom.kernel.fold import fold
from loom.spi.event_store import ExecutionRow
from loom.spi.snapshot_store import SnapshotStore

TAIL_MIN: Final = 200
"""Up to so many events are folded rather than looked for in a snapshot: that would take as long."""
NONE: Final = -1

_Events = Sequence[EventEnvelope[Any]]


class Loaded(NamedTuple):
    """A run as it was when its row was read, which says who holds it: the fold of as much of its log as the row knows of.

    Events that were written meanwhile are left out. Who drives on by what was read before them is refused by the first append;
    with them it would pass, though the row does not know yet who wrote them.

    *snapshot* is the sequence of the snapshot that the fold began with, -1 where it began with the log.
    """

    state: ExecutionState
    row: ExecutionRow
    snapshot: int = NONE


async def load(storage: RunReader, id: str, *, row: ExecutionRow | None = None) -> Loaded:
    """Return the run *id*; of a chain its last link. *row* is its row, where that is known already.

    Raises:
        ExecutionNotFound: there is no such execution.
        LogNewerThanCode: it can be looked at only.
        LogCorrupt: events are missing.
        SnapshotUnusable: they were moved away, and the checkpoint that stands for them cannot be read.
    """
    run_id = execution_id(id)
    if row is None:
        row = await storage.row(run_id)
        if row is None:
            raise ExecutionNotFound(execution_id=id, store=storage.url)
        row = await last_link(storage, row)
    return await loaded(storage, row)


async def load_link(storage: RunReader, id: str) -> Loaded:
    """Return the link that *id* names, though its chain has gone on; where it names a chain, the last one.

    Raises:
        As `load`.
    """
    link = link_named(id)
    if link is None:
        return await load(storage, id)
    row = await storage.row(execution_id(link))
    if row is None:
        raise ExecutionNotFound(execution_id=id, store=storage.url)
    return await loaded(storage, row)


async def loaded(storage: RunReader, row: ExecutionRow) -> Loaded:
    """Return the run that *row* is of: only what is after its newest snapshot is read and folded.

    Raises:
        As `load`.
    """
    begun = await newest(storage, row, upto=row.length - 1)
    events = await read_log(storage, row.execution_id, start=begun.length if begun else 0, length=row.length)
    if _missing(events, row, begun) is not None and (checkpoint := await _checkpoint(storage, row)) is not None:
        if checkpoint.length > row.length:  # it has gone on, and was compacted, since its row was read
            return await load(storage, row.execution_id)
        begun = checkpoint
        events = [event for event in events if event.sequence > checkpoint.sequence]
    if (lacks := _missing(events, row, begun)) is not None:
        head = await storage.head(row.execution_id)
        if head is None or head.incarnation != row.incarnation:  # it was deleted since its row was read
            raise ExecutionNotFound(execution_id=row.execution_id, store=storage.url)
        why = f"the log should hold {row.length} events without a gap"
        raise LogCorrupt(execution_id=row.execution_id, sequence=lacks, why=why)
    if begun is not None:
        refuse_newer_rules(begun.execution_id, begun.facts.rules)
    refuse_newer(events)
    with collected_later():
        return Loaded(fold(events, begun or empty_state(row.execution_id)), row, begun.sequence if begun else NONE)


def _missing(events: _Events, row: ExecutionRow, begun: ExecutionState | None) -> int | None:
    """Return the first event that is not there, of those after the state with which it is *begun*; None when all are."""
    first = begun.length if begun else 0
    there = [event.sequence for event in events]
    expected = range(first, max(first + len(there), row.length))
    if there == list(expected):
        return None
    return next((at for at, found in zip(expected, there, strict=False) if at != found), first + len(there))


async def newest(
    storage: RunReader, row: ExecutionRow, *, upto: int, read: Callable[[bytes], ExecutionState] = decode
) -> ExecutionState | None:
    """Return the state of the newest snapshot up to event *upto*, as *read* makes it of its text.

    None where there is none that can be used, or that is worth it.
    """
    if upto < TAIL_MIN or not isinstance(storage, SnapshotStore):
        return None
    snapshot = await storage.latest_snapshot(row.execution_id, row.incarnation, upto=upto)
    if snapshot is None:
        return None
    try:
        return state_of(snapshot, is_needed=snapshot.head.is_checkpoint, read=read)
    except SnapshotUnusable as error:
        warnings.warn(SnapshotIgnored(f"{error}; the log is folded instead"), stacklevel=2)
        return None


async def _checkpoint(storage: RunReader, row: ExecutionRow) -> ExecutionState | None:
    """Return the state of the newest checkpoint, None where no compaction has made one.

    Raises:
        SnapshotUnusable: it cannot be read, and nothing else says what it does.
    """
    snapshot = await checkpoint_of(storage, row.execution_id, row.incarnation)
    return None if snapshot is None else state_of(snapshot, is_needed=True)
