"""What is written: any number of writes in one immediate transaction, with one fsync and a handful of statements.

Every call to sqlite3 lets go of the interpreter lock and may wait a whole switch interval to get it back, so the
number of statements hardly depends on how much is written: one reads where all the logs stand, what follows is decided
in plain Python (deciding.py), and each table is written at once. What only goes on needs no reading first (going_on.py).
"""

from __future__ import annotations

import copy
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import orjson

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.sqlite.deciding import Decisions, EventRow, Insert, RequestRow, Stand, Write, WriteResult, place_of
from loom.plugins.sqlite.failures import is_busy
from loom.plugins.sqlite.going_on import DoesNotFit, Going, consume, go_on, going_on
from loom.plugins.sqlite.searching import forget_attributes, write_attributes
from loom.plugins.sqlite.standing import stands
from loom.plugins.sqlite.writable import WritableDatabase
from loom.spi.event_store import Append, Appended, IndexRow

_BEGIN: Final = """
    INSERT INTO executions (run, length, updated_at, gates, appended,
                            flow, started_at, status, wake_at, ended, attributes,
                            driver, leased_until, released, called, called_at, ended_at, id, chain, link, parent)
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'),
           json_extract(value, '$[2]'), json_extract(value, '$[3]'),
           json_extract(value, '$[4]'), json_extract(value, '$[5]'),
           json_extract(value, '$[6]'), json_extract(value, '$[7]'),
           json_extract(value, '$[8]'), json_extract(value, '$[9]'),
           json_extract(value, '$[10]'), json_extract(value, '$[11]'),
           json_extract(value, '$[12]'), json_extract(value, '$[13]'),
           json_extract(value, '$[14]'), json_extract(value, '$[15]'),
           json_extract(value, '$[16]'), json_extract(value, '$[17]'),
           json_extract(value, '$[18]'), json_extract(value, '$[19]'),
           json_extract(value, '$[20]')
    FROM json_each(?)
"""
# An index is rewritten when a column of it is assigned, even to the same value. So this statement assigns none
# of those that listings are sorted by: they nearly always stay the same, and it saves pages at every commit.
_ADVANCE: Final = """
    UPDATE executions
    SET length = new.length, updated_at = new.updated_at, gates = new.gates, appended = new.appended
    FROM (
        SELECT json_extract(value, '$[0]') AS run, json_extract(value, '$[1]') AS length,
               json_extract(value, '$[2]') AS updated_at, json_extract(value, '$[3]') AS gates,
               json_extract(value, '$[4]') AS appended
        FROM json_each(?)
    ) AS new
    WHERE executions.run = new.run
"""
_ADVANCE_ONE: Final = """
    UPDATE executions
    SET length = ?, updated_at = ?, gates = ?, appended = ?
    WHERE run = ? AND length = ? AND id = ?
      AND flow = ? AND started_at = ? AND status = ? AND wake_at IS ? AND ended = ? AND attributes = ?
"""
_NEW: Final = """
    FROM (
        SELECT json_extract(value, '$[0]') AS run, json_extract(value, '$[1]') AS length,
               json_extract(value, '$[2]') AS updated_at, json_extract(value, '$[3]') AS gates,
               json_extract(value, '$[4]') AS appended, json_extract(value, '$[5]') AS flow,
               json_extract(value, '$[6]') AS started_at, json_extract(value, '$[7]') AS status,
               json_extract(value, '$[8]') AS wake_at, json_extract(value, '$[9]') AS ended,
               json_extract(value, '$[10]') AS attributes, json_extract(value, '$[11]') AS driver,
               json_extract(value, '$[12]') AS leased_until, json_extract(value, '$[13]') AS released,
               json_extract(value, '$[14]') AS called, json_extract(value, '$[15]') AS called_at,
               json_extract(value, '$[16]') AS ended_at
        FROM json_each(?)
    ) AS new
    WHERE executions.run = new.run
"""
# What changes when a run is taken up, parked or ended. Its flow and start are those of its first event.
_MOVE: Final = f"""
    UPDATE executions
    SET length = new.length, updated_at = new.updated_at, gates = new.gates, attributes = new.attributes,
        appended = new.appended, status = new.status, wake_at = new.wake_at, ended = new.ended,
        driver = new.driver, leased_until = new.leased_until, released = new.released,
        called = new.called, called_at = new.called_at, ended_at = new.ended_at
    {_NEW}
"""  # noqa: S608  # our own text
_MOVE_AS_ANOTHER: Final = f"""
    UPDATE executions
    SET length = new.length, updated_at = new.updated_at, gates = new.gates, attributes = new.attributes,
        appended = new.appended, status = new.status, wake_at = new.wake_at, ended = new.ended,
        driver = new.driver, leased_until = new.leased_until, released = new.released,
        called = new.called, called_at = new.called_at, ended_at = new.ended_at,
        flow = new.flow, started_at = new.started_at
    {_NEW}
"""  # noqa: S608  # our own text
_CALL: Final = """
    UPDATE executions SET called = new.called, called_at = new.called_at
    FROM (
        SELECT json_extract(value, '$[0]') AS run, json_extract(value, '$[1]') AS called,
               json_extract(value, '$[2]') AS called_at
        FROM json_each(?)
    ) AS new
    WHERE executions.run = new.run
"""
_SIZES: Final = (128, 64, 32, *range(16, 0, -1))
"""So many events go into one statement: any number goes into a few, and SQLite keeps each of them."""
_EVENTS: Final = {
    size: "INSERT INTO events (run, sequence, type, at, payload, metadata) VALUES "  # noqa: S608  # our own text
    + ", ".join(["(?, ?, ?, ?, ?, nullif(?, x''))"] * size)
    for size in _SIZES
}
_REQUESTS: Final = """
    INSERT INTO requests (run, number, kind, key, at, body)
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
           json_extract(value, '$[3]'), json_extract(value, '$[4]'),
           ifnull(substr(:bytes, json_extract(value, '$[5]'), json_extract(value, '$[6]')), x'')
    FROM json_each(:heads)
"""


