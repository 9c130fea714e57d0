"""What is written, each function the inside of one immediate transaction.

Every call to sqlite3 lets go of the interpreter lock and may wait a whole switch interval to get it back, so a
batch is a handful of statements however large it is: the heads of all logs in one UPDATE, all events in one
INSERT. Only what is not plain (a new log, a lane, a mismatch) goes item by item.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import orjson

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.sqlite.connection import WritableDatabase
from loom.spi.event_store import (
    Append,
    Appended,
    AppendResult,
    Conflict,
    LaneNotEmpty,
    RequestKind,
    RequestTaken,
)

_BEGIN: Final = """
    INSERT INTO executions (length, flow, status, started_at, updated_at, wake_at, gates, attributes, appended, id)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO NOTHING
"""
# An index is rewritten when a column of it is assigned, even to the same value. So this statement assigns none
# of them, and holds only where they stay the same: which is nearly always, and saves pages at every commit.
_ADVANCE: Final = """
    UPDATE executions
    SET length = ?, updated_at = ?, gates = ?, attributes = ?, appended = ?
    WHERE run = ? AND length = ? AND id = ? AND flow = ? AND status = ? AND started_at = ? AND wake_at IS ?
"""
_ADVANCE_AND_MOVE: Final = """
    UPDATE executions
    SET length = ?, flow = ?, status = ?, started_at = ?, updated_at = ?, wake_at = ?, gates = ?, attributes = ?,
        appended = ?
    WHERE id = ? AND run = ? AND length = ?
"""
_LANE_EMPTY: Final = """
    AND NOT EXISTS (
        SELECT 1 FROM requests
        WHERE run = executions.run AND consumed = 0 AND number NOT IN (SELECT value FROM json_each(?))
    )
"""
_ADVANCE_TOGETHER: Final = """
    UPDATE executions
    SET length = new.length, flow = new.flow, status = new.status, started_at = new.started_at,
        updated_at = new.updated_at, wake_at = new.wake_at, gates = new.gates, attributes = new.attributes,
        appended = new.appended
    FROM (
        SELECT json_extract(value, '$[0]') AS length, json_extract(value, '$[1]') AS flow,
               json_extract(value, '$[2]') AS status, json_extract(value, '$[3]') AS started_at,
               json_extract(value, '$[4]') AS updated_at, json_extract(value, '$[5]') AS wake_at,
               json_extract(value, '$[6]') AS gates, json_extract(value, '$[7]') AS attributes,
               json_extract(value, '$[8]') AS appended, json_extract(value, '$[9]') AS id,
               json_extract(value, '$[10]') AS run, json_extract(value, '$[11]') AS expected
        FROM json_each(?)
    ) AS new
    WHERE executions.run = new.run AND executions.length = new.expected AND executions.id = new.id
"""
_STAND: Final = "SELECT run, length, appended FROM executions WHERE id = ?"
_EVENT: Final = "INSERT INTO events (run, sequence, type, at, payload, metadata) VALUES (?, ?, ?, ?, ?, ?)"
_EVENTS: Final = """
    INSERT INTO events (run, sequence, type, at, payload, metadata)
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
           json_extract(value, '$[3]'), substr(?2, json_extract(value, '$[4]'), json_extract(value, '$[5]')),
           CASE json_extract(value, '$[6]') WHEN 0 THEN NULL ELSE
               substr(?2, json_extract(value, '$[4]') + json_extract(value, '$[5]'), json_extract(value, '$[6]')) END
    FROM json_each(?1)
"""
_CONSUME: Final = "UPDATE requests SET consumed = 1 WHERE run = ? AND number IN (SELECT value FROM json_each(?))"
_LANE_LEFT: Final = """
    SELECT count(*) FROM requests
    WHERE run = ? AND consumed = 0 AND number NOT IN (SELECT value FROM json_each(?))
"""
_REQUEST: Final = """
    INSERT INTO requests (run, number, kind, key, at, body)
    SELECT run, (SELECT ifnull(max(number), 0) + 1 FROM requests WHERE run = executions.run), ?, ?, ?, ?
    FROM executions WHERE id = ? AND run = ?
    ON CONFLICT DO NOTHING
    RETURNING number
