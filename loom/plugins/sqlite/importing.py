"""Taking in whole logs into SQLite: the part of `SqliteStorage` that is an `EventImport`."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Concatenate, Final, ParamSpec, TypeVar

from loom.core.ids import Incarnation
from loom.plugins.sqlite.searching import write_attributes
from loom.plugins.sqlite.snapshots import put
from loom.plugins.sqlite.writing import insert_events
from loom.spi.event_import import Arrival, Brought, Taken
from loom.spi.event_store import Head
from loom.spi.feed import Wakes
from loom.spi.snapshot_store import reborn

P = ParamSpec("P")
T = TypeVar("T")

_BEGIN: Final = """
    INSERT INTO executions (id, length, flow, status, started_at, updated_at, wake_at, gates, attributes,
                            chain, link, parent, ended, ended_at, appended)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '[]')
    ON CONFLICT (id) DO NOTHING
"""
_FORK: Final = "INSERT INTO forks (run, source, through) SELECT ?, run, ? FROM executions WHERE id = ?"


class _IsTaken(Exception):
    def __init__(self, taken: Taken) -> None:
        self.taken = taken
        super().__init__(taken)


class SqliteImport(ABC):
    """Takes in logs that were written elsewhere; how a statement gets to the database is the storage's business."""

    _wakes: Wakes

    @abstractmethod
    async def _transact(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def bring(self, arrivals: Sequence[Arrival]) -> Brought:
        """Write all logs that arrive, or none; see `EventImport.bring`. Other writers wait meanwhile."""
        try:
            heads = await self._transact(_bring, arrivals)
        except _IsTaken as refused:  # raised through the transaction, which undoes what was written of it
            return refused.taken
        self._wakes.wake({head.execution_id for head in heads})
        return heads


def _bring(raw: sqlite3.Connection, arrivals: Sequence[Arrival]) -> list[Head]:
    return [_begin(raw, arrival) for arrival in arrivals]


def _begin(raw: sqlite3.Connection, arrival: Arrival) -> Head:
    id, index = arrival.execution_id, arrival.index
    about = (index.flow, index.status, index.started_at, index.updated_at, index.wake_at, index.gates, index.attributes)
    chain = None if index.chain == id else index.chain
    ended_at = index.updated_at if index.ended else None
    place = (chain, index.link, index.parent or None, index.ended, ended_at)
    begun = raw.execute(_BEGIN, (id, arrival.length, *about, *place))
    if begun.rowcount == 0:
        raise _IsTaken(Taken(id))
    run = Incarnation(begun.lastrowid or 0)
    write_attributes(raw, [(run, index.attributes)])
    if arrival.source is not None:
        raw.execute(_FORK, (run, arrival.source[1], arrival.source[0]))
    for page in arrival.pages():
        insert_events(raw, [(run, *record) for record in page])
    if arrival.checkpoint is not None:
        put(raw, reborn(arrival.checkpoint, run))
    return Head(id, run, arrival.length)
