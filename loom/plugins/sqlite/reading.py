"""What is read, each in one statement, so that it sees one committed state and holds nothing afterwards."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import orjson

from loom.core.ids import ExecutionId
from loom.plugins.sqlite import searching
from loom.plugins.sqlite.connection import Database
from loom.plugins.sqlite.failures import WrongType
from loom.spi.event_store import EventRecord, ExecutionQuery, ExecutionRow, Head, LanePlace, Request
from loom.spi.tables import AFTER_EVERY_ID, SEQUENCE_END, execution_row
from loom.spi.where import Where, fields_of
from loom.spi.where_tables import Sql

_EVENTS: Final = """
    SELECT sequence, type, at, payload, ifnull(metadata, x'')
    FROM events
    WHERE run = (SELECT run FROM executions WHERE id = ?) AND sequence >= ? AND sequence < ?
    ORDER BY sequence
"""
_HEAD: Final = "SELECT id, run, length FROM executions WHERE id = ?"
_IDS: Final = "SELECT id FROM executions WHERE id > ? AND id >= ? AND id < ? ORDER BY id LIMIT ?"
_PENDING: Final = """
    SELECT number, kind, key, at, body
    FROM requests INDEXED BY requests_pending
    WHERE run = (SELECT run FROM executions WHERE id = ? AND run = ?) AND consumed = 0 AND number > ?
    ORDER BY number
"""
_NEWS: Final = """
    SELECT key
    FROM json_each(?)
    WHERE EXISTS (
              SELECT 1 FROM requests INDEXED BY requests_pending
              WHERE run = json_extract(value, '$[1]') AND consumed = 0 AND number > json_extract(value, '$[2]'))
          AND EXISTS (SELECT 1 FROM executions WHERE run = json_extract(value, '$[1]') AND id = json_extract(value, '$[0]'))
"""
_COLUMNS: Final = """
    id, run, length, flow, status, started_at, updated_at, wake_at, gates, attributes,
    coalesce(chain, id), link, coalesce(parent, ''), ended, coalesce(driver, ''), leased_until, released,
    EXISTS (SELECT 1 FROM requests INDEXED BY requests_once
            WHERE requests.run = CASE WHEN executions.chain IS NULL THEN executions.run
                   ELSE (SELECT run FROM executions AS begun WHERE begun.id = executions.chain) END
            AND key <> '' AND key = CASE link WHEN 1 THEN 'cancel' ELSE link || ':cancel' END),
    ended_at
"""
_ROWS: Final = f"SELECT {_COLUMNS} FROM executions "  # noqa: S608  # our own text, here and below
_ROW: Final = _ROWS + "WHERE id = ?"
_ROWS_OF: Final = _ROWS + "WHERE run IN (SELECT value FROM json_each(?))"  # noqa: S608  # our own text
_OF_CHAIN: Final = """run IN (
    SELECT run FROM executions WHERE id = ? AND chain IS NULL UNION ALL SELECT run FROM executions WHERE chain = ?
)"""
_LAST_LINK: Final = """NOT EXISTS (
    SELECT 1 FROM executions AS later INDEXED BY executions_links
    WHERE later.chain = coalesce(executions.chain, executions.id) AND later.link > executions.link
)"""
_NEWEST_FIRST: Final = "ORDER BY started_at DESC, id DESC"
_SORTED_NEWEST_FIRST: Final = "ORDER BY +started_at DESC, +id DESC"
"""The same without the index of that order: found are few, as it seems."""

_FOUND: Final = "SELECT executions.run AS found FROM"
_OF_FOUND: Final = "AS these CROSS JOIN executions ON executions.run = these.found"
NEWEST: Final = 2_000
"""So many runs are looked at one by one, the newest, before all are."""

_OLDEST_OF_NEWEST: Final = """
    SELECT started_at, id FROM executions WHERE (started_at, id) < (?, ?)
    ORDER BY started_at DESC, id DESC LIMIT 1 OFFSET ?
