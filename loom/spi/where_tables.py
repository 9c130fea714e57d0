"""A condition on runs as a condition of SQL, for adapters that keep the index in a table. Values are parameters, never text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias

from loom.spi.where import Among, Compared, Every, Field, FieldName, Known, Not, Sign, Some, Where, kind_of

NULLABLE: Final[frozenset[FieldName]] = frozenset({"ended", "took", "wake", "parent"})
_TEXTS: Final[frozenset[FieldName]] = frozenset({"id", "flow", "status", "parent", "chain"})
_INVERSE: Final[Mapping[Sign, str]] = {"=": "<>", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class Sql(NamedTuple):
    """A piece of a statement, with the *values* of its parameters, each a `?` there, in their order."""

    text: str
    values: tuple[object, ...] = ()


class Dialect(Protocol):
    """How a database says what differs."""

    @property
    def columns(self) -> Mapping[FieldName, str]:
        """The expressions of the fields, without `attr` and `row`. Those not `NULLABLE` always have a value."""
        ...

    def contains(self, text: str) -> str:
        """Return the expression of the place of a parameter in *text*, 0 where it is not in it."""
        ...

    def attribute(self, leaf: Leaf, *, negated: bool) -> Sql:
        """Return the condition of the runs that have an attribute like that, or of the others; it is never null."""
        ...

    def row(self, leaf: Leaf, *, negated: bool) -> Sql:
        """Return the condition of the runs whose row in a read model is like that, or of the others; it is never null."""
        ...


Leaf: TypeAlias = Compared | Among | Known
"""A test of one field."""


def compiled(where: Where, dialect: Dialect, *, negated: bool = False) -> Sql:
    """Return *where* as SQL, true of the same runs; of the others it is false or null. *negated*: the opposite.

    A negation is carried down to the tests, so that null is never negated.
    """
    match where:
        case Not():
            return compiled(where.part, dialect, negated=not negated)
        case Every():
            return _joined(where.parts, dialect, "OR" if negated else "AND", negated=negated)
        case Some():
            return _joined(where.parts, dialect, "AND" if negated else "OR", negated=negated)
        case _:
            return _leaf(where, dialect, negated=negated)


def _joined(parts: tuple[Where, ...], dialect: Dialect, word: str, *, negated: bool) -> Sql:
    if not parts:
        return Sql("1 = 1" if word == "AND" else "1 = 0")
    done = [compiled(part, dialect, negated=negated) for part in parts]
    values = tuple(value for each in done for value in each.values)
    return Sql("(" + f" {word} ".join(each.text for each in done) + ")", values)


def _leaf(leaf: Leaf, dialect: Dialect, *, negated: bool) -> Sql:
    if leaf.field.name in ("attr", "row"):
        told = dialect.attribute if leaf.field.name == "attr" else dialect.row
        return told(leaf, negated=negated)
    match leaf:
        case Known():
            return Sql(f"{_column(leaf.field, dialect)} IS {'' if negated else 'NOT '}NULL")
        case Among():
            tests = tuple(Compared(leaf.field, "=", value) for value in leaf.values)
            return compiled(Some(tests), dialect, negated=negated)
        case Compared():
            return _compared(leaf, dialect, negated=negated)


def _compared(test: Compared, dialect: Dialect, *, negated: bool) -> Sql:
    column = _column(test.field, dialect)
    if kind_of(test.value) != ("text" if test.field.name in _TEXTS else "number"):  # a database would convert it
        return Sql("1 = 1" if negated else "1 = 0")
    if test.sign == "~":
        text = f"{dialect.contains(column)} {'=' if negated else '>'} 0"
    else:
        text = f"{column} {_INVERSE[test.sign] if negated else test.sign} ?"
    if negated and test.field.name in NULLABLE:
        text = f"({column} IS NULL OR {text})"
    return Sql(text, (test.value,))


def _column(field: Field, dialect: Dialect) -> str:
    return dialect.columns[field.name]
