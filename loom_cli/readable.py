"""What a log holds, as a person reads it: values without the tags that say which types they had."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, time
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from loom.values.tags import Tag

Json: TypeAlias = Any


def readable(json: Json) -> Json:
    """Return encoded *json* with its tags taken off, as JSON: the fields of a model, the text of a date or a decimal.

    An object with a key that only looks like a tag is escaped in a log, so nothing that an author wrote is left out.
    What a tag does not fit stands as it is.
    """
    if isinstance(json, list):
        return [readable(item) for item in json]
    if not isinstance(json, dict):
        return json
    if "$type" in json:
        return _fields(json.get("value"))
    [key, *others] = json or [""]
    if others or not key.startswith("$"):
        return _fields(json)
    return _untagged(key, json[key])


def _untagged(tag: str, json: Json) -> Json:
    from loom.values.tags import UNREADABLE

    try:
        return _readers().get(tag, readable)(json)
    except UNREADABLE:
        return json


def _entries(json: Mapping[str, Json]) -> Json:
    return {name: readable(value) for name, value in json.items()}


def _fields(value: Json) -> Json:
    if not isinstance(value, dict):
        return readable(value)
    fields = {name: readable(field) for name, field in value.items() if name not in ("$unset", "$extra")}
    extra = readable(value["$extra"]) if "$extra" in value else {}
    return {**fields, **extra} if isinstance(extra, dict) else fields


def _mapping(pairs: Json) -> Json:
    """Return *pairs* as an object where that says the same, else as they are."""
    read = [(readable(key), readable(value)) for key, value in pairs]
    named = {key if isinstance(key, str) else _text(key): value for key, value in read}
    return named if len(named) == len(read) else [list(pair) for pair in read]


def _claimed(envelope: Json) -> Json:
    """Return the envelope of a large result: first what a flow goes by, last where it is."""
    parts = ("digest", "inline", "size", "ref") if "ref" in envelope else ("digest", "inline")
    return {part: readable(envelope[part]) for part in parts if part in envelope}


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _integer(text: str) -> Json:
    return text if "x" in text else int(text)  # those too long for decimals are in hexadecimal


def _leaf(tag: Tag) -> Callable[[Json], Json]:
    return lambda json: _text(tag.read(json))


@cache
def _readers() -> Mapping[str, Callable[[Json], Json]]:
    """Return what to do with the payload of a tag; all others (`$tuple`, `$set`) hold what they show.

    Made when the first tag is met: the values that most runs show have none, and their types take long to import.
    """
    from loom.values.tags import TAGS, read_text

    return {
        **{tag.name: _leaf(tag) for tag in TAGS},
        "$str": lambda json: read_text({"$str": json}),
        "$int": _integer,
        "$float": str,
        "$pattern": lambda json: readable(json[0]),
        "$bytearray": lambda json: readable({"$bytes": json}),
        "$dict": _entries,
        "$map": _mapping,
        "$counter": _mapping,
        "$ordered": _mapping,
        "$defaultdict": lambda json: _mapping(json[1]),
        "$deque": lambda json: readable(json[0]),
        "$enum": lambda json: readable(json[-1] if isinstance(json, list) else json),
        "$claimed": _claimed,
        "$url": lambda json: readable(json[-1]),
    }
