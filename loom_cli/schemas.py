"""Reading a JSON Schema: its parts, and what it expects in the words of a person."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

_REFERENCES_MAX: Final = 32
_FORMATS: Final = {
    "date": "a date like 2026-01-31",
    "date-time": "a date and time like 2026-01-31T12:00:00Z",
    "time": "a time like 12:30:00",
    "duration": "a duration like PT1H30M",
    "uuid": "a UUID",
    "email": "an e-mail address",
    "uri": "a URL",
    "password": "a secret",
    "decimal": "a decimal number",
}
_PLACEHOLDERS: Final = {
    "date": "DATE",
    "date-time": "DATE-TIME",
    "time": "TIME",
    "duration": "DURATION",
    "email": "EMAIL",
    "uri": "URL",
    "uuid": "UUID",
    "decimal": "NUMBER",
    "password": "SECRET",
}
"""What stands in an example for a value that nobody can invent, by the format of a text; typed as it is, it is refused."""

_SAMPLE_DEPTH_MAX: Final = 8
_KINDS: Final = {
    "boolean": "yes or no",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "object": "an object",
    "array": "a list",
    "null": "nothing",
}


def resolved(part: Schema, root: Schema) -> Schema:
    """Return *part* with its `$ref` (and an `allOf` of one) replaced by what it names in *root*; its own words win."""
    for _ in range(_REFERENCES_MAX):
        inner: Schema
        if "$ref" in part:
            inner = _at(root, str(part["$ref"]))
        elif len(part.get("allOf") or ()) == 1:
            inner = part["allOf"][0]
        else:
            return part
        part = {**inner, **{key: value for key, value in part.items() if key not in ("$ref", "allOf")}}
    return {}


def _at(root: Schema, reference: str) -> Schema:
    found: Any = root
    for word in reference.removeprefix("#").split("/")[1:]:
        name = word.replace("~1", "/").replace("~0", "~")
        found = found.get(name, {}) if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) else {}


def kind_of(part: Schema) -> str:
    """Return the JSON type that *part* describes, "any" when it names none."""
    kind = part.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in part else "array" if "prefixItems" in part else "any"


def is_nullable(part: Schema, root: Schema) -> bool:
    """Whether null is a value of *part*."""
    kind = part.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return True
    return any(resolved(each, root).get("type") == "null" for each in part.get("anyOf") or part.get("oneOf") or ())


def choices_of(part: Schema) -> list[Any]:
    """Return the values of an enum, of a constant, or of a union of constants; empty when *part* is neither."""
    if part.get("enum"):
        return list(part["enum"])
    if "const" in part:
        return [part["const"]]
    variants: Sequence[Schema] = part.get("anyOf") or part.get("oneOf") or ()
    constants = [variant["const"] for variant in variants if "const" in variant]
    return constants if constants and len(constants) == len(variants) else []


def fields_of(part: Schema) -> Iterator[tuple[str, Schema, bool]]:
    """Yield each field of an object: its name, its schema, whether it is required."""
    required = set(part.get("required") or ())
    for name, field in (part.get("properties") or {}).items():
        yield name, field, name in required


def words(part: Schema, root: Schema) -> str:
    """Return what *part* expects, in a few words: `a number, at least 0`."""
    part = resolved(part, root)
    if choices := choices_of(part):
        return " | ".join(_text(choice) for choice in choices)
    variants = part.get("anyOf") or part.get("oneOf")
    if variants:
        return " or ".join(dict.fromkeys(_variant(variant, root) for variant in variants))
    kind = kind_of(part)
    if kind == "array" and isinstance(part.get("items"), Mapping):
        return ", ".join([f"a list, each {_variant(part['items'], root)}", *_bounds(part)])
    if kind == "object":
        return str(part.get("title") or _KINDS[kind])
    named = _FORMATS.get(str(part.get("format"))) if kind in ("string", "number") else None
    return ", ".join([named or _KINDS.get(kind, "any JSON, or text"), *_bounds(part)])


def _variant(variant: Schema, root: Schema) -> str:
    return words(variant, root)


def _bounds(part: Schema) -> Iterator[str]:
    for key, told in (
        ("minimum", "at least {}"),
        ("exclusiveMinimum", "more than {}"),
        ("maximum", "at most {}"),
        ("exclusiveMaximum", "less than {}"),
        ("minLength", "at least {} characters"),
        ("maxLength", "at most {} characters"),
        ("minItems", "at least {} items"),
        ("maxItems", "at most {} items"),
    ):
        if key in part:
            yield told.format(part[key])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def described(schema: Schema) -> list[tuple[str, str, str]]:
    """Return the fields of what *schema* expects: name, words, remark. A value without fields is one row named ""."""
    whole = resolved(schema, schema)
    if kind_of(whole) != "object" or not whole.get("properties"):
        return [("", words(whole, schema), str(whole.get("description", "")))]
    return [
        (name, words(_given(field, schema), schema), _remark(resolved(field, schema), required=required))
        for name, field, required in fields_of(whole)
    ]


def _given(field: Schema, root: Schema) -> Schema:
    """Return what *field* is when it is given: an optional one without its null."""
    field = resolved(field, root)
    kinds = [v for v in field.get("anyOf") or () if resolved(v, root).get("type") != "null"]
    return kinds[0] if len(kinds) == 1 else field


def _remark(field: Schema, *, required: bool) -> str:
    told = [str(field["description"])] if field.get("description") else []
    if not required:
        default = field.get("default")
        told.append("optional" if default in (None, "") else f"default {_text(default)}")
    return "; ".join(told)


def example(schema: Schema | None, flag: str = "--answer", *, fields: bool = True) -> str:
    """Return the options of a command that answers *schema*: `--set approved=true --set amount=NUMBER`.

    Words in capitals are to be replaced. With *fields* those of an object are set one by one, else it is one *flag*.
    """
    whole = resolved(schema or {}, schema or {})
    if kind_of(whole) != "object" or not whole.get("properties") or not fields:
        return f"{flag} {shlex.quote(_json(_sample(whole, schema or {})))}"
    every = [(name, field) for name, field, _ in fields_of(whole)]
    needed = [(name, field) for name, field, required in fields_of(whole) if required]
    parts = [f"{name}={_assigned(_sample(field, schema or {}))}" for name, field in needed or every[:1]]
    return " ".join(f"--set {shlex.quote(part)}" for part in parts)


def _assigned(sample: Any) -> str:
    return sample if isinstance(sample, str) else _json(sample)


def _json(sample: Any) -> str:
    return json.dumps(sample, ensure_ascii=False).replace('"NUMBER"', "NUMBER")


def _sample(part: Schema, root: Schema, depth: int = 0) -> Any:
    part = resolved(part, root)
    if choices := choices_of(part):
        return choices[0] if len(choices) == 1 else "|".join(_text(choice) for choice in choices)
    variants = part.get("anyOf") or part.get("oneOf")
    if variants or depth > _SAMPLE_DEPTH_MAX:
        return _sample(variants[0], root, depth + 1) if variants and depth <= _SAMPLE_DEPTH_MAX else "VALUE"
    if kind_of(part) == "object":
        return {name: _sample(field, root, depth + 1) for name, field, required in fields_of(part) if required}
    if kind_of(part) == "array":
        places = part.get("prefixItems") or [part.get("items") or {}] * min(part.get("minItems", 0), 1)
        return [_sample(place, root, depth + 1) for place in places]
    text = _PLACEHOLDERS.get(str(part.get("format")), "TEXT")
    return {"boolean": True, "integer": "NUMBER", "number": "NUMBER", "null": None}.get(kind_of(part), text)
