"""Taking in whole logs into Postgres: the part of `PostgresStorage` that is an `EventImport`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import orjson

from loom.core.ids import Incarnation
from loom.plugins.postgres.session import Raw
from loom.plugins.postgres.snapshots import put
from loom.spi.event_import import Arrival, Brought, Taken
from loom.spi.event_store import EventRecord, Head
from loom.spi.feed import Wakes
from loom.spi.snapshot_store import reborn
from loom.spi.where import searchable

T = TypeVar("T")

_BEGIN: Final = """
    INSERT INTO loom.executions (id, length, flow, status, started_at, updated_at, wake_at, gates, attributes,
                                 chain, link, parent, ended, ended_at, appended)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, '[]')
    ON CONFLICT (id) DO NOTHING RETURNING run
"""
_ATTRIBUTES: Final = "SELECT loom.write_attributes($1, $2::jsonb)"
_FORK: Final = (
    "INSERT INTO loom.forks (run, source, through) SELECT $1, run, $2::bigint FROM loom.executions WHERE id = $3"
)
# The first event of all is the change: see changes.py.
_EVENTS: Final = """
    INSERT INTO loom.events (run, sequence, type, at, payload, metadata, changed)
    SELECT $1, e.sequence, e.type, e.at, e.payload, nullif(e.metadata, ''), CASE WHEN e.sequence = $7 THEN loom.changed($1) END
    FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bytea[], $6::bytea[])
        AS e(sequence, type, at, payload, metadata)
"""


class _IsTaken(Exception):
    def __init__(self, taken: Taken) -> None:
        self.taken = taken
        super().__init__(taken)


class PostgresImport(ABC):
    """Takes in logs that were written elsewhere; how a statement gets to the database is the storage's business."""

    _wakes: Wakes

    @abstractmethod
    async def _change(self, work: Callable[[Raw], Awaitable[T]], *, repeatable: bool = True) -> T: ...

    async def bring(self, arrivals: Sequence[Arrival]) -> Brought:
        """Write all logs that arrive, or none; see `EventImport.bring`."""

        async def work(raw: Raw) -> list[Head]:
            async with raw.transaction():
                return [await _begun(raw, arrival) for arrival in arrivals]

        try:
            heads = await self._change(work)
        except _IsTaken as refused:  # raised through the transaction, which undoes what was written of it
            return refused.taken
        self._wakes.wake({head.execution_id for head in heads})
        return heads


async def _begun(raw: Raw, arrival: Arrival) -> Head:
    id, index = arrival.execution_id, arrival.index
    about = (index.flow, index.status, index.started_at, index.updated_at, index.wake_at, index.gates, index.attributes)
    chain = None if index.chain == id else index.chain
    ended_at = index.updated_at if index.ended else None
    place = (chain, index.link, index.parent or None, index.ended, ended_at)
    run = await raw.fetchval(_BEGIN, id, arrival.length, *about, *place)
    if run is None:
        raise _IsTaken(Taken(id))
    if pairs := list(searchable(index.attributes).items()):
        await raw.execute(_ATTRIBUTES, run, orjson.dumps(pairs).decode())
    if arrival.source is not None:
        await raw.execute(_FORK, run, arrival.source[1], arrival.source[0])
    first: int | None = None
    for page in arrival.pages():
        first = page[0].sequence if first is None else first
        columns = [[each[place] for each in page] for place in range(len(EventRecord._fields))]
        await raw.execute(_EVENTS, run, *columns, first)
    if arrival.checkpoint is not None:
        await put(raw, reborn(arrival.checkpoint, Incarnation(run)))
    return Head(id, Incarnation(run), arrival.length)
