"""Where compaction puts what it takes out of a log: copies of events and of consumed requests, kept apart from the store.

An archive is a store of its own, opened for that purpose. It is written and read by whoever asks for it; no run, no replay and
no listing of a store ever looks into one.

What it keeps belongs to one *life* of an execution: an id that is used again after its run was deleted has another incarnation,
and so is never mixed with what went before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.errors import ArchiveConflict
from loom.spi.event_store import EventRecord, Request

ARCHIVE_STORE_SPI_VERSION: Final = "1.0.0"


class ArchivedLife(NamedTuple):
    """What an archive holds of one life of an execution: how many *events*, the *last* of them, and how many *requests*.

    *last* is its sequence, -1 where there is none.
    """

    execution_id: ExecutionId
    incarnation: Incarnation
    events: int
    last: int
    requests: int


@runtime_checkable
class ArchiveStore(Protocol):
    """Keeps copies for ever. Any number of processes may share one.

    To put the same copy in again changes nothing: who was cut off begins anew. On return of what writes, everything survives
    a crash of the machine.
    """

    @property
    def url(self) -> str:
        """The name of the archive in messages, with no password in it."""
        ...

    async def open(self) -> None:
        """Open it now rather than at first use; to do so again does nothing."""
        ...

    async def close(self) -> None:
        """Release every connection, thread and handle; it may be opened again."""
        ...

    async def archive(self, execution_id: ExecutionId, incarnation: Incarnation, events: Sequence[EventRecord]) -> None:
        """Keep *events* of that life, each under its sequence, in any order: all of them or none.

        Raises:
            ArchiveConflict: another event is kept under one of the sequences; nothing was written.
            StoreUnavailable: nothing is known to be written; asking again is safe.
        """
        ...

    async def archive_requests(
        self, execution_id: ExecutionId, incarnation: Incarnation, requests: Sequence[Request]
    ) -> None:
        """Keep *requests* of the lane of that life, each under its number; as `archive`."""
        ...

    async def read_archived(
        self,
        execution_id: ExecutionId,
        incarnation: Incarnation,
        *,
        start: int = 0,
        stop: int | None = None,
        limit_bytes: int = 4 << 20,
    ) -> Sequence[EventRecord]:
        """Return the events kept of that life, by sequence: a page, as of `EventStore.read`. There may be gaps."""
        ...

    async def archived_requests(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, after: int = 0, limit_bytes: int = 4 << 20
    ) -> Sequence[Request]:
        """Return the requests kept of the lane of that life with a number above *after*, in order: a page as well."""
        ...

    async def archived_lives(
        self, *, prefix: str = "", after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> Sequence[ArchivedLife]:
        """Return up to *limit* lives of ids that start with *prefix*, by id (code point order) and incarnation.

        *after* is the id and incarnation of the last one seen.
        """
        ...


def refuse_others(
    kept: Mapping[int, Any], new: Mapping[int, Any], url: str, whose: tuple[ExecutionId, Incarnation, str]
) -> None:
    """Refuse what is not what is *kept* under the same number; *whose* it is: id, life, and what it is.

    Raises:
        ArchiveConflict: something is.
    """
    for number in sorted(new):
        if number in kept and kept[number] != new[number]:
            execution_id, incarnation, what = whose
            raise ArchiveConflict(
                store=url, execution_id=execution_id, incarnation=incarnation, what=f"{what} {number}"
            )
