"""Between an exception and its record: names and text go to the log, and a record is raised again the same way.

Reading never calls an unknown constructor: only types that the step declares are ever rebuilt (field fault 23).
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from loom import values
from loom.core.failures import (
    FAILURE_BYTES_MAX,
    ChildFailed,
    StepFailed,
    TypedFailure,
    failure_from,
    failure_json,
)
from loom.core.json import JsonObject
from loom.core.step import Step

MESSAGE_MAX: Final = 4_000
TRACEBACK_MAX: Final = 8_000
TOLD_MAX: Final = 300
CAUSES_MAX: Final = 5
MEMBERS_MAX: Final = 20
_NOT_THE_AUTHORS: Final = (str(Path(__file__).resolve().parent.parent), str(Path(asyncio.__file__).parent))


def type_name(kind: type[BaseException]) -> str:
    """Return the qualified name of an error's type: builtins without their module, Loom's own as `loom.Name`."""
    if kind.__module__.partition(".")[0] == "loom":
        return f"loom.{kind.__qualname__}"
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def told(error: BaseException) -> str:
    """Return *error* in one bounded line: its type and what it says."""
    return values.safe_text(f"{type_name(type(error))}: {_message(error)}".replace("\n", " "), TOLD_MAX)


def record_of(error: BaseException, depth: int = CAUSES_MAX) -> JsonObject:
    """Return what the log keeps of *error*: type, message, traceback text and causes, each bounded."""
    cause = _cause_of(error)
    record: JsonObject = {"type": type_name(type(error)), "message": values.safe_text(_message(error), MESSAGE_MAX)}
    text = "".join(traceback.format_list(_authors_frames(error)))
    if text:
        record["traceback"] = values.safe_text(text[-TRACEBACK_MAX:], TRACEBACK_MAX)
    if isinstance(error, ChildFailed):  # what happened in another run is its cause
        return record | {"cause": failure_json(error.record), "channel": error.channel, "payload": error.payload}
    if cause is not None and depth > 0:
        record["cause"] = record_of(cause, depth - 1)
    return record


def _authors_frames(error: BaseException) -> list[traceback.FrameSummary]:
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if not frame.filename.startswith(_NOT_THE_AUTHORS)]


def where_of(error: BaseException) -> str:
    """Return `file:line` of the innermost frame of the author's that *error* passed, "" when there is none."""
    frames = _authors_frames(error)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _cause_of(error: BaseException) -> BaseException | None:
    try:
        return error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    except Exception:  # noqa: BLE001  # an author's property is arbitrary code
        return None


def _message(error: BaseException) -> str:
    try:
        text = str(error)
        if isinstance(error, BaseExceptionGroup):
            text += ": " + "; ".join(f"{type_name(type(e))}: {_message(e)}" for e in error.exceptions[:MEMBERS_MAX])
        return "\n".join([text, *map(str, getattr(error, "__notes__", ()))])
    except Exception as failed:  # noqa: BLE001  # the author's __str__ is arbitrary code
        return f"(its message could not be made: {type(failed).__name__})"


def step_failure_record(step: Step[Any, Any], error: BaseException) -> JsonObject:
    """Return the record of what a step raised; a declared channel is validated and bounded (spec 4.3.1)."""
    record = record_of(error)
    channel, payload, declared = _channel_of(step, error)
    if channel is None:
        return record
    try:
        encoded = _encoded_payload(error, payload, declared)
        values.decode(encoded, _payload_type(declared))
    except (values.NotSerializable, values.RecordUnreadable, values.InvalidPayload) as refused:
        return record_of(refused) | {"cause": record}
    size = len(values.dumps(encoded))
    if size > FAILURE_BYTES_MAX:
        told = f"the payload of failure {channel!r} takes {size} bytes, more than {FAILURE_BYTES_MAX}"
        return {"type": "loom.FailureTooLarge", "message": told, "cause": record}
    return record | {"channel": channel, "payload": encoded}


def _channel_of(step: Step[Any, Any], error: BaseException) -> tuple[str | None, Any, Any]:
    if isinstance(error, TypedFailure):
        if error.channel not in step.failures:
            return None, None, None
        return error.channel, error.payload, step.failures[error.channel]
    for channel, declared in step.failures.items():
        if _is_exception(declared) and type(error) is declared:
            return channel, error, declared
    return None, None, None


def _is_exception(declared: Any) -> bool:
    return isinstance(declared, type) and issubclass(declared, BaseException)


def _payload_type(declared: Any) -> Any:
    return dict[str, Any] if _is_exception(declared) else declared


def _encoded_payload(error: BaseException, payload: Any, declared: Any) -> Any:
    if not _is_exception(declared):
        return values.encode(values.check(payload, declared), declared)
    return values.encode({"args": tuple(error.args), "fields": dict(getattr(error, "__dict__", {}))})


def failure_to_raise(step: Step[Any, Any], step_id: str, record: Mapping[str, Any], attempts: int) -> BaseException:
    """Return the exception that a recorded failure is raised as, live and replayed alike.

    Raises:
        RecordUnreadable: the declared type cannot revive the payload.
    """
    channel = record.get("channel")
    declared = step.failures.get(channel) if channel is not None else None
    if channel is None or declared is None:
        return StepFailed(step=step_id, record=failure_from(record), attempts=attempts)
    if _is_exception(declared):
        kept = values.decode(record["payload"])
        rebuilt: BaseException = declared.__new__(declared)
        rebuilt.args = kept["args"]
        rebuilt.__dict__.update(kept["fields"])
        return rebuilt
    return TypedFailure(channel, values.decode(record["payload"], declared), step=step_id)
