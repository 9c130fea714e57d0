"""Attributes and conditions on runs in SQLite: what differs from other databases, and which index a search begins with."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import orjson

from loom.spi.where import (
    TEXT_BYTES_MAX,
    Among,
    Compared,
    Every,
    FieldName,
    Known,
    Scalar,
    Where,
    kind_of,
    searchable,
)
from loom.spi.where_tables import Leaf, Sql, compiled

FEW: Final = 1_000
"""So many runs are looked up one by one; where more have an attribute, they are looked for among all, newest first."""

_GATES: Final = """CASE WHEN gates = '[]' OR NOT json_valid(gates) THEN 0 WHEN json_type(gates) = 'array'
    THEN json_array_length(gates) ELSE 0 END"""
_COUNT: Final = "SELECT count(*) FROM (SELECT 1 FROM attributes WHERE {} LIMIT ?)"

# What is extracted ends before a character 0. Backslashes before what says that stand in pairs, else it says something else.
_IS_TEXT: Final = f"""type = 'text' AND length(CAST(value AS BLOB)) <= {TEXT_BYTES_MAX}
    AND instr(replace(pair, '\\\\', ''), '\\u0000') = 0"""
_IS_OF: Final[Mapping[Literal["text", "number", "truth"], str]] = {
    "text": _IS_TEXT,
    "number": "type IN ('integer', 'real')",
    "truth": "type IN ('true', 'false')",
}
_IS_KNOWN: Final = f"({' OR '.join(_IS_OF.values())})"
_OF_RUN: Final = """
    FROM (SELECT coalesce(odd, CAST(body AS TEXT)) AS said FROM model_rows WHERE model = ? AND version = ? AND run = executions.run)
    WHERE json_valid(said)
"""
_ROW: Final = (
    f"(SELECT json_type(said, ?) AS type, json_extract(said, ?) AS value, json_extract(said, ?, ?) AS pair {_OF_RUN})"
)
# A path of SQLite says no name that JSON says with a backslash: such a one is looked for among all.
_ROW_BY_KEY: Final = f"""(
    SELECT each.type AS type, each.atom AS value, json_array(each.atom) AS pair
    FROM (SELECT said {_OF_RUN} AND json_type(said) = 'object') AS row, json_each(row.said) AS each WHERE each.key = ?
)"""  # noqa: S608  # our own text

_NEGATED: Final = """CASE
    WHEN (SELECT count(*) FROM attributes WHERE name = ?) = (SELECT count(*) FROM executions)
    THEN +executions.run IN (SELECT run FROM attributes WHERE name = ? AND NOT ({told}))
    ELSE NOT (+executions.run IN ({its_runs})) END"""

_FORGET: Final = "DELETE FROM attributes WHERE run IN (SELECT value FROM json_each(?))"
_WRITE: Final = """
    INSERT INTO attributes (run, name, value)
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'),
           CASE json_type(value, '$[2]') WHEN 'true' THEN x'01' WHEN 'false' THEN x'00' ELSE json_extract(value, '$[2]') END
    FROM json_each(?)
"""


class _SqliteDialect:
    """How SQLite says it of one run after the other."""

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
        "chain": "coalesce(executions.chain, executions.id)",
        "gates": _GATES,
        "length": "length",
    }

    def contains(self, text: str) -> str:
        return f"instr({text}, ?)"

    def attribute(self, leaf: Leaf, *, negated: bool) -> Sql:
        told, values = _rows(leaf)
        text = f"EXISTS (SELECT 1 FROM attributes WHERE run = executions.run AND {told})"  # noqa: S608  # our own text
        return Sql(f"NOT {text}" if negated else text, values)

    def row(self, leaf: Leaf, *, negated: bool) -> Sql:
        field, no = leaf.field, "NOT " if negated else ""
        told, values = _of_body(leaf)
        if orjson.dumps(field.attribute) != f'"{field.attribute}"'.encode():
            text = f"{no}EXISTS (SELECT 1 FROM {_ROW_BY_KEY} WHERE {told})"  # noqa: S608  # our own text, here and below
            return Sql(text, (field.model, field.version, field.attribute, *values))
        text = f"{no}EXISTS (SELECT 1 FROM {_ROW} WHERE {told})"  # noqa: S608
        return Sql(text, (*[f'$."{field.attribute}"'] * 4, field.model, field.version, *values))


class _SetsDialect(_SqliteDialect):
    """The same by sets of runs, each read once: for all runs there are."""

    def attribute(self, leaf: Leaf, *, negated: bool) -> Sql:
        told, values = _rows(leaf)
        its_runs = f"SELECT run FROM attributes WHERE {told}"  # noqa: S608  # our own text
        # The sign before the column keeps SQLite from looking up row after row of what may be half of them all.
        if not negated:
            return Sql(f"+executions.run IN ({its_runs})", values)
        # Where every run has the attribute, those with another value are most often fewer, and found by the index.
        name = leaf.field.attribute
        text = _NEGATED.format(its_runs=its_runs, told=told)
        return Sql(text, (name, name, *values, *values))


_EACH: Final = _SqliteDialect()
_BY_SETS: Final = _SetsDialect()


def _of_body(leaf: Leaf) -> Sql:
    """Return the condition of what the row of a read model has under a name: its value, and the type of that in JSON."""
    match leaf:
        case Known():
            return Sql(_IS_KNOWN)
        case Among() if not leaf.values:
            return Sql("0")
        case Among():
            each = [_of_body(Compared(leaf.field, "=", value)) for value in leaf.values]
            return Sql(f"({' OR '.join(told for told, _ in each)})", tuple(value for _, of in each for value in of))
        case Compared() if leaf.sign == "~":
            return (
                Sql(f"instr(value, ?) > 0 AND {_IS_TEXT}", (leaf.value,)) if isinstance(leaf.value, str) else Sql("0")
            )
        case Compared():
            # What is asked stands before the kind: of most rows no more is read out of the JSON than one value.
            return Sql(f"value {leaf.sign} ? AND {_IS_OF[kind_of(leaf.value)]}", (leaf.value,))


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


def few(raw: sqlite3.Connection, where: Where) -> Sql | None:
    """Return how few runs are found, among which all are that are so, where what is asked of an attribute says that."""
    rows = [_rows(leaf) for leaf in _demanded(where) if leaf.field.name == "attr"]
    count, fewest = min(((_count(raw, each), each) for each in rows), default=(FEW + 1, Sql("")))
    if count > FEW:
        return None
    return Sql(f"SELECT run AS its_run FROM attributes WHERE {fewest.text}", fewest.values)  # noqa: S608  # our own text


def condition(where: Where, *, by_sets: bool = False) -> Sql:
    """Return the condition of the executions that are so: by looking up what each has, or *by_sets* of those that have it."""
    return compiled(where, _BY_SETS if by_sets else _EACH)


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