"""

_record: Final = partial(tuple.__new__, EventRecord)
"""Makes an event of a row, without the frame that `_make` is: a log has many."""

_TEXT: Final = (str,)
_NUMBER: Final = (int,)
_NUMBER_IF_ANY: Final = (int, type(None))
_ROW_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "id": _TEXT,
    "run": _NUMBER,
    "length": _NUMBER,
    "flow": _TEXT,
    "status": _TEXT,
    "started_at": _NUMBER,
    "updated_at": _NUMBER,
    "wake_at": _NUMBER_IF_ANY,
    "gates": _TEXT,
    "attributes": _TEXT,
    "chain": _TEXT,
    "link": _NUMBER,
    "parent": _TEXT,
    "ended": _NUMBER,
    "driver": _TEXT,
    "leased_until": _NUMBER,
    "released": _NUMBER,
    "cancel": _NUMBER,
    "ended_at": _NUMBER_IF_ANY,
}
_REQUEST_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "number": _NUMBER,
    "kind": _TEXT,
    "key": _TEXT,
    "at": _NUMBER,
    "body": (bytes,),
}

Fitting: TypeAlias = frozenset[tuple[type, ...]]
_ROW_FITS: Final[Fitting] = frozenset(itertools.product(*_ROW_TYPES.values()))
_REQUEST_FITS: Final[Fitting] = frozenset(itertools.product(*_REQUEST_TYPES.values()))
"""All that a row can be: one look-up says of a good one that it is."""

Read: TypeAlias = Callable[[sqlite3.Connection], object]


def read(database: Database, reads: Sequence[Read]) -> list[object]:
    """Return what each of *reads* gives, or its error."""
    return [_result(database, each) for each in reads]


def _result(database: Database, work: Read) -> object:
    try:
        return database.run(work)
    except Exception as error:  # noqa: BLE001  # whoever asked is told
        return error


def events(
    raw: sqlite3.Connection, execution_id: str, *, start: int, stop: int | None, limit_bytes: int
) -> list[EventRecord]:
    """Return one page of a log; see `EventStore.read`."""
    cursor = raw.execute(_EVENTS, (execution_id, start, SEQUENCE_END if stop is None else stop))
    page: list[EventRecord] = []
    size = 0
    for record in map(_record, cursor):
        page.append(record)
        size += len(record.payload)
        if size > limit_bytes:
            cursor.close()  # ends the read transaction
            break
    return page


def head(raw: sqlite3.Connection, execution_id: str) -> Head | None:
    """Return where the log stands."""
    row = raw.execute(_HEAD, (execution_id,)).fetchone()
    return Head._make(row) if row else None


def ids(raw: sqlite3.Connection, *, after: str, prefix: str, limit: int) -> list[ExecutionId]:
    """Return ids by code point order, which is SQLite's own for text in UTF-8."""
    rows = raw.execute(_IDS, (after, prefix, prefix + AFTER_EVERY_ID, limit))
    return [execution_id for (execution_id,) in rows]


def pending(raw: sqlite3.Connection, execution_id: str, incarnation: int, *, above: int) -> list[Request]:
    """Return the requests that no append has consumed."""
    return [_request(row) for row in raw.execute(_PENDING, (execution_id, incarnation, above))]


def news(raw: sqlite3.Connection, places: Sequence[LanePlace]) -> list[bool]:
    """Tell for each place in a lane whether a request after it is pending."""
    found = {key for (key,) in raw.execute(_NEWS, (orjson.dumps([list(place) for place in places]).decode(),))}
    return [place in found for place in range(len(places))]


def _request(found: Sequence[object]) -> Request:
    _must_be(found, _REQUEST_TYPES, _REQUEST_FITS, "a row of requests")
    return Request._make(found)


def _execution(found: Sequence[object], now: int) -> ExecutionRow:
    _must_be(found, _ROW_TYPES, _ROW_FITS, f"the row of {found[0]!r} in executions")
    return execution_row(found, now=now)


def _must_be(found: Sequence[object], types: Mapping[str, tuple[type, ...]], fitting: Fitting, what: str) -> None:
    """Refuse a row with a value that is of no type of its column: SQLite keeps what is written by hand, and it would fail far from here."""
    if tuple(map(type, found)) in fitting:
        return
    for value, (column, kinds) in zip(found, types.items(), strict=True):
        if type(value) not in kinds:
            raise WrongType(f"{what} has {value!r:.60} as its {column}")


def row(raw: sqlite3.Connection, execution_id: str, *, now: int) -> ExecutionRow | None:
    """Return the index row of one execution, with its lease at *now* (ms since the epoch)."""
    found = raw.execute(_ROW, (execution_id,)).fetchone()
    return _execution(found, now) if found else None


