"""Items that only go on with their logs, which most do: written at once, and taken back where a log does not stand as was thought.

To ask first where the logs stand costs as much as writing does. So each row of the index is changed only if it is as the writer
believes: then nothing needs to be decided. Where fewer rows change than there are items, the transaction is begun anew, and
asks (standing.py, deciding.py). What touches more than one log, or has to be judged by who holds it, always asks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import orjson

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.sqlite.deciding import NOT_HELD, EventRow, Insert, Place, Write, place_of
from loom.spi.event_store import NOBODY, Append, Appended

_NEW: Final = """
    FROM (
        SELECT json_extract(value, '$[0]') AS run, json_extract(value, '$[1]') AS expected,
               json_extract(value, '$[2]') AS length, json_extract(value, '$[3]') AS updated_at,
               json_extract(value, '$[4]') AS gates, json_extract(value, '$[5]') AS appended,
               json_extract(value, '$[6]') AS id,
               json_extract(value, '$[7]') AS flow, json_extract(value, '$[8]') AS started_at,
               json_extract(value, '$[9]') AS status, json_extract(value, '$[10]') AS wake_at,
               json_extract(value, '$[11]') AS ended, json_extract(value, '$[12]') AS attributes,
               json_extract(value, '$[13]') AS driver,
               json_extract(value, '$[14]') AS leased_until, json_extract(value, '$[15]') AS above,
               json_extract(value, '$[16]') AS kinds
        FROM json_each(?)
    ) AS new
    WHERE executions.run = new.run AND executions.length = new.expected AND executions.id = new.id
          AND executions.flow = new.flow AND executions.started_at = new.started_at
          AND executions.attributes = new.attributes
"""
# Of a row that this connection has written last, it is known what it has: to say so costs as much as all the rest.
_GO_ON: Final = """
    UPDATE executions
    SET length = json_extract(value, '$[2]'), updated_at = json_extract(value, '$[3]'),
        gates = json_extract(value, '$[4]'), appended = json_extract(value, '$[5]')
    FROM json_each(?)
    WHERE executions.run = json_extract(value, '$[0]') AND executions.length = json_extract(value, '$[1]')
"""
# Nothing is assigned that an index has: see writing.py.
_ADVANCE: Final = f"""
    UPDATE executions
    SET length = new.length, updated_at = new.updated_at, gates = new.gates, appended = new.appended
    {_NEW}
          AND executions.status = new.status AND executions.wake_at IS new.wake_at AND executions.ended = new.ended
"""  # noqa: S608  # our own text
_MOVE: Final = f"""
    UPDATE executions
    SET length = new.length, updated_at = new.updated_at, gates = new.gates,
        appended = new.appended, status = new.status, wake_at = new.wake_at, ended = new.ended,
        ended_at = CASE WHEN new.ended THEN coalesce(ended_at, new.updated_at) END,
        driver = new.driver, leased_until = new.leased_until, released = 0,
        called = CASE WHEN new.driver IS NULL THEN 0 ELSE called END,
        called_at = CASE WHEN new.driver IS NULL THEN NULL ELSE called_at END
    {_NEW}
          AND (new.above IS NULL OR NOT EXISTS (
              SELECT 1 FROM requests INDEXED BY requests_pending
              WHERE requests.run = executions.run AND consumed = 0 AND number > new.above
                    AND (new.kinds IS NULL OR kind IN (SELECT value FROM json_each(new.kinds)))))
"""  # noqa: S608  # our own text
_CONSUME: Final = """
    UPDATE requests SET consumed = 1
    WHERE (run, number) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?))
          AND consumed = 0
