"""Fields that nobody asked for: misspelt names, which a model drops without a word. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from loom_cli.errors import CommandRefused
from loom_cli.schemas import Schema, is_nullable, resolved

Json: TypeAlias = Any
_ASKED_MAX = 12


class UnknownField(CommandRefused):
    """What was given has a field that its type has not, and would have dropped."""

    code = "unknown-field"

    def __init__(self, *, path: str, near: tuple[str, ...], known: tuple[str, ...]) -> None:
        self.path, self.near, self.known = path, near, known
        listed = ", ".join([*known[:_ASKED_MAX], *(["..."] if len(known) > _ASKED_MAX else [])])
        self.hint = f"Did you mean {near[0]}?" if near else f"It has {listed}." if known else "It has no fields."
        super().__init__(f"there is no field {path}")


def refuse_unknown_fields(value: Json, schema: Schema | None) -> None:
    """Refuse a field of *value* that *schema* does not name, where it names them all.

    Raises:
        UnknownField: the first one, with names that are spelt like it.
    """
    for unknown in unknown_fields(value, schema or {}, schema or {}, ""):
        raise unknown


def unknown_fields(value: Json, part: Schema, root: Schema, path: str) -> Iterator[UnknownField]:
    """Yield the fields of *value*, at *path*, that are none of *part*."""
    part = resolved(part, root)
    variants = [variant for variant in part.get("anyOf") or part.get("oneOf") or () if not is_nullable(variant, root)]
    if variants:
        found = [list(unknown_fields(value, variant, root, path)) for variant in variants]
        yield from min(found, key=len)  # it may be any of them
    elif isinstance(value, Mapping):
        yield from _of_object(value, part, root, path)
    elif isinstance(value, list):
        places = part.get("prefixItems") or ()
        for index, item in enumerate(value):
            place = places[index] if index < len(places) else part.get("items")
            if isinstance(place, Mapping):
                yield from unknown_fields(item, place, root, f"{path}[{index}]")


def _of_object(value: Mapping[str, Json], part: Schema, root: Schema, path: str) -> Iterator[UnknownField]:
    known, more = part.get("properties") or {}, part.get("additionalProperties", False)
    is_closed = bool(known) and more is False and "patternProperties" not in part
    for name, item in value.items():
        at = f"{path}.{name}" if path else name
        if name in known:
            yield from unknown_fields(item, known[name], root, at)
        elif isinstance(more, Mapping):
            yield from unknown_fields(item, more, root, at)
        elif is_closed:
            yield UnknownField(path=at, near=tuple(difflib.get_close_matches(name, known, 1)), known=tuple(known))