"""
_TAKEN: Final = "SELECT number, NOT consumed FROM requests WHERE run = ? AND key = ? AND key <> ''"
_CHUNK_BYTES: Final = 8 << 20
"""How many bytes of payloads are bound as one blob; SQLite's own limit is far beyond."""


EventRow: TypeAlias = "tuple[int | None, int, str, int, bytes, bytes]"
"""An event with the incarnation of its log before it."""

Written: TypeAlias = tuple[str, int, int]
"""What a transaction appended to a log: append id, expected length, length afterwards."""


class _NotAsExpected(Exception):
    """A log of the batch is not as its writer thought: the transaction is undone and goes item by item."""


def append(database: WritableDatabase, batch: Sequence[Append]) -> list[AppendResult]:
    """Apply *batch*; see `EventStore.append`."""
    if len(batch) > 1 and len({item.execution_id for item in batch}) == len(batch):
        try:
            return database.run(_append_together, batch)
        except _NotAsExpected:
            pass
    return database.run(_append_each, batch)


def insert_request(
    raw: sqlite3.Connection, execution_id: str, run: int, *, kind: RequestKind, key: str, at: int, body: bytes
) -> int | RequestTaken | None:
    """Add a request to a lane; see `RequestLane.insert`."""
    rows = raw.execute(_REQUEST, (kind, key, at, body, execution_id, run)).fetchall()
    if rows:
        number: int = rows[0][0]
        return number
    taken = raw.execute(_TAKEN, (run, key)).fetchone()
    return RequestTaken(taken[0], pending=bool(taken[1])) if taken else None


def _append_together(raw: sqlite3.Connection, batch: Sequence[Append]) -> list[AppendResult]:
    """Apply a batch of different logs that all are as expected.

    Raises:
        _NotAsExpected: one is not.
    """
    transaction = _Transaction(raw)
    transaction.apply_together([item for item in batch if _is_plain(item)])
    results = [_as_expected(item) if _is_plain(item) else transaction.apply(item) for item in batch]
    _insert_events(raw, transaction.events)
    return results


def _append_each(raw: sqlite3.Connection, batch: Sequence[Append]) -> list[AppendResult]:
    """Apply a batch in which logs may repeat, and may not be as expected."""
    transaction = _Transaction(raw)
    results = [transaction.apply(item) for item in batch]
    _insert_events(raw, transaction.events)
    return results


def _is_plain(item: Append) -> bool:
    return item.expected > 0 and not item.lane_empty and not item.consumes


