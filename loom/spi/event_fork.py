"""Copying the beginning of a log into a new one, inside the store (spec 4.5, D12): what a fork stands on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.event_store import Append, Appended, Conflict
from loom.spi.snapshot_store import Snapshot

EVENT_FORK_SPI_VERSION: Final = "1.0.0"


class Source(NamedTuple):
    """The events of one life of an execution, from 0 up to and including *through*."""

    execution_id: ExecutionId
    incarnation: Incarnation
    through: int


class Fork(NamedTuple):
    """An execution that began as a copy of another, up to and including event *through* of that."""

    execution_id: ExecutionId
    incarnation: Incarnation
    through: int


class SourceLacking(NamedTuple):
    """The log that was to be copied is not there in that life, or lacks some of the events; nothing was written."""


Forked: TypeAlias = Appended | Conflict | SourceLacking


@runtime_checkable
class EventFork(Protocol):
    """A store that can begin a log with a copy of another."""

    async def fork(self, source: Source, item: Append, *, checkpoint: Snapshot | None = None) -> Forked:
        """Begin the log of *item* with a copy of *source*, and append its events, in one transaction.

        The events are copied as they are, without a look at what is in them. *item* begins a log: it has no incarnation, and its
        *expected* is the length of the copy. Of the rest of it only `append_id`, `events` and `index` count; the new log has an
        empty lane, and nobody holds it. Where its id is taken it is a `Conflict`, unless this very item was written before.

        Where the source was compacted, *checkpoint* is the state of the new log at or before `through`: of the events up to it
        those are copied that are there, all after it must be, and it is kept as the checkpoint of the new log, `reborn` in its life.

        Raises:
            StoreUnavailable: nothing is known to be written; asking again with the same append id is safe.
        """
        ...

    async def payloads_with(self, source: Source, text: bytes) -> Sequence[bytes]:
        """Return the payloads of the events of *source* that hold *text*, in order; none where that life is gone."""
        ...

    async def forks_of(self, execution_id: ExecutionId, incarnation: Incarnation) -> Sequence[Fork]:
        """Return the forks of one life of an execution that are there, in the order in which they were made."""
        ...

    async def source_of(self, execution_id: ExecutionId) -> Source | None:
        """Return what an execution is a fork of; None when it is none, or that life of its source is gone."""
        ...
