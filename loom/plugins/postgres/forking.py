"""Copying the beginning of a log inside Postgres: the part of `PostgresStorage` that is an `EventFork`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.postgres.session import Raw
from loom.plugins.postgres.snapshots import put
from loom.spi.event_fork import Fork, Forked, Source, SourceLacking
from loom.spi.event_store import Append, Appended, Conflict, EventRecord
from loom.spi.feed import Wakes
from loom.spi.snapshot_store import Snapshot, reborn
from loom.spi.where import searchable

T = TypeVar("T")

_FORKS: Final = """
    SELECT e.id, e.run, f.through
    FROM loom.forks AS f JOIN loom.executions AS e ON e.run = f.run
    WHERE f.source = (SELECT run FROM loom.executions WHERE id = $1 AND run = $2) ORDER BY f.run
"""
_SOURCE_OF: Final = """
    SELECT s.id, s.run, f.through
    FROM loom.executions AS e JOIN loom.forks AS f ON f.run = e.run JOIN loom.executions AS s ON s.run = f.source
    WHERE e.id = $1
"""
_WITH: Final = """
    SELECT payload FROM loom.events
    WHERE run = $1 AND sequence <= $2 AND position($3::bytea IN payload) > 0 ORDER BY sequence
"""
FORK: Final = (
    "SELECT loom.fork($1, $2, $3, $4, $5::jsonb, $6::bigint[], $7::text[], $8::bigint[], $9::bytea[], $10::bytea[])"
)


class PostgresForks(ABC):
    """Begins logs with a copy; how a statement gets to the database is the storage's business."""

    _wakes: Wakes

    @abstractmethod
    async def _read(self, work: Callable[[Raw], Awaitable[T]]) -> T: ...

    @abstractmethod
    async def _change(self, work: Callable[[Raw], Awaitable[T]], *, repeatable: bool = True) -> T: ...

    async def fork(self, source: Source, item: Append, *, checkpoint: Snapshot | None = None) -> Forked:
        """Begin the log of *item* with a copy of *source*, in one round trip; see `EventFork.fork`."""
        index, length = item.index, item.expected + len(item.events)
        head = {
            "id": item.execution_id,
            "length": length,
            "flow": index.flow,
            "status": index.status,
            "started_at": index.started_at,
            "updated_at": index.updated_at,
            "wake_at": index.wake_at,
            "gates": index.gates,
            "attributes": index.attributes,
            "pairs": list(searchable(index.attributes).items()),
            "parent": index.parent or None,
            "appended": [[item.append_id, item.expected, length]],
        }
        columns = [[event[place] for event in item.events] for place in range(len(EventRecord._fields))]

        base = checkpoint.head.sequence if checkpoint is not None else -1

        async def work(raw: Raw) -> list[Any]:
            found: list[Any] = json.loads(await raw.fetchval(FORK, *source, base, json.dumps(head), *columns))
            return found

        async def work_and_keep(raw: Raw) -> list[Any]:
            async with raw.transaction():
                found = await work(raw)
                if checkpoint is not None and found[0] == "begun":
                    await put(raw, reborn(checkpoint, Incarnation(found[2])))
                return found

        kind, *numbers = await self._change(work if checkpoint is None else work_and_keep)
        self._wakes.wake({item.execution_id})
        if kind == "lacking":
            return SourceLacking()
        length, run = numbers
        return (
            Appended(Incarnation(run), length) if kind in ("begun", "appended") else Conflict(length, Incarnation(run))
        )

    async def payloads_with(self, source: Source, text: bytes) -> Sequence[bytes]:
        """Return the payloads that hold *text*; see `EventFork.payloads_with`."""
        rows = await self._read(lambda raw: raw.fetch(_WITH, source.incarnation, source.through, text))
        return [row[0] for row in rows]

    async def forks_of(self, execution_id: ExecutionId, incarnation: Incarnation) -> Sequence[Fork]:
        """Return the forks of one life of an execution; see `EventFork.forks_of`."""
        rows = await self._read(lambda raw: raw.fetch(_FORKS, execution_id, incarnation))
        return [Fork(*row) for row in rows]

    async def source_of(self, execution_id: ExecutionId) -> Source | None:
        """Return what an execution is a fork of; see `EventFork.source_of`."""
        row = await self._read(lambda raw: raw.fetchrow(_SOURCE_OF, execution_id))
        return Source(*row) if row is not None else None
