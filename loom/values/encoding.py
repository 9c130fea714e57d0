"""From a Python value to plain JSON: one writer a type, found by the exact type of the value at hand.

A writer is `(value, place, depth, walk) -> Json`; *depth* counts levels of the JSON being made, not of the value. The
loops over dicts and lists repeat the test for plain scalars instead of calling a writer: they are most of what there is
to write, and a call costs more than the test.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias

import orjson

from loom.core.claims import Claimed
from loom.core.json import Json
from loom.values.canonical import canonical
from loom.values.places import ANY, Place, fields_of
from loom.values.shapes import Shape, Trouble, Values, is_url, label, name_of, shape_of
from loom.values.tags import INTEGER_MAX, TAGS, Tag, plain_text, write_float, write_integer, write_text

DEPTH_MAX: Final = 200
"""Levels of JSON a value may have; orjson writes 254, and the event around the value needs some."""

_CACHE_MAX: Final = 4096
_KEY_LENGTH_MAX: Final = 64


class Walk:
    """One pass over a value: whether fields at their default are left out, and whether there were any to leave out."""

    __slots__ = ("elides", "met_defaults")

    def __init__(self, *, elides: bool = False) -> None:
        self.elides = elides
        self.met_defaults = False


Writer: TypeAlias = Callable[[Any, Place, int, Walk], Json]


def write(value: Any, place: Place, depth: int, walk: Walk) -> Json:
    """Return *value* as JSON.

    Raises:
        Trouble: some part of it cannot be written.
    """
    return (WRITERS.get(type(value)) or _learned(type(value)))(value, place, depth, walk)


def _learned(kind: type[Any]) -> Writer:
    """Return, and keep, the writer for a class of the author's."""
    if len(WRITERS) >= _CACHE_MAX:  # classes made in a loop must not live for ever
        for known in [known for known in WRITERS if known not in _STANDARD]:
            del WRITERS[known]
    shape = shape_of(kind)
    if shape is None:
        return _write_url if is_url(kind) else _refuse
    WRITERS[kind] = writer = _enum_writer(shape) if shape.sort == "enum" else _shape_writer(shape)
    return writer


def _write_url(value: Any, place: Place, depth: int, walk: Walk) -> Json:
    return {"$url": [name_of(type(value)), str(value)]}


def _refuse(value: Any, place: Place, depth: int, walk: Walk) -> Json:
    kind = type(value)
    if "SecretStr" in label(kind) or hasattr(kind, "get_secret_value"):
        hint = "Secrets do not go to the log. Read the secret inside the step that uses it."
    elif isinstance(value, (dict, list, set, frozenset, tuple, str, bytes, int, float)):
        hint = "A subclass of a built-in type may carry more than the log would keep; convert it to the plain type."
    else:
        hint = "Make it inside the step that uses it, and pass the plain values it is made from."
    raise Trouble(f"a {label(kind)} cannot be written to the log", kind=label(kind), hint=hint)


def _too_deep(value: Any) -> Trouble:
    hint = "Pass it flat, as a list of nodes with ids; a value that contains itself cannot be written at all."
    return Trouble("the value is nested too deeply, or contains itself", kind=label(type(value)), hint=hint)


# Plain JSON


def _write_dict(value: dict[Any, Any], place: Place, depth: int, walk: Walk) -> Json:
    if depth > DEPTH_MAX:
        raise _too_deep(value)
    entries: dict[str, Json] = {}
    escaped = place is not ANY and place.guarded
    key: Any = None
    try:
        for key, item in value.items():
            if (type(key) is not str or key not in _plain_keys) and not _remembered(key):
                if not _is_plain_key(key):
                    return {"$map": _write_pairs(value, place, depth + 1, walk)}
                escaped = escaped or key[:1] == "$"
            kind = type(item)
            if kind is int:
                entries[key] = item if -INTEGER_MAX <= item <= INTEGER_MAX else write_integer(item)
            elif kind is bool or item is None or (kind is str and item.isascii() and "\0" not in item):
                entries[key] = item
            else:
                inner = ANY if place is ANY else place.under(key)
                entries[key] = (WRITERS.get(kind) or _learned(kind))(item, inner, depth + 1, walk)
    except Trouble as trouble:
        trouble.inside(f"[{key!r}]")
        raise
    return {"$dict": entries} if escaped else entries


