"""Values made up from a JSON Schema: small, plain, and the same for the same schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from loom import values
from loom.core.errors import LoomError
from loom.core.missing import MISSING
from loom.devtools.dst.world import NoValue

DEPTH_MAX: Final = 12

_TEXTS: Final[Mapping[str, str]] = {
    "date-time": "2026-01-02T03:04:05Z",
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "duration": "PT1S",
    "uuid": "00000000-0000-4000-8000-000000000001",
    "email": "ada@example.org",
    "uri": "https://example.org/",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "binary": "YQ==",
    "base64url": "YQ==",
    "path": "a",
}


def made_up(annotation: Any, *, what: str, hint: str) -> Any:
    """Return a value of the type *annotation*; None where there is none.

    Raises:
        NoValue: it has no simple value, or none that the type takes; *what* it is for is told, and *hint*.
    """
    if annotation in (MISSING, Any, None, type(None)):
        return None
    try:
        return values.parse(from_schema(values.schema(annotation)), annotation)
    except (LoomError, LookupError, TypeError, ValueError) as error:
        raise NoValue(what, str(error), hint) from error


def from_schema(schema: Mapping[str, Any]) -> Any:
    """Return JSON that fits *schema*, as far as simple values do.

    Raises:
        LookupError: there is no simple value.
    """
    return _made(schema, schema, 0)


def _made(part: Any, whole: Mapping[str, Any], depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise LookupError("it holds itself without end")
    if not isinstance(part, Mapping) or not part:
        return None
    if "$ref" in part:
        return _made(_at(whole, part["$ref"]), whole, depth + 1)
    given = [part[name] for name in ("const", "default") if name in part]
    given += [part[name][0] for name in ("enum", "examples") if part.get(name)]
    if given:
        return given[0]
    return _of_its_kind(part, whole, depth)


def _of_its_kind(part: Mapping[str, Any], whole: Mapping[str, Any], depth: int) -> Any:
    if "anyOf" in part or "oneOf" in part:
        return _one_of(part.get("anyOf") or part["oneOf"], whole, depth)
    if "allOf" in part:
        return _made({**part["allOf"][0], **{k: v for k, v in part.items() if k != "allOf"}}, whole, depth + 1)
    kind = part.get("type")
    kind = str(kind[0] if isinstance(kind, list) else kind)
    return _KINDS[kind](part, whole, depth) if kind in _KINDS else None


def _at(whole: Mapping[str, Any], reference: str) -> Any:
    found: Any = whole
    for name in reference.removeprefix("#/").split("/"):
        found = found[name.replace("~1", "/").replace("~0", "~")]
    return found


def _one_of(options: list[Any], whole: Mapping[str, Any], depth: int) -> Any:
    last: LookupError | None = None
    for option in sorted(options, key=lambda option: option == {"type": "null"}):
        try:
            return _made(option, whole, depth + 1)
        except LookupError as error:
            last = error
    raise last or LookupError("it has no options")


def _object(part: Mapping[str, Any], whole: Mapping[str, Any], depth: int) -> dict[str, Any]:
    properties = part.get("properties", {})
    return {name: _made(properties.get(name, {}), whole, depth + 1) for name in part.get("required", ())}


def _array(part: Mapping[str, Any], whole: Mapping[str, Any], depth: int) -> list[Any]:
    if "prefixItems" in part:
        return [_made(item, whole, depth + 1) for item in part["prefixItems"]]
    return [_made(part.get("items", {}), whole, depth + 1) for _ in range(part.get("minItems", 0))]


def _string(part: Mapping[str, Any], whole: Mapping[str, Any], depth: int) -> str:
    if "pattern" in part and "format" not in part:
        raise LookupError(f"a text with the pattern {part['pattern']}")
    text = _TEXTS.get(str(part.get("format")), "a")
    return text + "a" * max(0, int(part.get("minLength", 0)) - len(text))


def _number(part: Mapping[str, Any], whole: Mapping[str, Any], depth: int) -> Any:
    least = part.get("minimum", part.get("exclusiveMinimum", 0) + ("exclusiveMinimum" in part))
    most = part.get("maximum", part.get("exclusiveMaximum", least + 1) - ("exclusiveMaximum" in part))
    number = max(least, min(1, most))
    step = part.get("multipleOf")
    return number if not step else step * -(-number // step)


_KINDS: Final[Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any], int], Any]]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _number,
    "number": _number,
    "boolean": lambda part, whole, depth: True,
    "null": lambda part, whole, depth: None,
}
