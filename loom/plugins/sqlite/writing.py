"""What is written: any number of writes in one immediate transaction, with one fsync and a handful of statements.

Every call to sqlite3 lets go of the interpreter lock and may wait a whole switch interval to get it back, so the
number of statements does not depend on how much is written: one reads where all the logs stand, what follows is
decided in plain Python (deciding.py), and each table is written once. Only a lone item needs no reading first.
"""

from __future__ import annotations

import copy
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.sqlite.connection import WritableDatabase
from loom.plugins.sqlite.deciding import Decisions, EventRow, Insert, RequestRow, Sorted, Stand, Write, WriteResult
from loom.plugins.sqlite.failures import is_busy
from loom.spi.event_store import Append, Appended

_STANDS: Final = """
    WITH asked AS (
        SELECT json_extract(value, '$[0]') AS name, json_extract(value, '$[1]') AS parks,
               json_extract(value, '$[2]') AS keys
        FROM json_each(?)
    )
    SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'executions'),
           json_group_array(json_array(
               id, run, length, flow, status, started_at, wake_at, json(appended),
               CASE WHEN asked.parks THEN json((
                   SELECT json_group_array(number) FROM requests INDEXED BY requests_pending
                   WHERE run = executions.run AND consumed = 0)) END,
               CASE WHEN asked.keys IS NOT NULL THEN json((
                   SELECT json_group_array(json_array(number, key, consumed)) FROM requests INDEXED BY requests_once
                   WHERE run = executions.run AND key <> '' AND key IN (SELECT value FROM json_each(asked.keys)))) END,
               CASE WHEN asked.keys IS NOT NULL THEN (SELECT max(number) FROM requests WHERE run = executions.run) END
           ))
    FROM asked JOIN executions ON executions.id = asked.name
"""
_BEGIN: Final = """
    INSERT INTO executions (run, length, updated_at, gates, attributes, appended,
                            flow, status, started_at, wake_at, id)
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
           json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]'),
           json_extract(value, '$[6]'), json_extract(value, '$[7]'), json_extract(value, '$[8]'),
           json_extract(value, '$[9]'), json_extract(value, '$[10]')
    FROM json_each(?)
"""
# An index is rewritten when a column of it is assigned, even to the same value. So this statement assigns none
# of those that listings are sorted by: they nearly always stay the same, and it saves pages at every commit.
_ADVANCE: Final = """
    UPDATE executions
    SET length = new.length, updated_at = new.updated_at, gates = new.gates, attributes = new.attributes,
        appended = new.appended
    FROM (
        SELECT json_extract(value, '$[0]') AS run, json_extract(value, '$[1]') AS length,
               json_extract(value, '$[2]') AS updated_at, json_extract(value, '$[3]') AS gates,
               json_extract(value, '$[4]') AS attributes, json_extract(value, '$[5]') AS appended
        FROM json_each(?)
    ) AS new
    WHERE executions.run = new.run
"""
_ADVANCE_ONE: Final = """
    UPDATE executions
    SET length = ?, updated_at = ?, gates = ?, attributes = ?, appended = ?
    WHERE run = ? AND length = ? AND id = ? AND flow = ? AND status = ? AND started_at = ? AND wake_at IS ?
"""
_ADVANCE_AND_MOVE: Final = """
    UPDATE executions
    SET length = new.length, updated_at = new.updated_at, gates = new.gates, attributes = new.attributes,
        appended = new.appended, flow = new.flow, status = new.status, started_at = new.started_at,
        wake_at = new.wake_at
    FROM (
        SELECT json_extract(value, '$[0]') AS run, json_extract(value, '$[1]') AS length,
               json_extract(value, '$[2]') AS updated_at, json_extract(value, '$[3]') AS gates,
               json_extract(value, '$[4]') AS attributes, json_extract(value, '$[5]') AS appended,
               json_extract(value, '$[6]') AS flow, json_extract(value, '$[7]') AS status,
               json_extract(value, '$[8]') AS started_at, json_extract(value, '$[9]') AS wake_at
        FROM json_each(?)
    ) AS new
    WHERE executions.run = new.run
"""
_FEW: Final = 16
"""So many events are bound one by one, in half the time; each number of them is a statement that SQLite must keep."""
_EVENTS_FEW: Final = tuple(
    "INSERT INTO events (run, sequence, type, at, payload, metadata) VALUES "  # noqa: S608  # our own text
    + ", ".join(["(?, ?, ?, ?, ?, nullif(?, x''))"] * count)
    for count in range(_FEW + 1)
)
_EVENTS: Final = """
    INSERT INTO events (run, sequence, type, at, payload, metadata)
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
           json_extract(value, '$[3]'),
           ifnull(substr(?2, json_extract(value, '$[4]'), json_extract(value, '$[5]')), x''),
           CASE json_extract(value, '$[6]') WHEN 0 THEN NULL ELSE
               substr(?2, json_extract(value, '$[4]') + json_extract(value, '$[5]'), json_extract(value, '$[6]')) END
    FROM json_each(?1)
"""
_REQUESTS: Final = """
    INSERT INTO requests (run, number, kind, key, at, body)
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
           json_extract(value, '$[3]'), json_extract(value, '$[4]'),
           ifnull(substr(?2, json_extract(value, '$[5]'), json_extract(value, '$[6]')), x'')
    FROM json_each(?1)
"""
_CONSUME: Final = """
    UPDATE requests SET consumed = 1
    WHERE (run, number) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?))
"""
_CHUNK_BYTES: Final = 8 << 20
"""How many bytes of payloads are bound as one blob; SQLite's own limit is far beyond."""


