"""A form from a JSON Schema: its fields, as the page draws them, and the answer that what was entered in them makes. Pure.

Texts become values by the rules of the form in the terminal (`forms.entry`); what only the types of the app can refuse comes back
as problems by path, as it does there. An object of objects is one level deep; what is deeper, or of several kinds, is JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from loom.core.missing import MISSING
from loom_cli.errors import CommandRefused
from loom_cli.forms import NUMBER_OR_TEXT, Refused, entry, given_part
from loom_cli.payloads import parsed
from loom_cli.schemas import Schema, choices_of, fields_of, is_nullable, kind_of, resolved, words

Json: TypeAlias = Any

_SCALARS: Final = frozenset({"string", "integer", "number", "boolean", NUMBER_OR_TEXT})
_FORMATS: Final = {"date": "date", "time": "time", "password": "secret"}
_BOUNDS: Final = ("minimum", "maximum", "minLength", "maxLength")
_TEXT_MAX: Final = 120
"""A text that may be longer than this is entered in an area of several lines."""


class Field(NamedTuple):
    """One field of a form: its *path* in the answer ("": all of it), what it is called and expects, and of which *kind* it is.

    *part* is its schema when it is given. One that is not *required* is left out when nothing is entered, and one that is nullable is
    `null` then where it is required. *fields* are those of an object.
    """

    path: str
    label: str
    kind: str
    part: Schema
    words: str
    title: str
    required: bool
    nullable: bool
    fields: tuple[Field, ...] = ()

    @property
    def may_be_empty(self) -> bool:
        """Whether nothing has to be entered."""
        return not self.required or self.nullable


class Entered(NamedTuple):
    """What was entered: the *answer*, `MISSING` where there are *problems*, which are by path."""

    answer: Json
    problems: Mapping[str, str]


def form_of(schema: Schema) -> Field:
    """Return the form of an answer to *schema*."""
    return _field(schema, schema, "", "answer", required=True, depth=0)


def form_json(schema: Schema) -> Json:
    """Return the form of *schema* as the page draws it."""
    return _json(form_of(schema))


def entered(schema: Schema, values: Mapping[str, Json]) -> Entered:
    """Return the answer that *values* make, which were entered in the form of *schema*, by path."""
    reading = _Reading(values)
    answer = reading.of(form_of(schema))
    return Entered(MISSING if reading.problems else answer, reading.problems)


def _field(part: Schema, root: Schema, path: str, label: str, *, required: bool, depth: int) -> Field:
    whole = resolved(part, root)
    inner = given_part(part, root)
    kind = _kind(inner, root, depth)
    fields = tuple(_fields(inner, root, path, depth)) if kind == "object" else ()
    about = {"words": words(inner, root), "title": str(inner.get("description", ""))}
    return Field(path, label, kind, inner, **about, required=required, nullable=is_nullable(whole, root), fields=fields)


def _fields(inner: Schema, root: Schema, path: str, depth: int) -> Iterator[Field]:
    for name, field, required in fields_of(inner):
        yield _field(field, root, f"{path}.{name}" if path else name, name, required=required, depth=depth + 1)


def _kind(part: Schema, root: Schema, depth: int) -> str:
    if choices_of(part):
        return "choice"
    kind = kind_of(part)
    if kind in _SCALARS:
        return _scalar_kind(part, kind)
    if (
        kind == "object"
        and part.get("properties")
        and depth <= 1
        and all("." not in name for name in part["properties"])
    ):
        return "object"
    if kind == "array" and isinstance(part.get("items"), Mapping) and not part.get("prefixItems"):
        item = given_part(part["items"], root)
        if kind_of(item) in _SCALARS - {"boolean"} and not choices_of(item) and not is_nullable(part["items"], root):
            return "list"
    return "json"


def _scalar_kind(part: Schema, kind: str) -> str:
    if kind != "string":
        return "boolean" if kind == "boolean" else "number"
    if str(part.get("format")) in _FORMATS:
        return _FORMATS[str(part["format"])]
    is_line = "format" in part or "pattern" in part or part.get("maxLength", _TEXT_MAX + 1) <= _TEXT_MAX
    return "text" if is_line else "area"


def _json(field: Field) -> Json:
    told: dict[str, Json] = {
        "path": field.path,
        "label": field.label,
        "kind": field.kind,
        "required": not field.may_be_empty,
    }
    told |= {name: text for name, text in (("words", field.words), ("title", field.title)) if text}
    if field.kind == "choice":
        told["choices"] = [choice if isinstance(choice, str) else _text(choice) for choice in choices_of(field.part)]
    if field.part.get("default") is not None:
        told["default"] = _default(field)
    if field.kind in ("text", "area", "number"):
        told |= {name: field.part[name] for name in _BOUNDS if name in field.part}
    if field.fields:
        told["fields"] = [_json(each) for each in field.fields]
    return told


def _default(field: Field) -> Json:
    """Return what a field begins with: texts as they would be entered, a choice as its place."""
    default = field.part["default"]
    if field.kind == "choice":
        choices = choices_of(field.part)
        return str(choices.index(default)) if default in choices else None
    if field.kind == "list" and isinstance(default, list):
        return [each if isinstance(each, str) else _text(each) for each in default]
    return default if isinstance(default, (str, bool)) else _text(default)


def _text(value: Json) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


class _Reading:
    """Makes an answer of what was entered, and gathers what is wrong with it."""

    def __init__(self, values: Mapping[str, Json]) -> None:
        self._values = values
        self.problems: dict[str, str] = {}

    def of(self, field: Field) -> Json:
        """Return the value of *field*, `MISSING` where it is left out or wrong."""
        given = self._values.get(field.path)
        if field.kind == "object":
            return self._object(field, given)
        if given is None or given == "" or (given == [] and field.may_be_empty):
            return self._nothing(field)
        try:
            return self._value(field, given)
        except (Refused, CommandRefused) as refused:
            self.problems.setdefault(field.path, str(refused))
        return MISSING

    def _nothing(self, field: Field) -> Json:
        if field.required and field.nullable:
            return None
        if field.required:
            self.problems[field.path] = f"give {field.words}" if field.kind != "choice" else "choose one"
        return MISSING

    def _object(self, field: Field, given: Json) -> Json:
        if field.path and field.may_be_empty and not given:  # not to be filled in
            return None if field.required else MISSING
        parts = {each.label: self.of(each) for each in field.fields}
        return {name: value for name, value in parts.items() if value is not MISSING}

    def _value(self, field: Field, given: Json) -> Json:
        match field.kind:
            case "choice":
                return _chosen(choices_of(field.part), given)
            case "boolean" if isinstance(given, bool):
                return given
            case "json" if kind_of(field.part) != "any":
                return parsed(_line(given), field.label)
            case "list":
                return self._list(field, given)
            case _:
                return entry(field.part, _line(given))

    def _list(self, field: Field, given: Json) -> Json:
        item = given_part(field.part["items"], field.part)
        values: list[Json] = []
        for at, line in enumerate(given if isinstance(given, list) else [given]):
            try:
                values.append(entry(item, _line(line)))
            except Refused as refused:
                self.problems[f"{field.path}[{at}]"] = str(refused)
        least = field.part.get("minItems", 0)
        if len(values) < least:
            raise Refused(f"at least {least} items")
        return values


def _chosen(choices: list[Json], given: Json) -> Json:
    """Return the choice at the place that was entered."""
    if isinstance(given, str) and given.isdecimal() and int(given) < len(choices):
        return choices[int(given)]
    raise Refused("choose one")


def _line(given: Json) -> str:
    if not isinstance(given, str):
        raise Refused("enter a text")
    return given
