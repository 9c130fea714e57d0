"""JSON that a person or another program wrote, on its way in: validated by pydantic, every failing field told.

This is the boundary, and the only place where a value is coerced; what is in the log already is read by `revival`.
Pydantic is imported when the first annotation is looked at, as most commands never need it.
"""

from __future__ import annotations

import dataclasses
import functools
import json as stdlib_json
import sys
import typing
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import orjson

from loom.core.errors import InvalidDeclaration, LoomError
from loom.core.json import Json, JsonObject
from loom.values.encoding import DEPTH_MAX
from loom.values.places import ANY, is_open, is_typed_dict
from loom.values.revival import READERS, read
from loom.values.shapes import Trouble, shape_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

_SHOWN_MAX: Final = 60
_PROBLEMS_MAX: Final = 100
_CACHE_MAX: Final = 1024
_SECRET_WORDS: Final = ("password", "passwd", "secret", "token", "api_key", "apikey", "authorization", "credential")
_HIDDEN: Final = "(hidden)"


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One field that is not as the annotation wants it; *shown* is the value, shortened, and empty when it is missing."""

    path: str
    message: str
    shown: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" + (f", not {self.shown}" if self.shown else "")


class InvalidPayload(LoomError, ValueError):
    """A value from outside does not fit the type it is for."""

    code = "invalid-payload"
    hint = "Correct the fields named; nothing was recorded."

    def __init__(self, *, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        lines = [str(problem) for problem in problems[:_PROBLEMS_MAX]]
        if len(problems) > _PROBLEMS_MAX:
            lines.append(f"and {len(problems) - _PROBLEMS_MAX} more")
        super().__init__(lines[0] if len(lines) == 1 else "\n  ".join([f"{len(problems)} fields do not fit", *lines]))


def parse(json: Json, annotation: Any) -> Any:
    """Return *json*, written by a person or another program, as a value of *annotation*; without one, as it is.

    Without an annotation, the standard library's tagged forms (`{"$decimal": "1.50"}`) are revived. Types are not:
    nobody outside names a class to be made.

    Raises:
        InvalidPayload: it does not fit; every field that fails is told.
        InvalidDeclaration: pydantic cannot validate the annotation.
    """
    if is_open(annotation):
        return _without_tags(json)
    adapter = _adapter(annotation)
    return _validated(annotation, lambda: adapter.validate_json(_json_bytes(json)))


def plain(value: Any) -> Json:
    """Return a live *value* as the JSON that `parse` would be given for it: models as objects, no type names.

    Raises:
        InvalidPayload: it has no JSON form.
    """
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return typing.cast(Json, to_jsonable_python(value))
    except (PydanticSerializationError, UnicodeError, ValueError) as error:
        raise InvalidPayload(problems=(Problem("value", f"has no JSON form: {error}", ""),)) from error


def check(value: Any, annotation: Any) -> Any:
    """Return a live *value* as one of *annotation*: an instance of exactly that class as it is, others validated.

    Raises:
        InvalidPayload: it does not fit; every field that fails is told.
        InvalidDeclaration: pydantic cannot validate the annotation.
    """
    if type(value) is annotation or is_open(annotation):
        return value
    adapter = _adapter(annotation)
    return _validated(annotation, lambda: adapter.validate_python(value))


def schema(annotation: Any) -> JsonObject:
    """Return the JSON Schema of what `parse` accepts for *annotation*, as a copy of the caller's own.

    Raises:
        InvalidDeclaration: pydantic cannot describe the annotation.
    """
    return typing.cast(JsonObject, orjson.loads(_schema_bytes(annotation)))


def expected(annotation: Any, at: str) -> bytes:
    """Return the JSON Schema of *annotation* as the bytes that are kept for the next call; *at* is what refusals call it.

    Raises:
        InvalidDeclaration: pydantic cannot describe it.
    """
    try:
        return _schema_bytes(annotation)
    except InvalidDeclaration as error:
        raise InvalidDeclaration(f"{at}: {error}", hint=error.hint) from error


def _schema_bytes(annotation: Any) -> bytes:
    return b"{}" if is_open(annotation) else _cached(_new_schema, annotation)


def _new_schema(annotation: Any) -> bytes:
    adapter = _adapter(annotation)
    try:
        return orjson.dumps(adapter.json_schema())
    except Exception as error:  # an author's own type says by any error that it has no schema
        raise _undescribable(annotation, error) from error


def _json_bytes(json: Json) -> bytes:
    try:
        return orjson.dumps(json)
    except TypeError:  # an integer beyond 64 bits or half a surrogate pair: pydantic reads the one, reports the other
        return stdlib_json.dumps(json).encode("ascii")


def _without_tags(json: Any) -> Any:
    """Return *json* with the standard library's tagged forms revived; what only looks like one stays as it is."""
    text = _json_bytes(json)
    if b'"$' not in text or any(tag in text for tag in _NAMING_TAGS):
        return json
    return _revived(json, 0)


_NAMING_TAGS: Final = (b'"$type"', b'"$enum"', b'"$url"')