_plain_keys: Final[set[str]] = set()
"""Keys known to need no escape. Hash-equal subclasses of str are kept out by the exact test of the type before."""


def _is_plain_key(key: Any) -> bool:
    return type(key) is str and plain_text(key)


def _remembered(key: Any) -> bool:
    """Whether *key* needs no escape; short ones are remembered."""
    if not _is_plain_key(key) or key[:1] == "$":
        return False
    if len(key) <= _KEY_LENGTH_MAX and len(_plain_keys) < _CACHE_MAX:
        _plain_keys.add(key)
    return True


def _write_pairs(value: dict[Any, Any], place: Place, depth: int, walk: Walk) -> list[Json]:
    if depth > DEPTH_MAX:
        raise _too_deep(value)
    if getattr(value, "__dict__", None):
        raise Trouble(f"a {label(type(value))} with attributes of its own cannot be written", kind=label(type(value)))
    pairs: list[Json] = []
    key: Any = None
    try:
        for key, item in value.items():
            inner = place.under(key) if type(key) is str else place.value or ANY
            pairs.append([write(key, place.key or ANY, depth + 2, walk), write(item, inner, depth + 2, walk)])
    except Trouble as trouble:
        trouble.inside(f"[{key!r:.80}]")
        raise
    return pairs


def _write_list(value: Collection[Any], place: Place, depth: int, walk: Walk) -> list[Json]:
    if depth > DEPTH_MAX:
        raise _too_deep(value)
    if len(value) > _LIST_LONG and place is ANY and _all_plain(plain := list(value)):
        return plain
    items: list[Json] = []
    append = items.append
    try:
        for item in value:
            kind = type(item)
            if kind is int:
                append(item if -INTEGER_MAX <= item <= INTEGER_MAX else write_integer(item))
            elif kind is bool or item is None or (kind is str and item.isascii() and "\0" not in item):
                append(item)
            else:
                inner = ANY if place is ANY else place.at(len(items))
                append((WRITERS.get(kind) or _learned(kind))(item, inner, depth + 1, walk))
    except Trouble as trouble:
        trouble.inside(f"[{len(items)}]")
        raise
    return items


def _all_plain(items: list[Any]) -> bool:
    """Whether *items* are scalars that JSON keeps as they are, told by orjson much faster than by a loop."""
    kinds = set(map(type, items))
    if not kinds <= _PLAIN_KINDS:
        return False
    try:
        written = orjson.dumps(items, option=orjson.OPT_STRICT_INTEGER)
    except TypeError:  # half a surrogate pair, or an integer beyond 2**53
        return False
    return b"\\u0000" not in written and (float not in kinds or b"null" not in written)  # null: NaN, or an infinity


_PLAIN_KINDS: Final = frozenset({str, int, bool, float, type(None)})
_LIST_LONG: Final = 16


# The standard library's containers


def _tagged_list(tag: str) -> Writer:
    return lambda value, place, depth, walk: {tag: _write_list(value, place, depth + 1, walk)}


def _set_writer(tag: str) -> Writer:
    def writer(value: Any, place: Place, depth: int, walk: Walk) -> Json:
        return {tag: sorted(_write_list(value, place, depth + 1, walk), key=canonical)}

    return writer


def _write_deque(value: collections.deque[Any], place: Place, depth: int, walk: Walk) -> Json:
    return {"$deque": [_write_list(value, place, depth + 2, walk), value.maxlen]}


def _write_counter(value: collections.Counter[Any], place: Place, depth: int, walk: Walk) -> Json:
    return {"$counter": _write_pairs(value, place, depth + 1, walk)}


def _write_ordered(value: collections.OrderedDict[Any, Any], place: Place, depth: int, walk: Walk) -> Json:
    return {"$ordered": _write_pairs(value, place, depth + 1, walk)}


FACTORIES: Final = {kind.__name__: kind for kind in (list, dict, set, tuple, str, int, float, bool, frozenset)}


