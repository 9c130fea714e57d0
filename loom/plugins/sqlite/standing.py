"""Where the logs, lanes and chains stand that a transaction is about: one statement, however many there are."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.sqlite.deciding import Hold, Insert, LaneStand, Place, Stand, Stands, Write, with_following
from loom.spi.event_store import Append, Send

_STAND: Final = """
    id, run, coalesce(chain, id), link, flow, started_at, status, wake_at, ended, attributes,
    driver, leased_until, released, called, called_at, ended_at, length, json(appended)
"""
_STANDS: Final = f"""
    WITH asked AS (
        SELECT json_extract(value, '$[0]') AS name, json_extract(value, '$[1]') AS above,
               json_extract(value, '$[2]') AS keys
        FROM json_each(?)
    ), tips AS (
        SELECT (SELECT run FROM executions INDEXED BY executions_links
                WHERE chain = asked.name ORDER BY link DESC LIMIT 1) AS run
        FROM asked WHERE keys IS NOT NULL
    )
    SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'executions'),
           (SELECT json_group_array(json_array({_STAND},
               CASE WHEN asked.above IS NOT NULL THEN json((
                   SELECT json_group_array(json_array(number, kind)) FROM requests INDEXED BY requests_pending
                   WHERE run = executions.run AND consumed = 0 AND number > asked.above)) END,
               CASE WHEN asked.keys IS NOT NULL THEN json((
                   SELECT json_group_array(json_array(number, key, consumed, kind))
                   FROM requests INDEXED BY requests_once
                   WHERE run = executions.run AND key <> '' AND key IN (SELECT value FROM json_each(asked.keys)))) END,
               CASE WHEN asked.keys IS NOT NULL THEN (SELECT max(number) FROM requests WHERE run = executions.run) END
           )) FROM asked JOIN executions ON executions.id = asked.name),
           (SELECT json_group_array(json_array({_STAND})) FROM tips JOIN executions USING (run))
"""  # noqa: S608  # our own columns


@dataclass(slots=True)
class _Asked:
    """What is asked about the lane of an execution: pending requests *above* a number, and whether *keys* are taken."""

    above: int | None = None
    keys: list[str] | None = None

    def about(self, above: int | None) -> None:
        known = self.above
        self.above = above if known is None else known if above is None else min(known, above)

    def grows_by(self, key: str) -> None:
        self.keys = [*(self.keys or ()), key]


@dataclass(slots=True)
class _Question:
    """What is asked about each execution."""

    names: dict[ExecutionId, _Asked] = field(default_factory=dict)

    def name(self, execution_id: ExecutionId) -> _Asked:
        return self.names.setdefault(execution_id, _Asked())

    def add(self, item: Append) -> None:
        own = self.name(item.execution_id)
        lane = own if item.lane is None else self.name(item.lane.execution_id)
        lane.about(item.lane_above)

    def json(self) -> bytes:
        return orjson.dumps([(name, asked.above, asked.keys) for name, asked in self.names.items()])


def stands(raw: sqlite3.Connection, writes: Sequence[Write]) -> Stands:
    """Read where the logs stand, and of their lanes only what is asked about: what is pending and new, or some keys."""
    question = _Question()
    for write in writes:
        for item in () if isinstance(write, Insert) else _items(write):
            question.add(item)
        for send in _sends(write):
            question.name(send.chain).grows_by(send.key)
    if not question.names:
        return Stands({}, {}, {}, 0)
    [last, found, tips] = raw.execute(_STANDS, (question.json().decode(),)).fetchone()
    logs: dict[ExecutionId, Stand] = {}
    lanes: dict[Incarnation, LaneStand] = {}
    for *row, pending, keys, greatest in orjson.loads(found):
        stand = logs[row[0]] = _stand(row)
        if pending is not None or keys is not None:
            lanes[stand.incarnation] = _lane(pending or (), keys or (), greatest or 0)
    last_links = [_stand(row) for row in orjson.loads(tips)]
    for stand in last_links:
        logs.setdefault(stand.execution_id, stand)
    return Stands(logs, lanes, {stand.chain: stand.execution_id for stand in last_links}, last or 0)


def _items(batch: Sequence[Append]) -> Iterator[Append]:
    for item in batch:
        yield from with_following(item)


def _sends(write: Write) -> Iterator[Send]:
    if isinstance(write, Insert):
        yield write.send
    else:
        for item in _items(write):
            yield from item.sends


def _stand(row: Sequence[Any]) -> Stand:
    place, hold = Place(*row[4:10]), Hold(*row[10:15])
    appended = {(append_id, expected): then for append_id, expected, then in row[17]}
    stand = Stand(row[0], row[1], row[2], row[3], place, hold, row[16], appended, place, hold)
    stand.ended_at = stand.ended_at_was = row[15]
    return stand


def _lane(pending: Sequence[Any], keys: Sequence[Any], last: int) -> LaneStand:
    of_keys = {number: kind for number, _, consumed, kind in keys if not consumed}
    return LaneStand(pending={**dict(pending), **of_keys}, last=last, keys={key: number for number, key, _, _ in keys})
