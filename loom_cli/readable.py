"""What a log holds, as a person reads it: values without the tags that say which types they had."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = Any


def readable(json: Json) -> Json:
    """Return encoded *json* with its tags taken off: the fields of a model, the text of a decimal, the value of an enum.

    Keys that only look like tags are escaped in a log, so nothing that an author wrote is left out.
    """
    if isinstance(json, list):
        return [readable(item) for item in json]
    if not isinstance(json, dict):
        return json
    if "$type" in json:
        return _fields(json.get("value"))
    [key, *others] = json or [""]
    if others or not key.startswith("$"):
        return {name: readable(value) for name, value in json.items()}
    return _untagged(key, json[key])


def _untagged(tag: str, inner: Json) -> Json:
    if tag == "$dict" and isinstance(inner, dict):
        return {name: readable(value) for name, value in inner.items()}
    if tag in ("$enum", "$url", "$defaultdict") and isinstance(inner, list):
        return readable(inner[-1])
    return readable(inner)


def _fields(value: Json) -> Json:
    if not isinstance(value, dict):
        return readable(value)
    fields = {name: readable(field) for name, field in value.items() if name not in ("$unset", "$extra")}
    extra = readable(value.get("$extra", {}))
    return {**fields, **extra} if isinstance(extra, dict) else fields
