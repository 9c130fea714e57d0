"""How a run failed, in lines: where, asked with what, by which error, and from what that came. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from loom.core.failures import failure_from
from loom_cli.wording import counted, failure_text, one_line, value_text

Failure = Mapping[str, Any]
Line = tuple[int, str, str]
"""Indentation, text and style."""

_CAUSES_MAX = 10
_NOT_SERIALIZABLE = "loom.NotSerializable"
_INSTEAD = "instead: plain data, a dataclass or a model, or the id by which a step finds it again"


class Cause(NamedTuple):
    """The call that a failure came from: its id, what it was asked with, how it failed, and after how many attempts."""

    id: str
    args: Any
    failure: Failure
    attempts: int


def failure_lines(failure: Failure, cause: Cause | None) -> Iterator[Line]:
    """Yield the lines of *failure*, that of a run, which came from *cause* if it came from a call."""
    if cause is None:
        yield 2, "in the flow:", ""
        yield from record_lines(failure)
        return
    after = f" after {counted(cause.attempts, 'attempt', 'attempts')}" if cause.attempts > 1 else ""
    yield 2, f"in {cause.id}{after}:", ""
    if cause.args is not None:
        yield 4, f"with {one_line(value_text(cause.args))}", ""
    yield from record_lines(cause.failure)
    yield 2, "asked by the flow:", ""
    yield from _traceback(failure)


def record_lines(failure: Failure) -> Iterator[Line]:
    """Yield one record: its traceback, its message, and the errors that it came from, each once."""
    yield from _traceback(failure)
    for line in failure_text(failure).split("\n"):
        yield 4, line, "red"
    if failure.get("type") == _NOT_SERIALIZABLE:
        yield 4, _INSTEAD, ""
    record, told = failure_from(failure), {failure_text(failure)}
    while record.cause is not None and str(record.cause) not in told and len(told) <= _CAUSES_MAX:
        record = record.cause
        told.add(str(record))
        yield 4, f"from {record.type}: {record.message}", "dim"


def _traceback(failure: Failure) -> Iterator[Line]:
    for line in str(failure.get("traceback", "")).rstrip("\n").split("\n"):
        if line.strip():
            yield 4, line.removeprefix("  "), "dim"


def is_to_be_mended(failure: Failure, cause: Cause | None) -> bool:
    """Whether the same code will fail so again: a value cannot be written to the log."""
    return _NOT_SERIALIZABLE in {failure.get("type"), cause.failure.get("type") if cause is not None else None}