def _write_defaultdict(value: collections.defaultdict[Any, Any], place: Place, depth: int, walk: Walk) -> Json:
    factory = value.default_factory
    name = None if factory is None else getattr(factory, "__name__", None)
    if factory is not None and FACTORIES.get(str(name)) is not factory:
        raise Trouble(
            "a defaultdict with a factory of its own cannot be written to the log",
            kind=label(type(value)),
            hint=f"Use one of {', '.join(FACTORIES)} as its factory, or pass dict(value).",
        )
    return {"$defaultdict": [name, _write_pairs(value, place, depth + 2, walk)]}


def _write_claimed(value: Claimed[Any, Any], place: Place, depth: int, walk: Walk) -> Json:
    """Return an envelope; what is written first of one with an address is what a citation is found by (loom/rings)."""
    written: dict[str, Json] = {} if value.ref is None else {"ref": value.ref}
    written |= {"size": value.size, "form": value.form}
    if value.digest is not None:
        written["digest"] = write(value.digest, ANY, depth + 2, walk)
    if value.ref is None:
        written["inline"] = write(value.inline, ANY, depth + 2, walk)
    return {"$claimed": written}


# The author's classes


def _enum_writer(shape: Shape) -> Writer:
    def writer(value: Any, place: Place, depth: int, walk: Walk) -> Json:
        member = shape.read(value)[0]["member"]
        written = write_integer(member) if type(member) is int else write_text(member)
        return {"$enum": written if place.shape is shape else [name_of(shape.type), written]}

    return writer


def _shape_writer(shape: Shape) -> Writer:
    def writer(value: Any, place: Place, depth: int, walk: Walk) -> Json:
        if depth > DEPTH_MAX:
            raise _too_deep(value)
        if place.shape is shape:
            return _write_fields(value, shape, depth, walk)
        return {"$type": name_of(shape.type), "value": _write_fields(value, shape, depth + 1, walk)}

    return writer


def _write_fields(value: Any, shape: Shape, depth: int, walk: Walk) -> Json:
    values, extra, unset = shape.read(value)
    written: dict[str, Json] = {}
    name = ""
    try:
        for name, place in shape.places or fields_of(shape):
            item = values.get(name, _ABSENT)
            kind = type(item)
            if kind is bool or item is None or (kind is str and item.isascii() and "\0" not in item):
                written[name] = item
            elif kind is int:
                written[name] = item if -INTEGER_MAX <= item <= INTEGER_MAX else write_integer(item)
            else:
                written[name] = (WRITERS.get(kind) or _learned(kind))(item, place, depth + 1, walk)
    except Trouble as trouble:
        trouble.inside(f".{name}")
        raise
    if extra:
        written["$extra"] = _write_dict(dict(extra), ANY, depth + 1, walk)
    if walk.elides:
        return _without_defaults(written, values, shape)
    if shape.optional:
        walk.met_defaults = True
        if unset:
            written["$unset"] = list(unset)
    return written


_ABSENT: Final = type("a field that was never set", (), {})()


def _without_defaults(written: dict[str, Json], values: Values, shape: Shape) -> dict[str, Json]:
    def at_default(name: str) -> bool:
        if name not in shape.optional:
            return False
        default, value = shape.default(name), values[name]
        return type(default) is type(value) and bool(default == value)

    return {name: json for name, json in written.items() if not at_default(name)}


def _leaf_writer(tag: Tag) -> Writer:
    name, write_leaf = tag.name, tag.write
    return lambda value, place, depth, walk: {name: write_leaf(value)}


WRITERS: Final[dict[type[Any], Writer]] = {
    dict: _write_dict,
    list: _write_list,
    str: lambda value, place, depth, walk: write_text(value),
    int: lambda value, place, depth, walk: value if -INTEGER_MAX <= value <= INTEGER_MAX else write_integer(value),
    float: lambda value, place, depth, walk: write_float(value),
    bool: lambda value, place, depth, walk: value,
    type(None): lambda value, place, depth, walk: value,
    tuple: _tagged_list("$tuple"),
    set: _set_writer("$set"),
    frozenset: _set_writer("$frozenset"),
    collections.deque: _write_deque,
    collections.Counter: _write_counter,
    collections.OrderedDict: _write_ordered,
    collections.defaultdict: _write_defaultdict,
    Claimed: _write_claimed,
    **{kind: _leaf_writer(tag) for tag in TAGS for kind in tag.types},
}
"""The writer of each type: the standard library's, and after them those learned from the author's classes."""

_STANDARD: Final = frozenset(WRITERS)
