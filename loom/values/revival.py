"""From JSON of the log back to the value: the exact inverse of `encoding`. A tag decides; else the annotation's place.

Nothing is coerced and nothing guessed: what is not as it was written is `Trouble`.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from loom.core.claims import FORMS, Claimed
from loom.core.ids import content_ref
from loom.values.encoding import FACTORIES
from loom.values.places import ANY, Place, fields_of
from loom.values.shapes import Shape, Trouble, label, named, url_type
from loom.values.tags import TAGS, UNREADABLE, Tag, read_float, read_integer, read_text

Reader: TypeAlias = Callable[[Any, Place], Any]

_TAG_KEYS_MAX: Final = 2
_BESIDE_FIELDS: Final = ("$extra", "$unset")
_SCALARS: Final = frozenset({str, int, bool, float, type(None)})


def read(json: Any, place: Place) -> Any:
    """Return the value that was written as *json*.

    Raises:
        Trouble: a type is gone, a field is missing, or a tag holds what no writer writes.
    """
    return json if type(json) in _SCALARS else _BY_KIND.get(type(json), _refuse_foreign)(json, place)


def _refuse_foreign(json: Any, place: Place) -> Any:
    raise Trouble(f"a {label(type(json))} is no JSON", kind=label(type(json)))


def _read_object(json: dict[str, Any], place: Place) -> Any:
    if len(json) <= _TAG_KEYS_MAX:
        for key in json:
            if key[:1] == "$":
                reader = READERS.get("$type" if "$type" in json else key)
                if reader is not None:
                    return reader(json, place)
                if place.shape is None or not place.guarded:
                    raise Trouble(f"no value is written with the tag {key!r}", kind=key)
    if not place.guarded:
        return _read_entries(json, place)
    if place.shape is None:
        hint = "Keep the annotation it was written with."
        raise Trouble("which of several types stands here is not recorded", hint=hint)
    return _read_fields(json, place.shape)


def _read_entries(json: dict[str, Any], place: Place) -> dict[str, Any]:
    entries = {}
    key = ""
    try:
        for key, item in json.items():
            if type(item) in _SCALARS:
                entries[key] = item
            else:
                inner = ANY if place is ANY else place.under(key)
                entries[key] = _BY_KIND.get(type(item), _refuse_foreign)(item, inner)
    except Trouble as trouble:
        trouble.inside(f"[{key!r}]")
        raise
    return entries


def _read_list(json: Any, place: Place) -> list[Any]:
    if type(json) is not list:
        raise Trouble("a list is expected here")
    if _SCALARS.issuperset(map(type, json)):
        return json.copy()
    items: list[Any] = []
    append = items.append
    try:
        for item in json:
            if type(item) in _SCALARS:
                append(item)
            else:
                inner = ANY if place is ANY else place.at(len(items))
                append(_BY_KIND.get(type(item), _refuse_foreign)(item, inner))
    except Trouble as trouble:
        trouble.inside(f"[{len(items)}]")
        raise
    return items


def _read_pairs(json: Any, place: Place) -> list[tuple[Any, Any]]:
    if type(json) is not list:
        raise Trouble("a list of pairs is expected here")
    pairs = []
    for key_json, item in json:
        key = read(key_json, place.key or ANY)
        try:
            pairs.append((key, read(item, place.under(key) if type(key) is str else place.value or ANY)))
        except Trouble as trouble:
            trouble.inside(f"[{key!r:.80}]")
            raise
    return pairs


def _read_deque(json: Any, place: Place) -> Any:
    items, maxlen = json
    return collections.deque(_read_list(items, place), maxlen)


def _read_counter(json: Any, place: Place) -> Any:
    return collections.Counter(dict(_read_pairs(json, place)))


def _read_defaultdict(json: Any, place: Place) -> Any:
    name, pairs = json
    return collections.defaultdict(None if name is None else FACTORIES[name], _read_pairs(pairs, place))


def _read_enum(json: Any, place: Place) -> Any:
    if type(json) is list and len(json) == 2:
        shape, member = named(json[0]), json[1]
    elif place.shape is not None:
        shape, member = place.shape, json
    else:
        raise Trouble("which enum this member is of is not recorded", hint="Keep the annotation it was written with.")
    if shape.sort != "enum":
        raise Trouble(f"{label(shape.type)} is no enum", kind=label(shape.type))
    if type(member) is dict:
        member = read_integer(member) if "$int" in member else read_text(member)
    return shape.build({"member": member}, {}, ())


def _read_typed(json: dict[str, Any], place: Place) -> Any:
    shape = named(json["$type"])
    if shape.sort == "enum" or type(json["value"]) is not dict or len(json) != 2:
        raise Trouble(f"this is not how a {label(shape.type)} is written", kind=label(shape.type))
    return _read_fields(json["value"], shape)


def _read_fields(json: dict[str, Any], shape: Shape) -> Any:
    values: dict[str, Any] = {}
    unset: list[str] = []
    name = ""
    try:
        for name, place in shape.places or fields_of(shape):
            if name in json:
                item = json[name]
                kind = type(item)
                values[name] = item if kind in _SCALARS else _BY_KIND.get(kind, _refuse_foreign)(item, place)
            else:
                values[name] = _default(shape, name)
                unset.append(name)
    except Trouble as trouble:
        trouble.kind = trouble.kind or label(shape.type)
        trouble.inside(f".{name}")
        raise
    if len(json) == len(values) and not unset:
        return shape.build(values, {}, ())
    return shape.build(values, _extra(json, shape), (*json.get("$unset", ()), *unset))


def _extra(json: dict[str, Any], shape: Shape) -> Any:
    unknown = [name for name in json if name not in shape.fields and name not in _BESIDE_FIELDS]
    if unknown:
        raise Trouble(
            f"the record has {', '.join(unknown)}, which {label(shape.type)} has not",
            kind=label(shape.type),
            hint="Keep the field for as long as records have it.",
        )
    return read(json.get("$extra", {}), ANY)


def _default(shape: Shape, name: str) -> Any:
    if name not in shape.optional:
        raise Trouble(
            f"the record has no {name}, and {label(shape.type)} no default for it",
            kind=label(shape.type),
            hint="Give the new field a default, or keep the old name.",
        )
    return shape.default(name)


def _guarded(name: str, reader: Reader) -> Reader:
    """Return *reader* as the reader of a one-key object; what it cannot use is told as trouble."""

    def guarded(json: Any, place: Place) -> Any:
        if len(json) != 1:
            raise Trouble(f"an object with the tag {name} has other keys", kind=name)
        try:
            return reader(json[name], place)
        except UNREADABLE as error:
            raise Trouble(f"this is not how a {name} is written ({error})", kind=name) from error

    return guarded


def _typed(json: Any, place: Place) -> Any:
    try:
        return _read_typed(json, place)
    except UNREADABLE as error:
        raise Trouble(f"this is not how a typed value is written ({error})", kind=str(json.get("$type"))) from error


def _read_url(json: Any, place: Place) -> Any:
    name, text = json
    return url_type(name)(read_text(text))


def _read_claimed(json: Any, place: Place) -> Claimed[Any, Any]:
    ref, size, form = json.get("ref"), json["size"], json["form"]
    if type(size) is not int or form not in FORMS:
        raise TypeError("no envelope")
    digest, inline = read(json.get("digest"), ANY), read(json.get("inline"), ANY)
    return Claimed(ref=None if ref is None else content_ref(ref), size=size, form=form, digest=digest, inline=inline)


def _leaf(tag: Tag) -> Reader:
    return lambda json, place: tag.read(json)


READERS: Final[dict[str, Reader]] = {
    name: _guarded(name, reader)
    for name, reader in {
        "$str": lambda json, place: read_text({"$str": json}),
        "$int": lambda json, place: read_integer({"$int": json}),
        "$float": lambda json, place: read_float({"$float": json}),
        "$dict": _read_entries,
        "$map": lambda json, place: dict(_read_pairs(json, place)),
        "$tuple": lambda json, place: tuple(_read_list(json, place)),
        "$set": lambda json, place: set(_read_list(json, place)),
        "$frozenset": lambda json, place: frozenset(_read_list(json, place)),
        "$deque": _read_deque,
        "$counter": _read_counter,
        "$ordered": lambda json, place: collections.OrderedDict(_read_pairs(json, place)),
        "$defaultdict": _read_defaultdict,
        "$enum": _read_enum,
        "$url": _read_url,
        "$claimed": _read_claimed,
        **{tag.name: _leaf(tag) for tag in TAGS},
    }.items()
} | {"$type": _typed}
_BY_KIND: Final[dict[type[Any], Reader]] = {dict: _read_object, list: _read_list}
