"""Attributes and conditions on runs in SQLite: what differs from other databases, and which index a search begins with."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import orjson

from loom.spi.where import Among, Compared, Every, FieldName, Known, Scalar, Where, searchable
from loom.spi.where_tables import Leaf, Sql, compiled

FEW: Final = 1_000
"""So many runs are looked up one by one; where more have an attribute, they are looked for among all, newest first."""

_GATES: Final = """CASE WHEN gates = '[]' OR NOT json_valid(gates) THEN 0 WHEN json_type(gates) = 'array'
    THEN json_array_length(gates) ELSE 0 END"""
_COUNT: Final = "SELECT count(*) FROM (SELECT 1 FROM attributes WHERE {} LIMIT ?)"

_FORGET: Final = "DELETE FROM attributes WHERE run IN (SELECT value FROM json_each(?))"
_WRITE: Final = """
    INSERT INTO attributes (run, name, value)
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'),
           CASE json_type(value, '$[2]') WHEN 'true' THEN x'01' WHEN 'false' THEN x'00' ELSE json_extract(value, '$[2]') END
    FROM json_each(?)
"""


class _SqliteDialect:
    columns: Mapping[FieldName, str] = {
        "id": "id",
        "flow": "flow",
        "status": "status",
        "started": "started_at",
        "updated": "updated_at",
        "ended": "ended_at",
        "took": "(ended_at - started_at)",
        "wake": "wake_at",
        "parent": "parent",
        "chain": "coalesce(chain, id)",
        "gates": _GATES,
        "length": "length",
    }

    def contains(self, text: str) -> str:
        return f"instr({text}, ?)"

    def attribute(self, leaf: Leaf) -> Sql:
        # The sign before the column keeps SQLite from looking up row after row of what may be half of them all.
        return _runs(_rows(leaf), sign="+")


def _rows(leaf: Leaf) -> Sql:
    """Return the condition of the rows of `attributes` that are like that: a range of the index, or some."""
    name = leaf.field.attribute
    match leaf:
        case Known():
            return Sql("name = ?", (name,))
        case Among():
            return Sql(
                f"name = ? AND value IN ({', '.join('?' * len(leaf.values))})", (name, *map(stored, leaf.values))
            )
        case Compared() if leaf.sign == "~":
            told = "name = ? AND value >= '' AND value < x'' AND instr(value, ?) > 0"
            return Sql(told, (name, leaf.value)) if isinstance(leaf.value, str) else Sql("0")
        case Compared() if leaf.sign == "=":  # nothing of another type is equal
            return Sql("name = ? AND value = ?", (name, stored(leaf.value)))
        case Compared():
            return Sql(f"name = ? AND value {leaf.sign} ?{_of_its_type(leaf.value)}", (name, stored(leaf.value)))


def _of_its_type(value: Scalar) -> str:
    if isinstance(value, bool):
        return " AND value >= x''"
    return " AND value >= '' AND value < x''" if isinstance(value, str) else " AND value < ''"


def write_attributes(raw: sqlite3.Connection, attributes: Sequence[tuple[int, str]]) -> None:
    """Write what can be searched for of the *attributes* of some runs, JSON text by incarnation; they have no rows yet."""
    rows = [(run, name, value) for run, text in attributes for name, value in searchable(text).items()]
    if rows:
        raw.execute(_WRITE, (orjson.dumps(rows).decode(),))


def forget_attributes(raw: sqlite3.Connection, runs: Sequence[int]) -> None:
    """Remove the attributes of some runs, given by their incarnations."""
    if runs:
        raw.execute(_FORGET, (orjson.dumps(runs).decode(),))


def stored(value: Scalar) -> object:
    """Return the value of an attribute as its row has it."""
    return bytes([value]) if isinstance(value, bool) else value


def conditions(raw: sqlite3.Connection, where: Where) -> list[Sql]:
    """Return the conditions of the executions that are so; the first one is of few, where an attribute says that."""
    told = [compiled(where, _SqliteDialect())]
    rows = [_rows(leaf) for leaf in _demanded(where) if leaf.field.name == "attr"]
    count, fewest = min(((_count(raw, each), each) for each in rows), default=(FEW + 1, Sql("")))
    if count <= FEW:
        told.insert(0, _runs(fewest))
    return told


def _runs(rows: Sql, *, sign: str = "") -> Sql:
    return Sql(f"{sign}run IN (SELECT run FROM attributes WHERE {rows.text})", rows.values)  # noqa: S608  # our own text


def _demanded(where: Where) -> Iterator[Leaf]:
    """Yield the tests that must hold."""
    if isinstance(where, Every):
        for part in where.parts:
            yield from _demanded(part)
    elif isinstance(where, Compared | Among | Known):
        yield where


def _count(raw: sqlite3.Connection, rows: Sql) -> int:
    """Return how many runs there are like that, as far as that matters."""
    [(count,)] = raw.execute(_COUNT.format(rows.text), (*rows.values, FEW + 1))
    return int(count)
