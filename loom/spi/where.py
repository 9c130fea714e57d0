"""Conditions on runs: a small tree of tests on what the index knows of a run, and what each comes to.

Every test is true or false. Of what a run does not have (an end, a parent, an attribute) only `Known` is ever asked with
success: all other tests of it are false, and `Not` of them is true. Values of different kinds (text, number, truth) are never equal,
and none is smaller. So the tree means the same in memory and in every database; text is compared by code point.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import orjson

if TYPE_CHECKING:
    from loom.spi.event_store import ExecutionRow

FieldName: TypeAlias = Literal[
    "id",
    "flow",
    "status",
    "started",
    "updated",
    "ended",
    "took",
    "wake",
    "parent",
    "chain",
    "gates",
    "length",
    "attr",
    "row",
]
Sign: TypeAlias = Literal["=", "<", "<=", ">", ">=", "~"]
Scalar: TypeAlias = str | int | float | bool

NAME_BYTES_MAX: Final = 200
TEXT_BYTES_MAX: Final = 1000
"""How long the name and the text of an attribute may be, in UTF-8, to be searched for: what an index of a database can hold."""


class Field(NamedTuple):
    """What is tested: times in ms since the epoch, `took` in ms, `gates` and `length` as numbers; or the *attribute* of that name.

    Of `row` it is what the row of the run has under that name, in the read model *model* and its *version*.
    """

    name: FieldName
    attribute: str = ""
    model: str = ""
    version: str = ""


class Compared(NamedTuple):
    """The field is as *sign* says to *value*; `~`: the text holds that text."""

    field: Field
    sign: Sign
    value: Scalar


class Among(NamedTuple):
    """The field is one of *values*, which may be of several kinds."""

    field: Field
    values: tuple[Scalar, ...]


class Known(NamedTuple):
    """The run has such a value."""

    field: Field


class Not(NamedTuple):
    """The part does not hold."""

    part: Where


class Every(NamedTuple):
    """All parts hold; of no parts, too."""

    parts: tuple[Where, ...]


class Some(NamedTuple):
    """One of the parts holds, or more."""

    parts: tuple[Where, ...]


Where: TypeAlias = "Compared | Among | Known | Not | Every | Some"


def both(*wheres: Where | None) -> Where | None:
    """Return the condition that all of *wheres* are; None where there are none."""
    given = tuple(where for where in wheres if where is not None)
    return given[0] if len(given) == 1 else Every(given) if given else None


def fields_of(where: Where) -> Iterator[Field]:
    """Yield what *where* looks at."""
    match where:
        case Compared() | Among() | Known():
            yield where.field
        case Not():
            yield from fields_of(where.part)
        case Every() | Some():
            for part in where.parts:
                yield from fields_of(part)


def kind_of(value: Scalar) -> Literal["text", "number", "truth"]:
    """Return which kind *value* is of."""
    return "truth" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


@lru_cache(4096)
def searchable(attributes: str) -> Mapping[str, Scalar]:
    """Return those of the attributes (the JSON text of an object) that can be searched for, by name.

    These are texts, numbers and truths; not what is nested, `null`, too long, or text that no database holds. A number is whole
    when it has no fraction. What is no JSON object has none.
    """
    if attributes == "{}":
        return MappingProxyType({})
    try:
        known = orjson.loads(attributes)
    except ValueError:  # a row is but a cache, and this one is damaged
        known = None
    found = known.items() if isinstance(known, dict) else ()
    return MappingProxyType({name: _whole(value) for name, value in found if _fits(name, value)})


def odd_row(body: bytes) -> str | None:
    """Return what can be searched for of a row, as JSON, where a database might read it another way; None where it is plain.

    Of a name that stands twice the last counts. What is no UTF-8, no object, or no JSON has nothing; nor has what names half a
    character. A number beyond 64 bits is the next one that has 64.
    """
    try:
        known = orjson.loads(body)
    except ValueError:
        return None if not body else "{}"
    if (
        isinstance(known, dict)
        and orjson.dumps(known) == body
        and b"\\u0000" not in body
        and not any(map(_is_wide, known.values()))
    ):
        return None
    return orjson.dumps(dict(searchable(body.decode()))).decode()


def _is_wide(value: object) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _fits(name: str, value: object) -> bool:
    if not isinstance(value, str | int | float) or "\0" in name or len(name.encode()) > NAME_BYTES_MAX:
        return False
    return not isinstance(value, str) or ("\0" not in value and len(value.encode()) <= TEXT_BYTES_MAX)


def _whole(value: Scalar) -> Scalar:
    if _is_wide(value):
        return float(value)
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value


# -- in memory -------------------------------------------------------------------------------------------------------

_SIGNS: Final[Mapping[Sign, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "~": lambda value, part: isinstance(value, str) and part in value,
}
_READ: Final[Mapping[FieldName, Callable[[ExecutionRow], Scalar | None]]] = {
    "id": lambda row: row.execution_id,
    "flow": lambda row: row.index.flow,
    "status": lambda row: row.index.status,
    "started": lambda row: row.index.started_at,
    "updated": lambda row: row.index.updated_at,
    "ended": lambda row: row.ended_at,
    "took": lambda row: None if row.ended_at is None else row.ended_at - row.index.started_at,
    "wake": lambda row: row.index.wake_at,
    "parent": lambda row: row.index.parent or None,
    "chain": lambda row: row.index.chain,
    "gates": lambda row: gates_open(row.index.gates),
    "length": lambda row: row.length,
}


def gates_open(gates: str) -> int:
    """Return how many gates are open, of the JSON text of the list of them; none where that is damaged."""
    if gates == "[]":
        return 0
    try:
        found = orjson.loads(gates)
    except ValueError:
        return 0
    return len(found) if isinstance(found, list) else 0


Bodies: TypeAlias = "Callable[[ExecutionRow, Field], str]"
"""Gives the JSON text of the row that a read model has of a run; of none, an object without anything."""


def no_bodies(row: ExecutionRow, field: Field) -> str:
    """Return the row of a run where nobody keeps any."""
    return "{}"


def fits(row: ExecutionRow, where: Where, bodies: Bodies = no_bodies) -> bool:
    """Whether a run is as *where* says; *bodies* are the rows of read models."""
    match where:
        case Every():
            return all(fits(row, part, bodies) for part in where.parts)
        case Some():
            return any(fits(row, part, bodies) for part in where.parts)
        case Not():
            return not fits(row, where.part, bodies)
        case Known():
            return _value(row, where.field, bodies) is not None
        case Among():
            value = _value(row, where.field, bodies)
            return any(_holds(value, "=", each) for each in where.values)
        case Compared():
            return _holds(_value(row, where.field, bodies), where.sign, where.value)


def _value(row: ExecutionRow, field: Field, bodies: Bodies) -> Scalar | None:
    if field.name == "row":
        return searchable(bodies(row, field)).get(field.attribute)
    if field.name == "attr":
        return searchable(row.index.attributes).get(field.attribute)
    return _READ[field.name](row)


def _holds(value: Scalar | None, sign: Sign, wanted: Scalar) -> bool:
    return value is not None and kind_of(value) == kind_of(wanted) and _SIGNS[sign](value, wanted)