def write(database: WritableDatabase, writes: Sequence[Write]) -> Sequence[WriteResult | Exception]:
    """Make all *writes* in one transaction and return the result of each, or its error.

    Where the transaction fails, each write is tried in one of its own, so that none fails for what is wrong with
    another; unless a lock is the reason, which would be waited for again and again.
    """
    try:
        return database.run(_write, writes)
    except Exception as error:  # noqa: BLE001  # whoever asked is told
        if len(writes) == 1:
            return [error]
        if isinstance(error, LoomError) and isinstance(error.__cause__, Exception) and is_busy(error.__cause__):
            return [_like(error) for _ in writes]
        return [result for alone in writes for result in write(database, [alone])]


def _like(error: LoomError) -> LoomError:
    """Return the same error anew: each who raises it leaves a trace in it."""
    another = copy.copy(error)
    another.__cause__ = error.__cause__
    return another


def _write(raw: sqlite3.Connection, writes: Sequence[Write]) -> list[WriteResult]:
    """Read where the logs stand, decide, and write what was decided: the inside of a transaction."""
    alone = _alone(writes)
    if alone is not None and _advance(raw, alone):
        return [[Appended(alone.incarnation or Incarnation(0), alone.expected + len(alone.events))]]
    decisions = _stands(raw, writes)
    results = [decisions.decide(each) for each in writes]
    _write_heads(raw, decisions)
    _insert_events(raw, decisions.events)
    _insert_requests(raw, decisions.requests)
    if decisions.consumed:
        raw.execute(_CONSUME, (_json(decisions.consumed),))
    return results


def _alone(writes: Sequence[Write]) -> Append | None:
    """Return the one item there is, if it does nothing but go on with a log: most often there is nothing else."""
    if len(writes) > 1 or isinstance(writes[0], Insert) or len(writes[0]) > 1:
        return None
    [item] = writes[0]
    return item if item.expected and item.events and not item.consumes and item.lane_above is None else None


def _advance(raw: sqlite3.Connection, item: Append) -> bool:
    """Write *item* if its log stands where it should and stays sorted as it is; else change nothing."""
    index, length = item.index, item.expected + len(item.events)
    head = (length, index.updated_at, index.gates, index.attributes, _json([(item.append_id, item.expected, length)]))
    place = (item.incarnation, item.expected, item.execution_id)
    was = (index.flow, index.status, index.started_at, index.wake_at)
    fits = raw.execute(_ADVANCE_ONE, (*head, *place, *was)).rowcount == 1
    if fits:
        _insert_events(raw, [(item.incarnation or Incarnation(0), *event) for event in item.events])
    return fits


def _stands(raw: sqlite3.Connection, writes: Sequence[Write]) -> Decisions:
    """Read where the logs stand, and of their lanes only what is asked about: all that is pending, or some keys."""
    parks: dict[ExecutionId, bool] = {}
    keys: dict[ExecutionId, list[str]] = {}
    for each in writes:
        if isinstance(each, Insert):
            parks.setdefault(each.execution_id, False)
            keys.setdefault(each.execution_id, []).append(each.key)
        else:
            for item in each:
                parks[item.execution_id] = item.lane_above is not None or parks.get(item.execution_id, False)
    asked = [(name, parked, keys.get(name)) for name, parked in parks.items()]
    [last, stands] = raw.execute(_STANDS, (_json(asked),)).fetchone()
    return Decisions({row[0]: _stand(row) for row in orjson.loads(stands)}, last or 0)


def _stand(row: Sequence[Any]) -> Stand:
    _id, run, length, flow, status, started_at, wake_at, appended, pending, keys, last = row
    taken = keys or ()
    return Stand(
        incarnation=Incarnation(run),
        length=length,
        was=(flow, status, started_at, wake_at),
        appended={(append_id, expected): then for append_id, expected, then in appended},
        pending={*(pending or ()), *(number for number, _, consumed in taken if not consumed)},
        last=last or 0,
        keys={key: number for number, key, _ in taken},
    )


def _write_heads(raw: sqlite3.Connection, decisions: Decisions) -> None:
    begun: list[object] = []
    advanced: list[object] = []
    moved: list[object] = []
    for execution_id, stand in decisions.stands.items():
        if stand.index is None:
            continue
        index = stand.index
        place: Sorted = (index.flow, index.status, index.started_at, index.wake_at)
        appended = _json([(*name, then) for name, then in stand.appended.items()])
        head = (stand.incarnation, stand.length, index.updated_at, index.gates, index.attributes, appended)
        if stand.was is None:
            begun.append((*head, *place, execution_id))
        elif stand.was == place:
            advanced.append(head)
        else:
            moved.append((*head, *place))
    for statement, rows in ((_BEGIN, begun), (_ADVANCE, advanced), (_ADVANCE_AND_MOVE, moved)):
        if rows:
            raw.execute(statement, (_json(rows),))


def _insert_events(raw: sqlite3.Connection, rows: Sequence[EventRow]) -> None:
    for chunk in _chunks(rows):
        if len(chunk) <= _FEW:
            raw.execute(_EVENTS_FEW[len(chunk)], [value for row in chunk for value in row])
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


def _insert_requests(raw: sqlite3.Connection, rows: Sequence[RequestRow]) -> None:
    heads: list[tuple[object, ...]] = []
    place = 1
    for *head, body in rows:
        heads.append((*head, place, len(body)))
        place += len(body)
    if rows:
        raw.execute(_REQUESTS, (_json(heads), b"".join(row[5] for row in rows)))


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
