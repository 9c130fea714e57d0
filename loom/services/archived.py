"""The whole story of a run: what its log has and what the archive keeps, in order, each event and each request once.

The store is read before the archive: what is gone from the one by then is in the other, whoever compacts meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import NamedTuple

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.archive_store import ArchivedLife, ArchiveStore
from loom.spi.event_store import EventRecord, Lane, Request, RequestLane, Storage
from loom.spi.event_trim import EventTrim


class ArchivedEvent(NamedTuple):
    """An event, and whether only the archive has it."""

    record: EventRecord
    is_archived: bool


async def read_archived(
    storage: Storage, archive: ArchiveStore, execution_id: ExecutionId, *, start: int = 0
) -> AsyncGenerator[ArchivedEvent]:
    """Yield the events of a run from *start* on, in order, each once. Of a run that was deleted: those that were archived."""
    head = await storage.head(execution_id)
    life = await last_life(archive, execution_id) if head is None else None
    incarnation = head.incarnation if head is not None else life.incarnation if life is not None else None
    if incarnation is None:
        return
    while True:
        page = await storage.read(execution_id, start=start) if head is not None else ()
        stop = page[-1].sequence + 1 if page else None
        left = deque(page)
        async for record in _archived(archive, (execution_id, incarnation), start, stop):
            while left and left[0].sequence < record.sequence:
                yield ArchivedEvent(left.popleft(), is_archived=False)
            if not left or left[0].sequence != record.sequence:
                yield ArchivedEvent(record, is_archived=True)
        for record in left:
            yield ArchivedEvent(record, is_archived=False)
        if stop is None:
            return
        start = stop


async def read_lane_with_archive(store: RequestLane, archive: ArchiveStore, lane: Lane) -> AsyncIterator[Request]:
    """Yield every request that a lane ever had, by number, each once: pending, consumed or in the archive."""
    here = {request.number: request for request in await store.pending(*lane)}
    after = 0
    while isinstance(store, EventTrim) and (page := await store.consumed(lane, after=after)):
        here |= {request.number: request for request in page}
        after = page[-1].number
    after = 0
    while page := await archive.archived_requests(*lane, after=after):
        here = {request.number: request for request in page} | here
        after = page[-1].number
    for number in sorted(here):
        yield here[number]


async def last_life(archive: ArchiveStore, execution_id: ExecutionId) -> ArchivedLife | None:
    """Return the last life of an execution that the archive knows of, None where it knows none."""
    found: ArchivedLife | None = None
    after: tuple[str, int] = (execution_id, -1)
    while lives := await archive.archived_lives(prefix=execution_id, after=after):
        for life in lives:
            if life.execution_id != execution_id:
                return found
            found = life
        after = (lives[-1].execution_id, lives[-1].incarnation)
    return found


async def _archived(
    archive: ArchiveStore, life: tuple[ExecutionId, Incarnation], start: int, stop: int | None
) -> AsyncIterator[EventRecord]:
    page: Sequence[EventRecord]
    while page := await archive.read_archived(*life, start=start, stop=stop):
        for record in page:
            yield record
        start = page[-1].sequence + 1
