"""The whole story of a run: what its log has and what the archive keeps, in order, each event and each request once.

The store is read before the archive: what is gone from the one by then is in the other, whoever compacts meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import NamedTuple, TypeAlias

from loom.core.ids import ExecutionId, Incarnation
from loom.kernel.codec import decode_events
from loom.spi.archive_store import ArchivedLife, ArchiveStore
from loom.spi.event_store import EventRecord, Lane, Request, RequestLane, Storage
from loom.spi.event_trim import EventTrim


class ArchivedEvent(NamedTuple):
    """An event, and whether only the archive has it."""

    record: EventRecord
    is_archived: bool


Life: TypeAlias = tuple[ExecutionId, Incarnation]


async def read_archived(
    storage: Storage, archive: ArchiveStore, execution_id: ExecutionId, *, start: int = 0
) -> AsyncGenerator[ArchivedEvent]:
    """Yield the events of a run from *start* on, in order, each once. Of a run that was deleted: those that were archived.

    A fork of a compacted run has not all events that it shares with that; they are told from the archive, where they are kept
    as those of the other run.
    """
    head = await storage.head(execution_id)
    life = await last_life(archive, execution_id) if head is None else None
    incarnation = head.incarnation if head is not None else life.incarnation if life is not None else None
    if incarnation is not None:
        async with aclosing(_Story(storage, archive, (execution_id, incarnation)).told(start, None)) as story:
            async for event in story:
                yield event


class _Story:
    """What the store and the archive have of one life of a run, and of those that it is a fork of."""

    def __init__(self, storage: Storage, archive: ArchiveStore, life: Life) -> None:
        self._storage, self._archive, self._life = storage, archive, life
        self._forked: tuple[int, Life] | None = None
        """At which event the run left another, and that; the first such event after the last gap that was looked at."""

    async def told(self, start: int, stop: int | None) -> AsyncGenerator[ArchivedEvent]:
        """Yield the events from *start* on, up to but not including *stop*, in order, each once."""
        expected = start
        async with aclosing(self._own(start, stop)) as own:
            async for event in own:
                if event.record.sequence > expected:
                    async for shared in self._shared(expected, event.record.sequence):
                        yield shared
                expected = event.record.sequence + 1
                yield event
        if stop is not None and expected < stop:
            async for shared in self._shared(expected, stop):
                yield shared

    async def _own(self, start: int, stop: int | None) -> AsyncGenerator[ArchivedEvent]:
        """Yield the events that are kept as those of the run itself."""
        head = await self._storage.head(self._life[0])
        is_here = head is not None and head.incarnation == self._life[1]
        while True:
            page = await self._storage.read(self._life[0], start=start, stop=stop) if is_here else ()
            end = page[-1].sequence + 1 if page else stop
            left = deque(page)
            async for record in _archived(self._archive, self._life, start, end):
                while left and left[0].sequence < record.sequence:
                    yield ArchivedEvent(left.popleft(), is_archived=False)
                if not left or left[0].sequence != record.sequence:
                    yield ArchivedEvent(record, is_archived=True)
            for record in left:
                yield ArchivedEvent(record, is_archived=False)
            if not page:
                return
            start = page[-1].sequence + 1

    async def _shared(self, start: int, stop: int) -> AsyncGenerator[ArchivedEvent]:
        """Yield the events before *stop* that the run lacks, from where it is a fork of another; nothing where it is none."""
        if self._forked is None or self._forked[0] < start:
            self._forked = await self._left_at(stop)
        if self._forked is not None:
            async for event in _Story(self._storage, self._archive, self._forked[1]).told(start, stop):
                yield event._replace(is_archived=True)

    async def _left_at(self, start: int) -> tuple[int, Life] | None:
        async with aclosing(self._own(start, None)) as own:
            async for record, _ in own:
                if record.type == "EXECUTION_FORKED":
                    [event] = decode_events(self._life[0], [record])
                    source = event.payload.source
                    life = ExecutionId(source["execution_id"]), Incarnation(source["incarnation"])
                    return record.sequence, life
        return None


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


async def _archived(archive: ArchiveStore, life: Life, start: int, stop: int | None) -> AsyncIterator[EventRecord]:
    page: Sequence[EventRecord]
    while page := await archive.read_archived(*life, start=start, stop=stop):
        for record in page:
            yield record
        start = page[-1].sequence + 1
