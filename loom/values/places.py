"""What an annotation says of a place in a value, reduced to what the log needs: which type name may be left off."""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from loom.core.missing import MISSING
from loom.values.shapes import STANDARD, Shape, shape_of


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class Place:
    """One place: the class expected there (*shape*), and what is expected of the parts of whatever stands there."""

    shape: Shape | None = None
    several: bool = False
    """One of several classes: each is written with its name."""
    item: Place | None = None
    items: tuple[Place, ...] = ()
    key: Place | None = None
    value: Place | None = None
    entries: Mapping[str, Place] = dataclasses.field(default_factory=dict)
    guarded: bool = dataclasses.field(init=False)
    """Whether an object without a tag means the fields of a class here, so that a plain dict needs a tag."""

    def __post_init__(self) -> None:
        self.guarded = self.several or (self.shape is not None and self.shape.sort != "enum")

    def at(self, index: int) -> Place:
        if index < len(self.items):
            return self.items[index]
        return self.item or ANY

    def under(self, key: str) -> Place:
        return self.entries.get(key) or self.value or ANY


ANY: Final = Place()
"""The place of which nothing is known; all is written out."""

_OPEN: Final = (Any, MISSING, object, inspect.Parameter.empty)
_PASSED_THROUGH: Final = ("Annotated", "Required", "NotRequired", "ReadOnly", "Final", "ClassVar")
_WITHOUT_FIELDS: Final = frozenset(kind for kind in STANDARD if not issubclass(kind, collections.abc.Collection)) | {
    *(str, bytes)
}
_UNIONS: Final = (typing.Union, types.UnionType)
_TYPING: Final = ("typing", "typing_extensions")


def _typings() -> list[ModuleType]:
    """Return the modules that annotations are made of: of the second only if somebody has it, as its import costs a start."""
    return [sys.modules[name] for name in _TYPING if name in sys.modules]


def _is_passed_through(origin: Any) -> bool:
    return origin is not None and any(
        origin is getattr(module, name, None) for module in _typings() for name in _PASSED_THROUGH
    )


def _is_alias(annotation: Any) -> bool:
    kinds = (getattr(module, "TypeAliasType", None) for module in _typings())
    return isinstance(annotation, tuple(kind for kind in kinds if kind is not None))


def is_open(annotation: Any) -> bool:
    """Whether *annotation* says nothing: absent, Any or object."""
    return any(annotation is known for known in _OPEN)


def is_typed_dict(annotation: Any) -> bool:
    return isinstance(annotation, type) and any(module.is_typeddict(annotation) for module in _typings())


def has_defaults(annotation: Any, place: Place) -> bool:
    """Whether a value of *annotation* may hold fields with a default; unknown counts as may."""
    if place.shape is not None and place.shape.sort == "enum":
        return False
    return place is not ANY or not (isinstance(annotation, type) and annotation in _WITHOUT_FIELDS)


def fields_of(shape: Shape) -> tuple[tuple[str, Place], ...]:
    """Return the fields of a class, each with what its annotation says of it."""
    if shape.places is None:
        hints = shape.hints()
        shape.places = tuple((name, place_of(hints.get(name, Any))) for name in shape.fields)
    return typing.cast("tuple[tuple[str, Place], ...]", shape.places)


def place_of(annotation: Any, within: tuple[Any, ...] = ()) -> Place:
    """Return what *annotation* says; *within* holds the aliases and TypedDicts being looked at, which may recur."""
    annotation = _bare(annotation, within)
    if is_open(annotation) or any(annotation is outer for outer in within):
        return ANY
    origin = typing.get_origin(annotation) or annotation
    if origin in _UNIONS:
        return _union_place(typing.get_args(annotation), within)
    if is_typed_dict(origin):
        return _typed_dict_place(origin, (*within, annotation))
    if isinstance(annotation, type) and not typing.get_args(annotation):
        shape = shape_of(annotation)
        return ANY if shape is None else Place(shape=shape)
    if not isinstance(origin, type):
        return ANY
    return _generic_place(origin, typing.get_args(annotation), within)


def _bare(annotation: Any, within: tuple[Any, ...]) -> Any:
    """Return *annotation* without what has no bearing on the value: Annotated, NewType, an alias' name."""
    while True:
        if _is_passed_through(typing.get_origin(annotation)):
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif _is_alias(annotation):
            return _alias_value(annotation, within)
        else:
            return annotation


def _alias_value(alias: Any, within: tuple[Any, ...]) -> Any:
    try:
        value = alias.__value__
    except NameError:  # names something that exists for type checkers only
        return Any
    return Any if _mentions(value, alias) else _bare(value, within)


def _mentions(annotation: Any, alias: Any, depth: int = 0) -> bool:
    """Whether an alias stands in itself, directly or through another: such types are JSON-like, and written out."""
    if annotation is alias or depth > 20:
        return True
    inner = annotation.__value__ if _is_alias(annotation) else None
    parts = typing.get_args(annotation) if inner is None else (inner,)
    return any(_mentions(part, alias, depth + 1) for part in parts)


def _union_place(arms: tuple[Any, ...], within: tuple[Any, ...]) -> Place:
    places = [place_of(arm, within) for arm in arms if arm is not type(None)]
    if len(places) == 1:
        return places[0]
    return Place(several=True) if any(place.guarded for place in places) else ANY


def _typed_dict_place(kind: Any, within: tuple[Any, ...]) -> Place:
    try:
        hints = _typings()[-1].get_type_hints(kind, include_extras=True)
    except (NameError, TypeError):
        return ANY
    entries = {name: place_of(hint, within) for name, hint in hints.items()}
    return Place(entries=entries) if any(place is not ANY for place in entries.values()) else ANY


def _generic_place(origin: type[Any], arguments: tuple[Any, ...], within: tuple[Any, ...]) -> Place:
    shape = shape_of(origin)
    if shape is not None:
        return Place(shape=shape)
    places = tuple(place_of(argument, within) for argument in arguments if argument is not ...)
    if not any(place is not ANY for place in places):
        return ANY
    if issubclass(origin, collections.abc.Mapping) and len(places) <= 2:
        return Place(key=places[0], value=places[1] if len(places) == 2 else ANY)  # Counter has its keys only
    if issubclass(origin, tuple) and ... not in arguments:
        return Place(items=places)
    return Place(item=places[0]) if len(places) == 1 and issubclass(origin, collections.abc.Iterable) else ANY