class _Transaction:
    """One batch on its way in: the events it will insert, what it has appended where, and whom it has refused."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw
        self.events: list[EventRow] = []
        self._appended: dict[ExecutionId, list[Written]] = {}
        self._refused: set[ExecutionId] = set()

    def apply_together(self, items: Sequence[Append]) -> None:
        """Apply plain items of different logs in one statement.

        Raises:
            _NotAsExpected: one of them does not fit; the statement may have changed the others.
        """
        if not items:
            return
        heads = [(*_moved(item, self._remember(item)), *_place(item)) for item in items]
        if self._raw.execute(_ADVANCE_TOGETHER, (_json(heads),)).rowcount != len(items):
            raise _NotAsExpected
        for item in items:
            self._take_events(item, item.incarnation)

    def apply(self, item: Append) -> AppendResult:
        """Apply one item, or say why not."""
        result = self._begin(item) if item.expected == 0 and item.incarnation is None else self._advance(item)
        if not isinstance(result, Appended):
            self._refused.add(item.execution_id)
        return result

    def _begin(self, item: Append) -> AppendResult:
        if item.execution_id in self._refused:
            return self._explain(item)
        begun = self._raw.execute(_BEGIN, (*_moved(item, self._written(item)), item.execution_id))
        if begun.rowcount != 1:
            return self._explain(item)
        self._remember(item)
        self._take_events(item, begun.lastrowid)
        return Appended(Incarnation(begun.lastrowid or 0), len(item.events))

    def _advance(self, item: Append) -> AppendResult:
        if item.execution_id in self._refused or not self._move_head(item):
            return self._explain(item)
        self._remember(item)
        self._take_events(item, item.incarnation)
        if item.consumes:
            self._raw.execute(_CONSUME, (item.incarnation, _json(item.consumes)))
        return _as_expected(item)

    def _move_head(self, item: Append) -> bool:
        written = self._written(item)
        lane: tuple[str, ...] = (_json(item.consumes),) if item.lane_empty else ()
        condition = _LANE_EMPTY if item.lane_empty else ""
        light = self._raw.execute(_ADVANCE + condition, (*_advanced(item, written), *lane))
        if light.rowcount == 1:
            return True
        full = (*_moved(item, written), *_place(item), *lane)
        return self._raw.execute(_ADVANCE_AND_MOVE + condition, full).rowcount == 1

    def _explain(self, item: Append) -> AppendResult:
        """Say why *item* did not fit: written before, another length or life, or requests in the lane."""
        stand = self._raw.execute(_STAND, (item.execution_id,)).fetchone()
        if stand is None:
            return Conflict(0, None)
        run, length, appended = stand
        if item.execution_id in self._refused:
            return Conflict(length, run)
        for append_id, expected, length_then in orjson.loads(appended):
            if (append_id, expected) == (item.append_id, item.expected):
                self._appended.setdefault(item.execution_id, []).append((append_id, expected, length_then))
                return Appended(run, length_then)
        if (run, length) == (item.incarnation, item.expected):
            [left] = self._raw.execute(_LANE_LEFT, (run, _json(item.consumes))).fetchone()
            return LaneNotEmpty(left)
        return Conflict(length, run)

    def _written(self, item: Append) -> list[Written]:
        """What this transaction will have appended to the log of *item* once that is in."""
        earlier = self._appended.get(item.execution_id, [])
        return [*earlier, (item.append_id, item.expected, item.expected + len(item.events))]

    def _remember(self, item: Append) -> list[Written]:
        written = self._appended[item.execution_id] = self._written(item)
        return written

    def _take_events(self, item: Append, run: int | None) -> None:
        self.events.extend((run, *event) for event in item.events)


def _as_expected(item: Append) -> Appended:
    return Appended(Incarnation(item.incarnation or 0), item.expected + len(item.events))


def _moved(item: Append, written: Sequence[Written]) -> tuple[object, ...]:
    """The head and index row of the log once *item* is in."""
    index = item.index
    return (
        item.expected + len(item.events),
        index.flow,
        index.status,
        index.started_at,
        index.updated_at,
        index.wake_at,
        index.gates,
        index.attributes,
        _json(written),
    )


def _place(item: Append) -> tuple[object, ...]:
    """Where the log must stand for *item* to fit."""
    return item.execution_id, item.incarnation, item.expected


def _advanced(item: Append, written: Sequence[Written]) -> tuple[object, ...]:
    """The parameters of `_ADVANCE`."""
    index = item.index
    return (
        item.expected + len(item.events),
        index.updated_at,
        index.gates,
        index.attributes,
        _json(written),
        item.incarnation,
        item.expected,
        item.execution_id,
        index.flow,
        index.status,
        index.started_at,
        index.wake_at,
    )


def _insert_events(raw: sqlite3.Connection, rows: Sequence[EventRow]) -> None:
    for chunk in _chunks(rows):
        if len(chunk) == 1:
            run, sequence, kind, at, payload, metadata = chunk[0]
            raw.execute(_EVENT, (run, sequence, kind, at, payload, metadata or None))
        else:
            raw.execute(_EVENTS, _packed(chunk))


def _chunks(rows: Sequence[EventRow]) -> Iterator[Sequence[EventRow]]:
    first = size = 0
    for place, row in enumerate(rows):
        size += len(row[4]) + len(row[5])
        if size > _CHUNK_BYTES and place > first:
            yield rows[first:place]
            first, size = place, len(row[4]) + len(row[5])
    if rows:
        yield rows[first:]


def _packed(rows: Sequence[EventRow]) -> tuple[str, bytes]:
    """The rows as JSON, and their payloads and metadata as one blob to which it points (counting from 1)."""
    heads: list[tuple[object, ...]] = []
    parts: list[bytes] = []
    place = 1
    for run, sequence, kind, at, payload, metadata in rows:
        heads.append((run, sequence, kind, at, place, len(payload), len(metadata)))
        parts += (payload, metadata)
        place += len(payload) + len(metadata)
    return _json(heads), b"".join(parts)


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
