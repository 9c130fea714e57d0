"""Conditions on runs in Postgres: what differs from other databases."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, Literal

from loom.spi.where import TEXT_BYTES_MAX, Among, Compared, Every, FieldName, Known, Not, Scalar, Some, Where, kind_of
from loom.spi.where_tables import Leaf, Sql, compiled

_COLUMNS: Final[Mapping[Literal["text", "number", "truth"], str]] = {
    "text": "a.text",
    "number": "a.number",
    "truth": "a.truth",
}


# What is no number, text or truth that can be searched for is not read as one: CASE decides before anything is converted.
_IS_OF: Final[Mapping[Literal["text", "number", "truth"], str]] = {
    "text": f"json_typeof(value) = 'string' AND octet_length(value #>> '{{}}') <= {TEXT_BYTES_MAX}",
    "number": "json_typeof(value) = 'number'",
    "truth": "json_typeof(value) = 'boolean'",
}
_READ_AS: Final[Mapping[Literal["text", "number", "truth"], str]] = {
    "text": "(value #>> '{}') COLLATE \"C\"",
    "number": "(value::text)::numeric",
    "truth": "(value::text)::boolean",
}
# Looked up run by run, by the key: OFFSET keeps the server from reading the bodies of all runs.
_ROW: Final = """(
    SELECT CASE WHEN strpos(said, '\\u0000') = 0 THEN said::json ELSE loom.odd_json(said) END -> ?::text AS value
    FROM (SELECT CASE WHEN odd IS NULL THEN convert_from(body, 'UTF8') ELSE odd END AS said FROM loom.model_rows
          WHERE model = ? AND version = ? AND run = e.run AND body IS NOT NULL OFFSET 0) AS rows
) AS m"""

_OF_RUN: Final = "loom.attributes AS a WHERE a.run = e.run AND a.name = ?"
_LOOKED_UP: Final = "(SELECT * FROM loom.attributes AS a WHERE a.run = e.run AND a.name = ? OFFSET 0) AS a WHERE true"


class _PostgresDialect:
    """How Postgres says it of one run after the other, by their keys: OFFSET keeps the server from any other way."""

    columns: Mapping[FieldName, str] = {
        "id": "e.id",
        "flow": "e.flow",
        "status": "e.status",
        "started": "e.started_at",
        "updated": "e.updated_at",
        "ended": "e.ended_at",
        "took": "(e.ended_at - e.started_at)",
        "wake": "e.wake_at",
        "parent": "e.parent",
        "chain": "coalesce(e.chain, e.id)",
        "gates": "(CASE WHEN e.gates = '[]' THEN 0 ELSE loom.gates_open(e.gates) END)",
        "length": "e.length",
    }

    def contains(self, text: str) -> str:
        return f"strpos({text}, ?)"

    def attribute(self, leaf: Leaf, *, negated: bool) -> Sql:
        return _having(leaf, negated=negated, its=_LOOKED_UP)

    def row(self, leaf: Leaf, *, negated: bool) -> Sql:
        field = leaf.field
        told, values = _of_body(leaf)
        text = f"{'NOT ' if negated else ''}EXISTS (SELECT FROM {_ROW} WHERE {told})"  # our own text
        return Sql(text, (field.attribute, field.model, field.version, *values))


class _SetsDialect(_PostgresDialect):
    """The same as the server likes it best for all runs there are: by sets of runs, each read once, or by few of them."""

    def attribute(self, leaf: Leaf, *, negated: bool) -> Sql:
        return _having(leaf, negated=negated)


_EACH: Final = _PostgresDialect()
_BY_SETS: Final = _SetsDialect()


def _having(leaf: Leaf, *, negated: bool, its: str = _OF_RUN) -> Sql:
    told, values = _condition(leaf)
    text = f"{'NOT ' if negated else ''}EXISTS (SELECT FROM {its}{f' AND {told}' if told else ''})"  # our own text
    return Sql(text, (leaf.field.attribute, *values))


def _condition(leaf: Leaf) -> Sql:
    """Return the condition of the value of an attribute that is like that."""
    match leaf:
        case Known():
            return Sql("")
        case Among() if not leaf.values:
            return Sql("false")
        case Among():
            each = [_condition(Compared(leaf.field, "=", value)) for value in leaf.values]
            return Sql(f"({' OR '.join(told for told, _ in each)})", tuple(value for _, of in each for value in of))
        case Compared() if leaf.sign == "~":
            return Sql("strpos(a.text, ?) > 0", (leaf.value,)) if isinstance(leaf.value, str) else Sql("false")
        case Compared():
            return Sql(f"{_COLUMNS[kind_of(leaf.value)]} {leaf.sign} ?", (_given(leaf.value),))


def _of_body(leaf: Leaf) -> Sql:
    """Return the condition of what the row of a read model has under a name: its value, as JSON."""
    match leaf:
        case Known():
            return Sql(f"({' OR '.join(_IS_OF.values())})")
        case Among() if not leaf.values:
            return Sql("false")
        case Among():
            each = [_of_body(Compared(leaf.field, "=", value)) for value in leaf.values]
            return Sql(f"({' OR '.join(told for told, _ in each)})", tuple(value for _, of in each for value in of))
        case Compared() if leaf.sign == "~":
            told = f"CASE WHEN {_IS_OF['text']} THEN strpos(value #>> '{{}}', ?) > 0 ELSE false END"
            return Sql(told, (leaf.value,)) if isinstance(leaf.value, str) else Sql("false")
        case Compared():
            kind = kind_of(leaf.value)
            told = f"CASE WHEN {_IS_OF[kind]} THEN {_READ_AS[kind]} {leaf.sign} ? ELSE false END"
            return Sql(told, (_given(leaf.value),))


def _given(value: Scalar) -> object:
    """Return a value as the driver takes it; a number by its decimal digits, as they were stored."""
    return Decimal(repr(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value


def condition(where: Where, *, by_sets: bool = False) -> Sql:
    """Return the condition of the executions `e` that are so: by looking up what each has, or *by_sets* of those that have it."""
    return compiled(where, _BY_SETS if by_sets else _EACH)


def denies_attribute(where: Where, *, negated: bool = False) -> bool:
    """Whether *where* asks anywhere that a run has no attribute like that."""
    match where:
        case Not():
            return denies_attribute(where.part, negated=not negated)
        case Every() | Some():
            return any(denies_attribute(part, negated=negated) for part in where.parts)
        case _:
            return negated and where.field.name == "attr"
