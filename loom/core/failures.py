"""What a flow catches: recorded outcomes that are failures, the same live and replayed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from loom.core.errors import LoomError
from loom.core.json import JsonObject

FAILURE_BYTES_MAX: Final = 16 * 1024
"""The most that the payload of a typed failure may take on the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """A failure as it stands on the log: names and text, never a live exception.

    *type* is the qualified name of the error's type (builtins without a module), *traceback* the recorded text,
    bounded; *cause* what it was raised from. *channel* and *payload* are set for a declared failure.
    """

    type: str
    message: str
    traceback: str = ""
    cause: FailureRecord | None = None
    channel: str | None = None
    payload: Any = None

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


def failure_from(record: Mapping[str, Any]) -> FailureRecord:
    """Return the record as the value that errors and outcomes carry."""
    cause = record.get("cause")
    return FailureRecord(
        type=record.get("type", "Exception"),
        message=record.get("message", ""),
        traceback=record.get("traceback", ""),
        cause=failure_from(cause) if cause else None,
        channel=record.get("channel"),
        payload=record.get("payload"),
    )


def failure_json(record: FailureRecord) -> JsonObject:
    """Return *record* as it stands on the log: what `failure_from` was given."""
    whole = {
        "type": record.type,
        "message": record.message,
        "traceback": record.traceback,
        "cause": failure_json(record.cause) if record.cause else None,
        "channel": record.channel,
        "payload": record.payload,
    }
    return {name: value for name, value in whole.items() if value not in (None, "") or name in ("type", "message")}


CancelCause: TypeAlias = Literal["request", "parent", "deadline", "force"]


class Cancelled(BaseException):
    """The run is to end: somebody asked (*cause* `request`), its parent ended (`parent`), or its time is over (`deadline`).

    Raised in a flow at the syscall where it stands. Like `asyncio.CancelledError` it is no `Exception`: clean up in a
    `finally`, and let it go on. *reason* is what was said of it, None when nothing was.
    """

    def __init__(self, *, cause: CancelCause, reason: str | None = None) -> None:
        self.cause, self.reason = cause, reason
        super().__init__(reason or cause)


def cancelled_in_hand() -> bool:
    """Whether the caller runs where Cancelled is being handled: in an `except`, a `finally`, or an `__aexit__` (docs/adr/0017).

    A generator that is being closed does not see what it is closed for, so GeneratorExit counts as well.
    """
    return _holds_cancelled(sys.exc_info()[1], set())


def _holds_cancelled(error: BaseException | None, seen: set[int]) -> bool:
    if error is None or id(error) in seen:
        return False
    if isinstance(error, (Cancelled, GeneratorExit)):
        return True
    seen.add(id(error))
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return any(_holds_cancelled(each, seen) for each in (error.__context__, error.__cause__, *inner))


class Failure(LoomError):
    """The root of failures that a flow may catch and that replay raises again just so."""

    code = "failure"


class TypedFailure(Failure):
    """A step failed through a declared channel. *payload* is of the type that the channel declares."""

    code = "typed-failure"

    def __init__(self, channel: str, payload: Any = None, *, step: str = "") -> None:
        self.channel, self.payload, self.step = channel, payload, step
        super().__init__(f"{step or 'a step'} failed as {channel!r}: {payload!r}"[:500])


def fail(channel: str, payload: Any = None) -> TypedFailure:
    """Return the failure to raise in a step: `raise loom.fail("declined", Declined(code="insufficient"))`.

    The channel must be declared by the step (`failures={"declined": Declined}`), and *payload* must be of the
    declared type and take at most 16 KiB on the log.
    """
    return TypedFailure(channel, payload)


