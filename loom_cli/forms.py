"""Questions from a JSON Schema: what a gate expects, asked field by field, in words a person understands.

`ask(schema)` is a generator: it yields a `Question` and is sent the line that was typed, until it returns the answer as JSON.
It reads and prints nothing, so a form is tested by sending lines to it. What a line cannot be is told in the `problem` of the
same question, asked again. The types of the app are not known here; what only they can refuse comes back as problems by
path, and `ask(schema, known=answer, problems=...)` asks those fields again and keeps the others.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Generator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

from loom.core.missing import MISSING
from loom_cli.errors import Usage
from loom_cli.payloads import json_or_text
from loom_cli.schemas import Schema, choices_of, fields_of, is_nullable, kind_of, resolved, words

Json: TypeAlias = Any
Asking: TypeAlias = "Generator[Question, str, Json]"

YES: Final = frozenset({"y", "yes", "true", "1"})
NO: Final = frozenset({"n", "no", "false", "0"})

NUMBER_OR_TEXT: Final = "number or text"
"""The type of a part that may be either, as a `Decimal` is."""


_BOUNDS: Final = (
    ("minimum", operator.ge, "at least"),
    ("exclusiveMinimum", operator.gt, "more than"),
    ("maximum", operator.le, "at most"),
    ("exclusiveMaximum", operator.lt, "less than"),
)


class Question(NamedTuple):
    """One line to ask for.

    *label* is the path of the field, *words* what is expected, *choices* are shown by number, *default* is what an
    empty line means ("" when an empty line is no answer), *problem* says why it is asked again.
    """

    label: str
    words: str = ""
    title: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""
    problem: str = ""
    secret: bool = False


class Refused(ValueError):
    """A line that is no answer to its question; the text says why."""


class _Form(NamedTuple):
    root: Schema
    problems: Mapping[str, str]

    def schema(self, part: Schema) -> Schema:
        return resolved(part, self.root)

    def problem(self, path: str) -> str:
        return self.problems.get(path, "")

    def is_fine(self, path: str) -> bool:
        """Whether no problem was told at *path* or below."""
        below = (f"{path}.", f"{path}[")
        return not any(at == path or at.startswith(below) for at in self.problems)


def ask(schema: Schema, *, known: Json = MISSING, problems: Mapping[str, str] | None = None) -> Asking:
    """Ask for a value of *schema* and return it; fields of *known* without a problem are kept and not asked."""
    form = _Form(schema, problems or {})
    return (yield from _value(form, schema, "", known=known))


def _value(form: _Form, part: Schema, path: str, *, known: Json = MISSING) -> Asking:
    part = given_part(part, form.root)
    choices = choices_of(part)
    if len(choices) == 1:
        return choices[0]
    if choices:
        return (yield from _choice(form, part, path, known=known))
    if kind_of(part) == NUMBER_OR_TEXT:
        return (yield from _scalar(form, part, path, known=known))
    if part.get("anyOf") or part.get("oneOf"):
        return (yield from _variant(form, part, path))
    asking = {"object": _object, "array": _array, "null": _nothing}.get(kind_of(part), _scalar)
    return (yield from asking(form, part, path, known=known))


def _nothing(form: _Form, part: Schema, path: str, *, known: Json = MISSING) -> Asking:
    return None
    yield  # a generator that asks nothing


def given_part(part: Schema, root: Schema) -> Schema:
    """Return what a value of *part* is when it is given: without its null; a number or a text is of a type of its own."""
    whole = resolved(part, root)
    variants = _kinds(whole, root)
    if len(variants) == 1:
        return {**variants[0], **_about(whole)}
    return {**whole, "type": NUMBER_OR_TEXT} if _is_number_or_text(variants) else whole


def _is_number_or_text(variants: Sequence[Schema]) -> bool:
    """Whether these are a number or a text, whatever it is like, as of a `Decimal`: one line can be either."""
    kinds = [{key: value for key, value in each.items() if key != "pattern"} for each in variants]
    return len(kinds) == 2 and {"type": "string"} in kinds and {"type": "number"} in kinds


def _kinds(part: Schema, root: Schema) -> list[Schema]:
    """Return the kinds that a union allows, but for null."""
    every = [resolved(variant, root) for variant in part.get("anyOf") or part.get("oneOf") or ()]
    return [variant for variant in every if variant.get("type") != "null"]


def _about(part: Schema) -> Schema:
    return {key: part[key] for key in ("title", "description", "default") if key in part}


# -- one line ----------------------------------------------------------------------------------------------------------


def _scalar(form: _Form, part: Schema, path: str, *, known: Json = MISSING) -> Asking:
    default = known if known is not MISSING else part.get("default", MISSING)
    question = Question(
        path or "answer",
        words(part, form.root),
        title=str(part.get("description", "")),
        default="" if default is MISSING or default is None else _shown(default),
        problem=form.problem(path),
        secret=part.get("format") == "password",
    )
    while True:
        line = (yield question).strip()
        if not line and default is not MISSING:
            return default
        try:
            return entry(part, line)
        except Refused as refused:
            question = question._replace(problem=str(refused))


def _shown(value: Json) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def entry(part: Schema, line: str) -> Json:
    """Return the JSON that *line* is for a scalar of *part*.

    Raises:
        Refused: it is none.
    """
    match kind_of(part):
        case "boolean":
            return _boolean(line)
        case "integer":
            return _within(part, _number(line, int, "a whole number"))
        case "number":
            return _within(part, _number(line, float, "a number"))
        case "string":
            return _text(part, line)
        case kind if kind == NUMBER_OR_TEXT:
            return _number_or_text(line)
        case _:
            return _any(line)


def _number_or_text(line: str) -> Json:
    """Return the number that *line* is; what is none, or has more digits than a float, stays a text."""
    try:
        number = _number(line, float, "a number")
    except Refused:
        return _text({}, line)
    return number if Decimal(repr(number)) == Decimal(line.replace("_", "")) else line


def _any(line: str) -> Json:
    try:
        return json_or_text(line, "it")
    except Usage as refused:
        raise Refused(str(refused)) from None


def _boolean(line: str) -> bool:
    if line.lower() in YES | NO:
        return line.lower() in YES
    raise Refused("answer yes or no")


def _number(line: str, kind: type[int] | type[float], what: str) -> int | float:
    try:
        number = kind(line)
    except ValueError:
        raise Refused(f"{line!r} is not {what}" if line else f"give {what}") from None
    if isinstance(number, float) and not math.isfinite(number):
        raise Refused(f"{line!r} is not {what}")
    return number


def _within(part: Schema, number: int | float) -> int | float:
    for key, fits, told in _BOUNDS:
        if key in part and not fits(number, part[key]):
            raise Refused(f"{number} is not {told} {part[key]}")
    return number


def _text(part: Schema, line: str) -> str:
    text = "" if line in ('""', "''") else line
    if not line:
        raise Refused('give a text; "" is an empty one')
    if len(text) < part.get("minLength", 0):
        raise Refused(f"at least {part['minLength']} characters")
    if "maxLength" in part and len(text) > part["maxLength"]:
        raise Refused(f"at most {part['maxLength']} characters")
    if "pattern" in part and not _matches(part["pattern"], text):
        raise Refused(f"does not match {part['pattern']}")
    return text


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:  # another dialect: the app's own type decides
        return True


# -- a choice ----------------------------------------------------------------------------------------------------------


def _choice(form: _Form, part: Schema, path: str, *, known: Json = MISSING) -> Asking:
    values = choices_of(part)
    shown = tuple(_shown(value) for value in values)
    default = known if known in values else part.get("default", MISSING)
    number = str(values.index(default) + 1) if default in values else ""
    about = str(part.get("description", ""))
    question = Question(path or "answer", title=about, choices=shown, default=number, problem=form.problem(path))
    chosen = yield from _number_of(question)
    return values[chosen]


def _number_of(question: Question) -> Generator[Question, str, int]:
    """Ask for one of the choices, by its number or its text, and return its index."""
    numbers = [str(number) for number in range(1, len(question.choices) + 1)]
    while True:
        line = (yield question).strip() or question.default
        if line in question.choices:
            return question.choices.index(line)
        if line in numbers:
            return numbers.index(line)
        question = question._replace(problem=f"choose 1 to {len(question.choices)}")


def _variant(form: _Form, part: Schema, path: str) -> Asking:
    variants = _kinds(part, form.root)
    names = tuple(str(v.get("title") or words(v, form.root)) for v in variants)
    if is_nullable(part, form.root):
        names = (*names, "none")
    question = Question(path or "answer", "which kind", str(part.get("description", "")), names)
    chosen = yield from _number_of(question._replace(problem=form.problem(path)))
    if chosen == len(variants):
        return None
    return (yield from _value(form, variants[chosen], path))


# -- what has parts ----------------------------------------------------------------------------------------------------


def _object(form: _Form, part: Schema, path: str, *, known: Json = MISSING) -> Asking:
    if not part.get("properties"):
        return (yield from _mapping(form, part, path))
    before = known if isinstance(known, Mapping) else {}
    answer: dict[str, Json] = {}
    for name, field, required in fields_of(part):
        at = f"{path}.{name}" if path else name
        had = before.get(name, MISSING)
        if had is not MISSING and form.problems and form.is_fine(at) and not form.problem(path):
            answer[name] = had
            continue
        value = yield from _field(form, field, at, required=required, known=had)
        if value is not MISSING:
            answer[name] = value
    return answer


def _field(form: _Form, field: Schema, path: str, *, required: bool, known: Json) -> Asking:
    """Ask for one field; MISSING when an optional one is left out."""
    whole = form.schema(field)
    if required and not is_nullable(whole, form.root):
        return (yield from _value(form, field, path, known=known))
    leave = None if required else MISSING
    inner = given_part(whole, form.root)
    if kind_of(inner) in ("object", "array") and not choices_of(inner):
        filled = known is not MISSING and known is not None
        if (yield from _yes_no(form, path, f"fill in {path}?", default=filled)):
            return (yield from _value(form, inner, path, known=known))
        return leave
    return (yield from _optional(form, inner, path, leave=leave, known=known))


def _optional(form: _Form, inner: Schema, path: str, *, leave: Json, known: Json) -> Asking:
    """Ask as for a required field, but take an empty line as leaving it out."""
    asking = _value(form, {k: v for k, v in inner.items() if k != "default"}, path, known=known)
    try:
        question = next(asking)
        default = inner.get("default")
        while True:
            hint = _shown(default) if default is not None else "leave out"
            shown = question if question.default else question._replace(default=hint)
            line = yield shown
            if not line.strip() and not question.default:
                asking.close()
                return leave
            question = asking.send(line)
    except StopIteration as ended:
        return ended.value


def _yes_no(form: _Form, path: str, title: str, *, default: bool) -> Generator[Question, str, bool]:
    shown = "yes" if default else "no"
    question = Question(path or "answer", "yes or no", title, default=shown, problem=form.problem(path))
    while True:
        line = (yield question).strip() or question.default
        try:
            return _boolean(line)
        except Refused as refused:
            question = question._replace(problem=str(refused))


def _array(form: _Form, part: Schema, path: str, *, known: Json = MISSING) -> Asking:
    places = part.get("prefixItems")
    if places:
        return (yield from _tuple(form, places, path))
    item = form.schema(part.get("items") or {})
    least, most = part.get("minItems", 0), part.get("maxItems")
    answer: list[Json] = []
    while most is None or len(answer) < most:
        at = f"{path}[{len(answer)}]"
        if len(answer) < least:
            answer.append((yield from _value(form, item, at)))
            continue
        value = yield from _next_item(form, item, at)
        if value is MISSING:
            break
        answer.append(value)
    return answer


def _next_item(form: _Form, item: Schema, path: str) -> Asking:
    """Ask for one more item; MISSING when there is none."""
    inner = given_part(item, form.root)
    if kind_of(inner) in ("object", "array") and not choices_of(inner):
        if not (yield from _yes_no(form, path, f"add {path}?", default=False)):
            return MISSING
        return (yield from _value(form, inner, path))
    asking = _optional(form, inner, path, leave=MISSING, known=MISSING)
    try:
        question = next(asking)
        while True:
            line = yield question._replace(default="no more") if question.default == "leave out" else question
            question = asking.send(line)
    except StopIteration as ended:
        return ended.value


def _tuple(form: _Form, places: Sequence[Schema], path: str) -> Asking:
    answer: list[Json] = []
    for index, place in enumerate(places):
        answer.append((yield from _value(form, place, f"{path}[{index}]")))
    return answer


def _mapping(form: _Form, part: Schema, path: str) -> Asking:
    """Ask for an object whose names are free: a name and its value, until an empty name."""
    inner = part.get("additionalProperties")
    inner = inner if isinstance(inner, Mapping) else {}
    answer: dict[str, Json] = {}
    while True:
        at = path or "answer"
        name = (
            yield Question(at, "name of the next entry", str(part.get("description", "")), default="no more")
        ).strip()
        if not name:
            return answer
        answer[name] = yield from _value(form, inner, f"{path}.{name}" if path else name)
