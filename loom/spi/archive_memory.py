"""An archive in memory: the part of `MemoryStorage` that is an `ArchiveStore`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.archive_store import ArchivedLife, refuse_others
from loom.spi.event_store import EventRecord, Request
from loom.spi.paging import first_page

R = TypeVar("R", EventRecord, Request)


@dataclass(slots=True)
class _Life:
    """What is kept of one life, by sequence and by number."""

    events: dict[int, EventRecord] = field(default_factory=dict)
    requests: dict[int, Request] = field(default_factory=dict)


class MemoryArchive:
    """An `ArchiveStore` that forgets everything with the object."""

    def __init__(self) -> None:
        self._lives: dict[tuple[ExecutionId, Incarnation], _Life] = {}

    @property
    def url(self) -> str:
        """The name of the store in messages."""
        return "memory:"

    async def archive(self, execution_id: ExecutionId, incarnation: Incarnation, events: Sequence[EventRecord]) -> None:
        """Keep events; see `ArchiveStore.archive`."""
        if events:
            self._keep(self._life(execution_id, incarnation).events, events, (execution_id, incarnation, "event"))

    async def archive_requests(
        self, execution_id: ExecutionId, incarnation: Incarnation, requests: Sequence[Request]
    ) -> None:
        """Keep requests; see `ArchiveStore.archive_requests`."""
        if requests:
            self._keep(self._life(execution_id, incarnation).requests, requests, (execution_id, incarnation, "request"))

    async def read_archived(
        self,
        execution_id: ExecutionId,
        incarnation: Incarnation,
        *,
        start: int = 0,
        stop: int | None = None,
        limit_bytes: int = 4 << 20,
    ) -> Sequence[EventRecord]:
        """Return a page of the events kept; see `ArchiveStore.read_archived`."""
        life = self._lives.get((execution_id, incarnation), _Life())
        wanted = sorted(at for at in life.events if at >= start and (stop is None or at < stop))
        return first_page((life.events[at] for at in wanted), lambda event: len(event.payload), limit_bytes)

    async def archived_requests(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, after: int = 0, limit_bytes: int = 4 << 20
    ) -> Sequence[Request]:
        """Return a page of the requests kept; see `ArchiveStore.archived_requests`."""
        life = self._lives.get((execution_id, incarnation), _Life())
        wanted = sorted(number for number in life.requests if number > after)
        return first_page((life.requests[each] for each in wanted), lambda request: len(request.body), limit_bytes)

    async def archived_lives(
        self, *, prefix: str = "", after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> Sequence[ArchivedLife]:
        """Return the lives of which something is kept; see `ArchiveStore.archived_lives`."""
        names = sorted(self._lives)
        names = [name for name in names[bisect_left(names, after) :] if name != after and name[0].startswith(prefix)]
        return [_told(*name, self._lives[name]) for name in names[:limit]]

    def _life(self, execution_id: ExecutionId, incarnation: Incarnation) -> _Life:
        return self._lives.setdefault((execution_id, incarnation), _Life())

    def _keep(self, kept: dict[int, R], given: Sequence[R], whose: tuple[ExecutionId, Incarnation, str]) -> None:
        new: dict[int, R] = {each[0]: each for each in given}
        refuse_others(kept, new, self.url, whose)
        kept.update(new)


def _told(execution_id: ExecutionId, incarnation: Incarnation, life: _Life) -> ArchivedLife:
    last = max(life.events, default=-1)
    return ArchivedLife(execution_id, incarnation, len(life.events), last, len(life.requests))