def write(database: WritableDatabase, writes: Sequence[Write]) -> Sequence[WriteResult | Exception]:
    """Make all *writes* in one transaction and return the result of each, or its error.

    Where the transaction fails, each write is tried in one of its own, so that none fails for what is wrong with
    another; unless a lock is the reason, which would be waited for again and again.
    """
    try:
        with suppress(DoesNotFit):
            going = going_on(writes)
            results = database.run(_write, writes, database, going)
            database.places.note(going)
            return results
        return database.run(_write, writes, database, {})
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


def _write(
    raw: sqlite3.Connection, writes: Sequence[Write], database: WritableDatabase, going: Going
) -> list[WriteResult]:
    """Write *going* on trust; read where the other logs stand, decide, and write that: the inside of a transaction."""
    alone = _alone(writes) if going else None
    if alone is not None and _advance(raw, alone):
        return [[Appended(alone.incarnation or Incarnation(0), alone.expected + len(alone.events))]]
    now = database.now_ms()
    gone_on, events = go_on(raw, going, now, database.places)
    rest = [
        each if isinstance(each, Insert) else [item for item in each if item.execution_id not in going]
        for each in writes
    ]
    decisions = Decisions(stands(raw, rest), now)
    decided = [decisions.decide(each) for each in rest]
    _write_heads(raw, decisions)
    insert_events(raw, [*events, *decisions.events])
    _insert_requests(raw, decisions.requests)
    consume(raw, decisions.consumed)
    return [_results(each, gone_on, result) for each, result in zip(writes, decided, strict=True)]


def _results(write: Write, gone_on: Mapping[ExecutionId, Appended], decided: WriteResult) -> WriteResult:
    """Return the result of *write*: that of each item which went on, in its place among those *decided*."""
    if isinstance(write, Insert) or not isinstance(decided, list):
        return decided
    others = iter(decided)
    return [gone_on.get(item.execution_id) or next(others) for item in write]


