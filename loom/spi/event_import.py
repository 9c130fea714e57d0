"""Bringing whole logs into a store that were written in another: what an import stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from loom.core.ids import ExecutionId
from loom.spi.event_store import EventRecord, Head, IndexRow
from loom.spi.snapshot_store import Snapshot

EVENT_IMPORT_SPI_VERSION: Final = "1.0.0"

Pages: TypeAlias = Callable[[], Iterable[Sequence[EventRecord]]]
"""Gives the events of a log in order, from the first on, a page at a time; again each time it is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A log that is to be in the store, of *length* events, with what listings show of it.

    Where some of *pages* are missing, *checkpoint* stands for them; its life is that of the store it comes from. *source* is the execution
    that it is a fork of, and the last event that they share, where that one arrives with it, before it.
    """

    execution_id: ExecutionId
    index: IndexRow
    length: int
    pages: Pages
    checkpoint: Snapshot | None = None
    source: tuple[ExecutionId, int] | None = None


class Taken(NamedTuple):
    """There is a log under the id of one of the arrivals already; nothing was written."""

    execution_id: ExecutionId


Brought: TypeAlias = Sequence[Head] | Taken


@runtime_checkable
class EventImport(Protocol):
    """A store that takes in whole logs."""

    async def bring(self, arrivals: Sequence[Arrival]) -> Brought:
        """Write all logs that arrive, of different ids, in one transaction; return where they stand, in order.

        The events are written as they are, and a page is asked for when the one before it is written, perhaps on another thread. Each log
        has a new life and an empty lane, and nobody holds it. One that has ended did so at the `updated_at` of its row. What
        *pages* raises is raised, and nothing is written.

        Raises:
            StoreUnavailable: all of them are there or none; to ask again is safe, and gives `Taken` where they are.
        """
        ...