"""

NONE: Final = Incarnation(0)
KNOWN_MAX: Final = 10_000

Going: TypeAlias = Mapping[ExecutionId, Append]
"""Items of different logs that only go on."""


class Places:
    """What a connection has written last of each run that it goes on with: how long its log is, and how its row is sorted.

    Nobody changes how a row is sorted but with an append, which makes its log longer.
    """

    def __init__(self) -> None:
        self._known: dict[Incarnation, tuple[int, Place]] = {}

    def are_of(self, item: Append) -> bool:
        """Whether the row of *item* is sorted already as it is to be, if its log is as long as is thought."""
        return item.lease is None and self._known.get(item.incarnation or NONE) == (item.expected, place_of(item.index))

    def note(self, going: Going) -> None:
        """All *going* is on disk. What is given up is forgotten."""
        if len(self._known) > KNOWN_MAX:
            self._known.clear()
        for item in going.values():
            run = item.incarnation or NONE
            if item.lease == NOBODY:
                self._known.pop(run, None)
            else:
                self._known[run] = (item.expected + len(item.events), place_of(item.index))


class DoesNotFit(Exception):
    """A log or a lane is not as was thought; the transaction is to be taken back."""


def going_on(writes: Sequence[Write]) -> Going:
    """Return the items of *writes* that only go on; none where the order of the writes could be seen in what they come to."""
    items = [item for write in writes if not isinstance(write, Insert) for item in write]
    grown = {write.send.chain for write in writes if isinstance(write, Insert)}
    is_apart = len({item.execution_id for item in items}) == len(items) and not any(
        item.sends or item.follows or item.index.chain in grown for item in items
    )
    return {item.execution_id: item for item in items if is_apart and _only_goes_on(item)}


def _only_goes_on(item: Append) -> bool:
    asks_other_lane = item.lane is not None and (item.consumes or item.lane_above is not None)
    is_judged = item.takes_over or asks_other_lane or (item.lane_above is not None and item.lease is None)
    return bool(item.expected and item.incarnation and item.events) and not is_judged


def go_on(
    raw: sqlite3.Connection, going: Going, now: int, places: Places
) -> tuple[dict[ExecutionId, Appended], list[EventRow]]:
    """Move the rows of all *going* on, and return the result of each, and the events that are still to be written.

    Raises:
        DoesNotFit: one of them cannot be written so.
    """
    results: dict[ExecutionId, Appended] = {}
    events: list[EventRow] = []
    consumed: list[tuple[Incarnation, int]] = []
    stay: list[tuple[object, ...]] = []
    advance: list[tuple[object, ...]] = []
    move: list[tuple[object, ...]] = []
    for run_id, item in going.items():
        run, head = item.incarnation or NONE, _head(item)
        if places.are_of(item):
            stay.append(head)
        else:
            (advance if item.lease is None else move).append(_row(item, head, now))
        results[run_id] = Appended(run, item.expected + len(item.events))
        events += [(run, *event) for event in item.events]
        if item.consumes:
            consumed += [(run, number) for number in item.consumes]
    consume(raw, consumed)
    for statement, rows in ((_GO_ON, stay), (_ADVANCE, advance), (_MOVE, move)):
        if rows and raw.execute(statement, (orjson.dumps(rows).decode(),)).rowcount != len(rows):
            raise DoesNotFit
    return results, events


def _head(item: Append) -> tuple[object, ...]:
    length, index = item.expected + len(item.events), item.index
    appended = orjson.dumps([(item.append_id, item.expected, length)]).decode()
    return item.incarnation, item.expected, length, index.updated_at, index.gates, appended


def _row(item: Append, head: tuple[object, ...], now: int) -> tuple[object, ...]:
    hold = NOT_HELD if item.lease is None else NOT_HELD.changed(item.lease, now)
    kinds = orjson.dumps(item.lane_kinds).decode() if item.lane_kinds else None
    about = (*place_of(item.index), hold.driver, hold.leased_until, item.lane_above, kinds)
    return *head, item.execution_id, *about


def consume(raw: sqlite3.Connection, requests: Sequence[tuple[Incarnation, int]]) -> None:
    """Note that requests, by incarnation and number, are journaled."""
    if requests:
        raw.execute(_CONSUME, (orjson.dumps(requests).decode(),))
