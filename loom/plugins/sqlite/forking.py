"""Copying the beginning of a log inside SQLite: the part of `SqliteStorage` that is an `EventFork`."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Concatenate, Final, ParamSpec, TypeVar

import orjson

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.sqlite.searching import write_attributes
from loom.plugins.sqlite.snapshots import put
from loom.spi.event_fork import Fork, Forked, Source, SourceLacking
from loom.spi.event_store import Append, Appended, Conflict
from loom.spi.feed import Wakes
from loom.spi.snapshot_store import Snapshot, reborn

P = ParamSpec("P")
T = TypeVar("T")

_TAKEN: Final = "SELECT run, length, json(appended) FROM executions WHERE id = ?"
_SOURCE: Final = """
    SELECT run, (SELECT count(*) FROM events WHERE events.run = executions.run AND sequence BETWEEN ? AND ?)
    FROM executions WHERE id = ?
"""
_BEGIN: Final = """
    INSERT INTO executions (id, length, flow, status, started_at, updated_at, wake_at, gates, attributes, parent, appended)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_COPY: Final = """
    INSERT INTO events (run, sequence, type, at, payload, metadata)
    SELECT ?, sequence, type, at, payload, metadata FROM events WHERE run = ? AND sequence <= ? ORDER BY sequence
"""
_WITH: Final = "SELECT payload FROM events WHERE run = ? AND sequence <= ? AND instr(payload, ?) ORDER BY sequence"
_NOTE: Final = "INSERT INTO forks (run, source, through) VALUES (?, ?, ?)"
_FORKS: Final = """
    SELECT e.id, e.run, f.through
    FROM forks AS f JOIN executions AS e ON e.run = f.run
    WHERE f.source = (SELECT run FROM executions WHERE id = ? AND run = ?) ORDER BY f.run
"""
_SOURCE_OF: Final = """
    SELECT s.id, s.run, f.through
    FROM executions AS e JOIN forks AS f ON f.run = e.run JOIN executions AS s ON s.run = f.source WHERE e.id = ?
"""
_ADD: Final = "INSERT INTO events (run, sequence, type, at, payload, metadata) VALUES (?, ?, ?, ?, ?, nullif(?, x''))"


class SqliteForks(ABC):
    """Begins logs with a copy; how a statement gets to the database is the storage's business."""

    _wakes: Wakes

    @abstractmethod
    async def _read(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @abstractmethod
    async def _transact(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def fork(self, source: Source, item: Append, *, checkpoint: Snapshot | None = None) -> Forked:
        """Begin the log of *item* with a copy of *source*; see `EventFork.fork`."""
        forked = await self._transact(_fork, source, item, checkpoint)
        self._wakes.wake({item.execution_id})
        return forked

    async def payloads_with(self, source: Source, text: bytes) -> Sequence[bytes]:
        """Return the payloads that hold *text*; see `EventFork.payloads_with`."""
        return await self._read(_payloads_with, source, text)

    async def forks_of(self, execution_id: ExecutionId, incarnation: Incarnation) -> Sequence[Fork]:
        """Return the forks of one life of an execution; see `EventFork.forks_of`."""
        return await self._read(_forks, execution_id, incarnation)

    async def source_of(self, execution_id: ExecutionId) -> Source | None:
        """Return what an execution is a fork of; see `EventFork.source_of`."""
        return await self._read(_source_of, execution_id)


def _fork(raw: sqlite3.Connection, source: Source, item: Append, checkpoint: Snapshot | None) -> Forked:
    taken = raw.execute(_TAKEN, (item.execution_id,)).fetchone()
    if taken is not None:
        run, length, appended = taken
        again = any(name == item.append_id and at == item.expected for name, at, _ in orjson.loads(appended))
        return Appended(Incarnation(run), length) if again else Conflict(length, Incarnation(run))
    whole_from = checkpoint.head.sequence + 1 if checkpoint is not None else 0
    found = raw.execute(_SOURCE, (whole_from, source.through, source.execution_id)).fetchone()
    if found != (source.incarnation, source.through + 1 - whole_from):
        return SourceLacking()
    index, length = item.index, item.expected + len(item.events)
    memo = orjson.dumps([(item.append_id, item.expected, length)]).decode()
    about = (index.flow, index.status, index.started_at, index.updated_at, index.wake_at, index.gates, index.attributes)
    run = raw.execute(_BEGIN, (item.execution_id, length, *about, index.parent or None, memo)).lastrowid
    write_attributes(raw, [(run or 0, index.attributes)])
    raw.execute(_COPY, (run, source.incarnation, source.through))
    raw.execute(_NOTE, (run, source.incarnation, source.through))
    raw.executemany(_ADD, [(run, *event) for event in item.events])
    if checkpoint is not None:
        put(raw, reborn(checkpoint, Incarnation(run or 0)))
    return Appended(Incarnation(run or 0), length)


def _payloads_with(raw: sqlite3.Connection, source: Source, text: bytes) -> list[bytes]:
    return [payload for (payload,) in raw.execute(_WITH, (source.incarnation, source.through, text))]


def _forks(raw: sqlite3.Connection, execution_id: str, incarnation: int) -> list[Fork]:
    return [Fork._make(row) for row in raw.execute(_FORKS, (execution_id, incarnation))]


def _source_of(raw: sqlite3.Connection, execution_id: str) -> Source | None:
    row = raw.execute(_SOURCE_OF, (execution_id,)).fetchone()
    return Source._make(row) if row else None
