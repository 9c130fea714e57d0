"""The page on which one person answers one gate by a link, without the page of runs: plain HTML, no script.

What was entered comes back as a form is posted, texts by the path of the field. All text of a run is made harmless before it is
shown: the template escapes, and what turns or hides text is written out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs

from jinja2 import Environment, StrictUndefined, Template

from loom.core.views import OpenGate
from loom_cli.safe_text import safe, safe_lines
from loom_cli.schemas import choices_of
from loom_cli.web.form_fields import Field, form_of

Json: TypeAlias = Any

SHOWN_MAX: Final = 64 << 10
"""So many characters of what a gate shows are on the page."""

_FIELDS_MAX: Final = 500


def page_of(gate: OpenGate, flow: str, *, entered: Mapping[str, Json], problems: Mapping[str, str], by: str) -> str:
    """Return the page for *gate* of a run of *flow*, answered as *by*, with what was *entered* and what is wrong with it, by path."""
    form = form_of(gate.schema or {})
    optional = tuple(f"{part.path}." for part in form.fields if part.kind == "object" and part.may_be_empty)
    fields = [_drawn(field, entered, problems, optional) for field in _leaves(form)]
    told = {path for field in fields for path in problems if _is_about(path, field["path"])}
    shown = json.dumps(gate.show, ensure_ascii=False, indent=2)
    return _template().render(
        kind="form",
        label=safe(gate.label),
        flow=safe(flow),
        gate=safe(gate.gate),
        by=safe(by),
        shown=None if gate.show is None else safe_lines(shown[:SHOWN_MAX]),
        is_cut=len(shown) > SHOWN_MAX,
        fields=fields,
        problems=[safe(f"{path}: {words}" if path else words) for path, words in problems.items() if path not in told],
    )


def message_of(title: str, words: str, hint: str = "") -> str:
    """Return a page that says something and asks nothing."""
    return _template().render(kind="message", title=safe(title), words=safe(words), hint=safe(hint))


def entered_in(body: bytes, schema: Mapping[str, Any]) -> dict[str, Json]:
    """Return what was entered in the form of *schema* and posted as *body* (application/x-www-form-urlencoded), by path.

    Raises:
        ValueError: *body* is no form, or has more fields than one.
    """
    posted = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    form = form_of(schema)
    values: dict[str, Json] = {}
    for field in _leaves(form):
        texts = posted.get(_name(field.path))
        if texts is not None and (value := _value(field, texts[-1])) is not None:
            values[field.path] = value
    return {**values, **_filled(form, values)}


def _value(field: Field, text: str) -> Json:
    """Return what *text* says in *field*, None for nothing."""
    text = text.replace("\r\n", "\n")
    match field.kind:
        case "boolean":
            return {"true": True, "false": False}.get(text)
        case "list":
            return [line for line in text.split("\n") if line] or None
        case _:
            return text or None


def _filled(form: Field, values: Mapping[str, Json]) -> dict[str, bool]:
    """Return the objects within the form in which something was entered."""
    objects = [field for field in form.fields if field.kind == "object"]
    return {field.path: True for field in objects if any(each.path in values for each in _leaves(field))}


def _leaves(field: Field) -> Iterator[Field]:
    """Yield the fields in which something is entered: an object is its fields."""
    if field.kind != "object":
        yield field
    for each in field.fields:
        yield from _leaves(each)


def _drawn(
    field: Field, entered: Mapping[str, Json], problems: Mapping[str, str], optional: tuple[str, ...]
) -> dict[str, Json]:
    """Return *field* as the template draws it; below a path of *optional* nothing has to be entered."""
    own = [words for path, words in problems.items() if _is_about(path, field.path)]
    choices = choices_of(field.part) if field.kind == "choice" else []
    return {
        "path": field.path,
        "name": _name(field.path),
        "label": safe(field.path or field.label),
        "kind": field.kind,
        "title": safe(field.title),
        "words": safe(field.words),
        "required": not (field.may_be_empty or field.path.startswith(optional)),
        "choices": [(str(at), safe(_text(choice))) for at, choice in enumerate(choices)],
        "value": _first(field, choices, entered.get(field.path)),
        "problem": safe("; ".join(own)),
    }


def _first(field: Field, choices: list[Json], entered: Json) -> str:
    """Return what stands in a field at first: what was entered, else its default. Text comes back as it was given."""
    if entered is not None:
        return "\n".join(entered) if isinstance(entered, list) else _text(entered)
    default = field.part.get("default")
    if default is None:
        return ""
    if field.kind == "choice":
        return str(choices.index(default)) if default in choices else ""
    if field.kind == "list" and isinstance(default, list):
        return "\n".join(_text(each) for each in default)
    return _text(default)


def _is_about(path: str, field: str) -> bool:
    """Whether a problem at *path* is one of *field*: of all of it, or of an item."""
    return path == field or path.startswith(f"{field}[")


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _name(path: str) -> str:
    """Return the name of a field in the form: the whole answer has no path of its own."""
    return f"answer.{path}" if path else "answer"


@cache
def _template() -> Template:
    text = files("loom_cli.web").joinpath("answer.html").read_text("utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(text)