def _revived(json: Any, depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise InvalidPayload(problems=(Problem("value", f"is nested deeper than {DEPTH_MAX} levels", ""),))
    if type(json) is list:
        return [_revived(item, depth + 1) for item in json]
    if type(json) is not dict:
        return json
    if len(json) == 1 and next(iter(json)) in READERS:
        try:
            return read(json, ANY)
        except Trouble:
            pass
    return {key: _revived(item, depth + 1) for key, item in json.items()}


# Adapters


def _cached(make: Callable[[Any], Any], annotation: Any) -> Any:
    try:
        return _kept(make, annotation)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return make(annotation)


@functools.lru_cache(maxsize=_CACHE_MAX, typed=True)
def _kept(make: Callable[[Any], Any], annotation: Any) -> Any:
    return make(annotation)


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return typing.cast("TypeAdapter[Any]", _cached(_new_adapter, annotation))


def _new_adapter(annotation: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    try:
        adapter = TypeAdapter(_accepted_by_pydantic(annotation))
        if not adapter.pydantic_complete:  # a forward reference: resolved now, or told now
            adapter.rebuild()
        return adapter
    except Exception as error:  # text that is no annotation, or what an author's own type raises, as well as pydantic's
        raise _undescribable(annotation, error) from error


def _undescribable(annotation: Any, error: Exception) -> InvalidDeclaration:
    hint = "Annotate with a pydantic model, a dataclass, a TypedDict or types of the standard library."
    if getattr(error, "code", None) == "typed-dict-version":
        hint = "Below Python 3.12 take TypedDict from typing_extensions instead of typing."
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    return InvalidDeclaration(f"a payload cannot be validated as {_annotation_name(annotation)}: {reason}", hint=hint)


def _annotation_name(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else f"{annotation!s:.200}"


def _accepted_by_pydantic(annotation: Any) -> Any:
    """Return *annotation* with each `typing.TypedDict` replaced by its twin, which pydantic asks for below 3.12."""
    if sys.version_info >= (3, 12):
        return annotation
    if is_typed_dict(annotation) and type(annotation).__module__ == "typing":
        return _twin(annotation)
    arguments = typing.get_args(annotation)
    twins = tuple(_accepted_by_pydantic(argument) for argument in arguments)
    if all(twin is argument for twin, argument in zip(twins, arguments, strict=True)):
        return annotation
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return typing.Annotated[(twins[0], *annotation.__metadata__)]
    if hasattr(annotation, "copy_with"):
        return annotation.copy_with(twins)
    return typing.Union[twins] if origin not in (list, dict, tuple, set, frozenset) else origin[twins]  # noqa: UP007


def _twin(kind: Any) -> Any:
    hints = typing.get_type_hints(kind, include_extras=True)
    entries = {}
    for name, hint in hints.items():
        needed = typing.Required if name in kind.__required_keys__ else typing.NotRequired
        origin = typing.get_origin(hint)
        if origin in (typing.Required, typing.NotRequired):  # told by the hint alone where annotations are text
            entries[name] = origin[_accepted_by_pydantic(typing.get_args(hint)[0])]
        else:
            entries[name] = needed[_accepted_by_pydantic(hint)]
    import typing_extensions  # here, as its import costs a start

    make: Any = typing_extensions.TypedDict
    twin = make(kind.__name__, entries)
    twin.__doc__, twin.__module__ = kind.__doc__, kind.__module__
    return twin


# What is wrong, in words


def _validated(annotation: Any, validate: Callable[[], Any]) -> Any:
    from pydantic import ValidationError

    try:
        return validate()
    except ValidationError as error:
        raise InvalidPayload(problems=tuple(_problems(error, annotation))) from None  # the cause shows the secrets


def _problems(error: ValidationError, annotation: Any) -> Iterator[Problem]:
    secret_names = _secret_names(annotation)
    for detail in error.errors(include_url=False, include_context=False):
        path = _path(detail["loc"])
        hidden = _is_secret(detail["loc"], secret_names)
        message = detail["msg"]
        if hidden and detail["type"] in ("value_error", "assertion_error"):
            message = "is not valid"  # the author's own words may quote the value
        shown = "" if detail["type"] == "missing" else _HIDDEN if hidden else _shown(detail["input"])
        yield Problem(path or "value", message[:1].lower() + message[1:], shown)


def _path(location: tuple[int | str, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".")


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list, tuple, set)) or shape_of(type(value)) is not None:
        return f"a {type(value).__name__}"  # its parts may hold secrets
    text = repr(value[: _SHOWN_MAX + 1]) if isinstance(value, (str, bytes)) else repr(value)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "..."


def _is_secret(location: tuple[int | str, ...], secret_names: frozenset[str]) -> bool:
    words = [part for part in location if isinstance(part, str)]
    if "" in secret_names or secret_names.intersection(words):
        return True
    return any(secret in word.lower() for word in words for secret in _SECRET_WORDS)


def _secret_names(annotation: Any) -> frozenset[str]:
    """Return the names of fields of a secret type anywhere in *annotation*; "" when one has no name."""
    try:
        return frozenset(_secret_properties(schema(annotation), ""))
    except InvalidDeclaration:
        return frozenset()


def _secret_properties(part: Any, name: str) -> Iterator[str]:
    if isinstance(part, list):
        for item in part:
            yield from _secret_properties(item, name)
    elif isinstance(part, dict):
        if part.get("format") == "password":
            yield name
        for key, inner in part.items():
            if key in ("properties", "$defs"):
                for inner_name, described in inner.items():
                    yield from _secret_properties(described, inner_name)
            else:
                yield from _secret_properties(inner, name)