def _alone(writes: Sequence[Write]) -> Append | None:
    """Return the one item there is, if it does nothing but go on with a log: most often there is nothing else."""
    if len(writes) > 1 or isinstance(writes[0], Insert) or len(writes[0]) > 1:
        return None
    [item] = writes[0]
    more = item.consumes or item.lane_above is not None or item.lease or item.takes_over or item.follows or item.sends
    return item if item.expected and item.events and not more else None


def _advance(raw: sqlite3.Connection, item: Append) -> bool:
    """Write *item* if its log stands where it should and stays sorted as it is; else change nothing."""
    index, length = item.index, item.expected + len(item.events)
    head = (length, index.updated_at, index.gates, _json([(item.append_id, item.expected, length)]))
    place = (item.incarnation, item.expected, item.execution_id)
    fits = raw.execute(_ADVANCE_ONE, (*head, *place, *place_of(index))).rowcount == 1
    if fits:
        insert_events(raw, [(item.incarnation or Incarnation(0), *event) for event in item.events])
    return fits


def _write_heads(raw: sqlite3.Connection, decisions: Decisions) -> None:
    rows: dict[str, list[object]] = {}
    for stand in decisions.stands.values():
        statement = _statement(stand)
        if statement == _CALL:
            rows.setdefault(_CALL, []).append((stand.incarnation, stand.hold.called, stand.hold.called_at))
        elif statement is not None and stand.index is not None:
            head = _head(stand, stand.index)
            row = head if statement == _ADVANCE else (*head, *_about(stand, stand.index))
            rows.setdefault(statement, []).append(row)
    for statement in (_BEGIN, _ADVANCE, _MOVE, _MOVE_AS_ANOTHER, _CALL):
        if statement in rows:
            raw.execute(statement, (_json(rows[statement]),))
    if _BEGIN in rows or _MOVE in rows or _MOVE_AS_ANOTHER in rows:
        _write_attributes(raw, [stand for stand in decisions.stands.values() if stand.index is not None])


def _write_attributes(raw: sqlite3.Connection, stands: Sequence[Stand]) -> None:
    """Write what can be searched for of those whose attributes have changed; most have none."""
    changed = [stand for stand in stands if stand.place.attributes != _attributes_was(stand)]
    forget_attributes(raw, [stand.incarnation for stand in changed if _attributes_was(stand) != "{}"])
    write_attributes(raw, [(stand.incarnation, stand.place.attributes) for stand in changed])


def _attributes_was(stand: Stand) -> str:
    return "{}" if stand.place_was is None else stand.place_was.attributes


def _statement(stand: Stand) -> str | None:
    """Return what writes the row of a log, None when nothing of it has changed."""
    if stand.index is None:
        return None if stand.hold == stand.hold_was else _CALL
    if stand.place_was is None:
        return _BEGIN
    if stand.place[:2] != stand.place_was[:2]:
        return _MOVE_AS_ANOTHER
    return _ADVANCE if stand.stays else _MOVE


def _head(stand: Stand, index: IndexRow) -> tuple[object, ...]:
    appended = _json([(*name, then) for name, then in stand.appended.items()])
    return stand.incarnation, stand.length, index.updated_at, index.gates, appended


def _about(stand: Stand, index: IndexRow) -> tuple[object, ...]:
    chain = None if index.chain == stand.execution_id else index.chain
    return *stand.place, *stand.hold, stand.ended_at, stand.execution_id, chain, index.link, index.parent or None


def insert_events(raw: sqlite3.Connection, rows: Sequence[EventRow]) -> None:
    """Write events, in few statements however many they are: the inside of a transaction."""
    first = 0
    while first < len(rows):
        size = next(size for size in _SIZES if size <= len(rows) - first)
        raw.execute(_EVENTS[size], [value for row in rows[first : first + size] for value in row])
        first += size


def _insert_requests(raw: sqlite3.Connection, rows: Sequence[RequestRow]) -> None:
    heads: list[tuple[object, ...]] = []
    place = 1
    for *head, body in rows:
        heads.append((*head, place, len(body)))
        place += len(body)
    if rows:
        raw.execute(_REQUESTS, {"heads": _json(heads), "bytes": b"".join(row[5] for row in rows)})


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
