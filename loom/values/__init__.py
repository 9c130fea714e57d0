"""How a value crosses the log: written as JSON, read back equal, of the same type, and as a copy.

**Theory.** Writing goes by the value at hand, never by what the annotation hopes for. Plain JSON stands as it is; every
other standard type is a one-key object whose key starts with `$` (`tags.py`); an instance of an author's class is
`{"$type": "app.models:Outer.Inner", "value": {...its fields}}`, or its fields alone where the annotation names exactly
its class (`places.py` says where). A dict that could be taken for one of these is escaped. So a reader needs the
annotation only to give back a name that was left off, and no value is ever coerced to fit one. Writers (`encoding.py`)
and readers (`revival.py`) are mirror images; the author's classes are taken apart and put together in `shapes.py`;
what is *not* from the log is validated, in `payloads.py`.

**What is compared.** Divergence compares digests of arguments, with model fields equal to their default left out
(kernel 9.3), so that a new field with a default strands no run. Only an encoder knows where models stand, so leaving
out is a second way to encode (`significant`), for the digest and never stored. The first way notes whether it met a
model: only then is there a second walk (`Codec.encode_both`).

Rules to keep: pure; nothing named in data is imported or called; every refusal names the place inside the value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from loom.core.errors import LoomError
from loom.core.json import Json
from loom.core.missing import MISSING
from loom.values import encoding, revival
from loom.values.canonical import alike, canonical, digest, dumps, loads
from loom.values.payloads import InvalidPayload, Problem, check, expected, parse, plain, schema
from loom.values.places import Place, has_defaults, place_of
from loom.values.shapes import Trouble

__maturity__ = "beta"

__all__ = [
    "MISSING",
    "Codec",
    "InvalidPayload",
    "NotSerializable",
    "Problem",
    "RecordUnreadable",
    "alike",
    "canonical",
    "check",
    "codec_for",
    "decode",
    "digest",
    "dumps",
    "encode",
    "expected",
    "loads",
    "parse",
    "plain",
    "safe_text",
    "schema",
    "significant",
]

_CODECS_MAX: Final = 2048


class NotSerializable(LoomError, TypeError):
    """A value that the log cannot keep."""

    code = "not-serializable"

    def __init__(self, *, path: str, kind: str, reason: str, hint: str = "") -> None:
        self.path, self.kind, self.reason, self.hint = path, kind, reason, hint
        super().__init__(f"{path}: {reason}")


class RecordUnreadable(LoomError):
    """A record that the types of today cannot give back; nothing is guessed."""

    code = "record-unreadable"

    def __init__(self, *, path: str, kind: str, reason: str, hint: str = "") -> None:
        self.path, self.kind, self.reason, self.hint = path, kind, reason, hint
        super().__init__(f"{path}: {reason}")


class Codec:
    """How the values of one annotation cross the log. *at* is what refusals call the value: `result`, `claim`.

    `encode_both` is `encode` and `significant` in one walk as long as no field with a default is met. Where
    `has_defaults` is false a value of the annotation holds none, and `encode` alone gives both.
    """

    __slots__ = ("annotation", "at", "decode", "encode", "encode_both", "has_defaults", "significant")

    def __init__(self, annotation: Any, at: str) -> None:
        place = place_of(annotation)
        self.annotation, self.at = annotation, at
        self.has_defaults = has_defaults(annotation, place)
        self.encode: Callable[[Any], Json] = _encoder(place, at)
        self.decode: Callable[[Json], Any] = _decoder(place, at)
        self.significant: Callable[[Any], Json] = _significant(place, at)
        self.encode_both: Callable[[Any], tuple[Json, Json]] = _encoder_of_both(place, at)


def encode(value: Any, annotation: Any = MISSING) -> Json:
    """Return *value* as plain JSON, a copy that shares nothing with it.

    Raises:
        NotSerializable: some part cannot be written; the error names it.
    """
    return (_UNANNOTATED if annotation is MISSING else codec_for(annotation)).encode(value)


def decode(json: Json, annotation: Any = MISSING) -> Any:
    """Return the value that `encode` wrote as *json* with the same annotation: equal, same type, a copy.

    Raises:
        RecordUnreadable: a type is gone or its fields have changed, or *json* was not written by `encode`.
    """
    return (_UNANNOTATED if annotation is MISSING else codec_for(annotation)).decode(json)


def significant(value: Any, annotation: Any = MISSING) -> Json:
    """Return *value* as for `encode`, but with the fields of models left out that equal their default: for digests.

    Raises:
        NotSerializable: some part cannot be written; the error names it.
    """
    return codec_for(annotation).significant(value)


def codec_for(annotation: Any = MISSING, at: str = "value") -> Codec:
    """Return the codec of *annotation*, kept for the next call; *at* is the name that refusals give the value."""
    try:
        return _kept_codec(annotation, at)
    except TypeError:  # an annotation that cannot be hashed, such as Annotated[int, []]
        return Codec(annotation, at)


@functools.lru_cache(maxsize=_CODECS_MAX, typed=True)
def _kept_codec(annotation: Any, at: str) -> Codec:
    return Codec(annotation, at)


def safe_text(text: str, limit: int) -> str:
    """Return *text* as every store takes it: no NUL, no half of a surrogate pair, *limit* characters at most."""
    safe = text[: limit + 1].replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
    return safe if len(safe) <= limit else safe[: limit - 1] + "\u2026"


def _encoder(place: Place, at: str) -> Callable[[Any], Json]:
    walk, writers, write = encoding.Walk(), encoding.WRITERS, encoding.write

    def encode(value: Any) -> Json:
        try:
            return (writers.get(type(value)) or write)(value, place, 0, walk)
        except Trouble as trouble:
            raise _not_serializable(trouble, at) from None

    return encode


def _decoder(place: Place, at: str) -> Callable[[Json], Any]:
    read = revival.read

    def decode(json: Json) -> Any:
        try:
            return read(json, place)
        except Trouble as trouble:
            raise _record_unreadable(trouble, at) from trouble.__cause__

    return decode


def _significant(place: Place, at: str) -> Callable[[Any], Json]:
    walk = encoding.Walk(elides=True)

    def significant(value: Any) -> Json:
        try:
            return encoding.write(value, place, 0, walk)
        except Trouble as trouble:
            raise _not_serializable(trouble, at) from None

    return significant


def _encoder_of_both(place: Place, at: str) -> Callable[[Any], tuple[Json, Json]]:
    significant = _significant(place, at)

    def encode_both(value: Any) -> tuple[Json, Json]:
        """Return *value* as for `encode` and as for `significant`; one object twice when no model is in it."""
        walk = encoding.Walk()
        try:
            encoded = encoding.write(value, place, 0, walk)
        except Trouble as trouble:
            raise _not_serializable(trouble, at) from None
        return encoded, significant(value) if walk.met_defaults else encoded

    return encode_both


def _not_serializable(trouble: Trouble, at: str) -> NotSerializable:
    return NotSerializable(path=trouble.path(at), kind=trouble.kind, reason=trouble.reason, hint=trouble.hint)


def _record_unreadable(trouble: Trouble, at: str) -> RecordUnreadable:
    return RecordUnreadable(path=trouble.path(at), kind=trouble.kind, reason=trouble.reason, hint=trouble.hint)


_UNANNOTATED: Final = Codec(MISSING, "value")