class StepFailed(Failure):
    """A step failed for good, with an error it did not declare.

    *error_type* and *message* are those of the original error, *traceback* its recorded text, *attempts* how often
    the step was tried, *cause* the record of what it was raised from.
    """

    code = "step-failed"

    def __init__(self, *, step: str, record: FailureRecord, attempts: int) -> None:
        self.step, self.record, self.attempts = step, record, attempts
        times = "" if attempts == 1 else f" after {attempts} attempts"
        super().__init__(f"{step} failed{times}: {record}")

    @property
    def error_type(self) -> str:
        return self.record.type

    @property
    def message(self) -> str:
        return self.record.message

    @property
    def traceback(self) -> str:
        return self.record.traceback

    @property
    def cause(self) -> FailureRecord | None:
        return self.record.cause


class GateTimedOut(Failure):
    """Nobody answered in time. A timeout is an outcome of its own, never an approval (row NOT-10)."""

    code = "gate-timed-out"

    def __init__(self, *, gate: str) -> None:
        self.gate = gate
        super().__init__(f"nobody answered {gate!r} in time")


class ReceiveTimedOut(Failure):
    """No message of *topic* came in time."""

    code = "receive-timed-out"

    def __init__(self, *, topic: str, receive: str) -> None:
        self.topic, self.receive = topic, receive
        super().__init__(f"no message of {topic!r} came in time")


class ScopeTimedOut(Failure):
    """The time of `ctx.scope(timeout=...)` was over, and what still ran in it was cut."""

    code = "scope-timed-out"

    def __init__(self, *, scope: str) -> None:
        self.scope = scope
        super().__init__(f"the time of scope {scope!r} is over")


class BranchWasCut(Failure):
    """The task has no result: its scope ended first, and it was cut where it stood."""

    code = "branch-cut"

    def __init__(self, *, branch: str) -> None:
        self.branch = branch
        super().__init__(f"{branch!r} was cut before it ended")


class DecisionFailed(Failure):
    """The chooser of a decision raised; *record* is what it raised."""

    code = "decision-failed"

    def __init__(self, *, decision: str, record: FailureRecord) -> None:
        self.decision, self.record = decision, record
        super().__init__(f"the chooser of {decision!r} failed: {record}")


class ChildFailed(TypedFailure):
    """A child run ended without a result: it failed, or was cancelled (*status*). Its channel is `child_failed`.

    *child* is its id and *flow* the id of its flow, *record* what it failed with. Where that was a failure of a child of its own,
    `record.cause` is what that one failed with, and so on down to where it began.
    """

    code = "child-failed"
    hint = "`loom show` says where the child failed."

    def __init__(self, *, child: str, flow: str, status: str, record: FailureRecord) -> None:
        self.child, self.flow, self.status, self.record = child, flow, status, record
        super().__init__("child_failed", {"child": child, "flow": flow, "status": status})
        began = record
        while began.type == "loom.ChildFailed" and began.cause is not None:
            began = began.cause
        self.args = (f"{child} {'was cancelled' if status == 'cancelled' else 'failed'}: {began}",)


class NestingTooDeep(Failure):
    """A run that was started by a run that was started by a run ... wants to start another: that deep they may not go."""

    code = "nesting-too-deep"
    hint = "A flow that starts itself has to end somewhere; define_config(nesting_max=...) moves the bound."

    def __init__(self, *, execution_id: str, flow: str, depth: int) -> None:
        self.execution_id, self.flow, self.depth = execution_id, flow, depth
        super().__init__(f"{execution_id} stands {depth} levels below its first ancestor and may not start {flow}")


class CompensationFailed(Failure):
    """Undos of a saga failed; all others have run. Its cause is what the saga failed with.

    *steps* are the undos that failed, in the order in which they were called, *records* what they failed with.
    """

    code = "compensation-failed"
    hint = "What they were to undo is left to a person; the log has their arguments."

    def __init__(self, *, steps: Sequence[str], records: Sequence[FailureRecord]) -> None:
        self.steps, self.records = tuple(steps), tuple(records)
        told = "; ".join(f"{step}: {record}" for step, record in zip(self.steps, self.records, strict=True))
        super().__init__(f"what was done could not be undone: {told}")


FailureTypes = Mapping[str, Any]
"""Declared failures of a step: channel name to the type of its payload, or to an exception type of the author's."""
