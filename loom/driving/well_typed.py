"""Whether a fact of a log holds what its type says: a store keeps bytes, and damaged or foreign ones may say anything.

The kernel reads what it wrote itself and does not look at each field; whoever replays a log from anywhere does, first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from loom.core.envelope import EventEnvelope

Holds: TypeAlias = Callable[[Any], bool]


def mistyped(event: EventEnvelope[Any]) -> str | None:
    """Return what is wrong with the fields of *event* in words; None where all are of their types, or its type is not known."""
    fact = event.payload
    if isinstance(fact, dict):
        return None
    kind: Any = type(fact)
    for name, holds, value in zip(fact._fields, _of(kind), fact, strict=True):
        if not holds(value):
            return f"its {name} is {value!r:.80}"
    rules = getattr(fact, "rules", None)
    if rules is not None and not all(type(version) is int for version in rules.values()):
        return f"its rules are {rules!r:.80}"
    return None


@cache
def _of(fact: Any) -> tuple[Holds, ...]:
    hints = get_type_hints(fact)
    return tuple(_holding(hints[name]) for name in fact._fields)


def _holding(hint: Any) -> Holds:
    """Return what tells whether a value is of the type *hint*, of those that facts use."""
    match get_origin(hint):
        case origin if origin in (Union, UnionType):
            parts = [_holding(part) for part in get_args(hint)]
            return lambda value: any(part(value) for part in parts)
        case origin if origin is Literal:
            return lambda value: value in get_args(hint)
        case origin if origin is list:
            [part] = [_holding(part) for part in get_args(hint)]
            return lambda value: isinstance(value, list) and all(map(part, value))
        case origin if origin is dict:
            return lambda value: isinstance(value, Mapping)
        case _:
            return _plainly(hint)


def _plainly(hint: Any) -> Holds:
    if hint is Any:
        return lambda _: True
    if hint is float:
        return lambda value: type(value) in (int, float)
    return lambda value: type(value) is hint