def rows_of(raw: sqlite3.Connection, runs: Sequence[int], *, now: int) -> dict[int, ExecutionRow]:
    """Return the index rows of some lives."""
    found = raw.execute(_ROWS_OF, (orjson.dumps(runs).decode(),))
    return {each.incarnation: each for each in (_execution(values, now) for values in found)}


def find(raw: sqlite3.Connection, query: ExecutionQuery, *, now: int) -> list[ExecutionRow]:
    """Return the matching rows, newest first."""
    if query.where is None:
        text, values = _matching(_conditions(query), _NEWEST_FIRST, query)
        found = raw.execute(f"{_ROWS} {text}", values).fetchall()
    else:
        found = _searched(raw, query.where, query)
    return [_execution(values, now) for values in found]


def _searched(raw: sqlite3.Connection, where: Where, query: ExecutionQuery) -> list[Sequence[object]]:
    """Return the rows that are as *where* says: of few runs, if an index says so; of the newest, each looked at by itself; else of all.

    What is true of many runs is soon found among the newest. What is not is looked for in the order in which runs lie in the file:
    that takes a third of the time that their order by age does, and each set of runs is read once.
    """
    # What is searched for stands before whether it is the last link, which is a look-up for each run that is asked.
    given = [searching.condition(where), *_conditions(query)]
    if (few := searching.few(raw, where)) is not None:
        text, values = _matching([Sql("executions.run = few.its_run"), *given], _SORTED_NEWEST_FIRST, query)
        return _rows_of_found(raw, f"({few.text}) AS few CROSS JOIN executions {text}", [*few.values, *values])
    if (
        oldest := raw.execute(_OLDEST_OF_NEWEST, (*(query.before or (SEQUENCE_END, "")), NEWEST)).fetchone()
    ) is not None:
        text, values = _matching([("(started_at, id) >= (?, ?)", oldest), *given], _NEWEST_FIRST, query)
        found = _rows_of_found(raw, f"executions {text}", values)
        if len(found) >= query.limit:
            return found
    by_sets = [searching.condition(where, by_sets=True), *_conditions(query)]
    # Rows of read models are read run by run in any case: then a page that is full is all that is read.
    order = _NEWEST_FIRST if any(field.name == "row" for field in fields_of(where)) else _SORTED_NEWEST_FIRST
    text, values = _matching(by_sets, order, query)
    return _rows_of_found(raw, f"executions {text}", values)


def _rows_of_found(raw: sqlite3.Connection, found: str, values: Sequence[object]) -> list[Sequence[object]]:
    """Return the rows of what is *found*, newest first: only of these is more read than what is searched for."""
    statement = f"SELECT {_COLUMNS} FROM ({_FOUND} {found}) {_OF_FOUND} {_NEWEST_FIRST}"  # noqa: S608
    return raw.execute(statement, values).fetchall()


def _matching(
    conditions: Sequence[tuple[str, Sequence[object]]], order: str, query: ExecutionQuery
) -> tuple[str, list[object]]:
    where = "WHERE " + " AND ".join(text for text, _ in conditions) if conditions else ""
    return f"{where} {order} LIMIT ?", [*(value for _, values in conditions for value in values), query.limit]


def _conditions(query: ExecutionQuery) -> list[tuple[str, Sequence[object]]]:
    conditions: list[tuple[str, Sequence[object]]] = []
    if query.statuses:
        conditions.append(_one_of("status", query.statuses))
    if query.flows:
        conditions.append(_one_of("flow", query.flows))
    if query.with_gates:
        conditions.append(("gates <> '[]'", ()))
    if query.due_before is not None:
        conditions.append(("wake_at < ?", (query.due_before,)))
    if query.chain:
        conditions.append((_OF_CHAIN, (query.chain, query.chain)))
    if query.parent:
        conditions.append(("parent = ?", (query.parent,)))
    if query.tips:
        conditions.append((_LAST_LINK, ()))
    if query.ended is not None:
        conditions.append(("ended = ?", (query.ended,)))
    if query.before:
        conditions.append(("(started_at, id) < (?, ?)", query.before))
    return conditions


def _one_of(column: str, values: Sequence[str]) -> tuple[str, Sequence[object]]:
    if len(values) == 1:  # an equality lets the index give the order as well
        return f"{column} = ?", values
    return f"{column} IN (SELECT value FROM json_each(?))", (orjson.dumps(list(values)).decode(),)  # noqa: S608  # our own column
