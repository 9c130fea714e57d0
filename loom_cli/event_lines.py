"""One event in one line: what it is about, and what it says. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from loom.core.envelope import EDITED, SERVED, SIMULATED, EventEnvelope
from loom.kernel.fold import EVENTS, USER_PREFIX
from loom.lenses.folding import is_newer
from loom_cli.errors import Usage
from loom_cli.wording import CAUSE_WORDS, end_words, joined

Event = EventEnvelope[Any]
NameOf = Callable[[int], str]
"""The identity of the syscall that an event opened, by its sequence."""

_VALUES: Final = {
    "EXECUTION_STARTED": "input",
    "EXECUTION_COMPLETED": "result",
    "EXECUTION_DIVERGED": "difference",
    "EXECUTION_MIGRATED": "differences",
    "STEP_STARTED": "args",
    "STEP_COMPLETED": "result",
    "GATE_OPENED": "show",
    "GATE_ANSWERED": "answer",
    "MESSAGE_RECEIVED": "message",
    "OUTCOME_ATTACHED": "value",
    "DECISION_RECORDED": "choice",
    "SCOPE_OPENED": "branches",
}
"""Which field of a payload a reader wants to see."""

_STYLES: Final = (
    ("EXECUTION_COMPLETED", "green"),
    ("EXECUTION_CANCEL*", "red"),
    ("*_FAILED", "red"),
    ("*_DIVERGED", "red"),
    ("*_TIMED_OUT", "yellow"),
    ("*_INDOUBT", "magenta"),
    ("GATE_*", "yellow"),
    ("MESSAGE_*", "yellow"),
    ("TOPIC_*", "yellow"),
    ("EXECUTION_DENIED", "red"),
    ("EXECUTION_SUSPENDED", "yellow"),
    ("EXECUTION_*", "blue"),
    ("user.*", "cyan"),
)


_IDS_MAX: Final = 5


class EventLine(NamedTuple):
    """*about* names the flow, or the syscall; *says* is text, *value* a JSON value to show when there is one."""

    about: str
    says: str = ""
    value: Any = None
    is_failure: bool = False


def event_line(event: Event, name_of: NameOf) -> EventLine:
    """Return what a list shows of *event* beside its number, time and type."""
    if is_newer(event):
        return EventLine("", "of a newer Loom", event.payload)
    payload, by = event.payload, event.metadata.get("principal")
    about = _about(payload, name_of)
    failure = getattr(payload, "failure", None)
    edited = [f"edited, was event {event.metadata[EDITED]}"] if EDITED in event.metadata else []
    edited += [f"served, was event {event.metadata[SERVED]}"] if SERVED in event.metadata else []
    simulated = ["simulated"] if SIMULATED in event.metadata else []
    told = [*_words(event), *edited, *simulated, *([f"by {by}"] if by else [])]
    if failure is not None:
        return EventLine(about, ", ".join([*told, failure_text(failure)]), is_failure=True)
    field = "data" if event.type.startswith(USER_PREFIX) else _VALUES.get(event.type, "")
    value = getattr(payload, field, None)
    return EventLine(about, ", ".join(told), None if value == [] and event.type == "EXECUTION_MIGRATED" else value)


def style_of(type_: str) -> str:
    """Return the style of a type of event."""
    return next((style for glob, style in _STYLES if fnmatchcase(type_, glob)), "")


def matches(type_: str, globs: list[str]) -> bool:
    """Tell whether a type of event is one of *globs* (`STEP_COMPLETED`, `*FAILED`); an empty list takes all."""
    return not globs or any(fnmatchcase(type_, glob) for glob in globs)


def unknown_types(globs: list[str]) -> list[str]:
    """Return those of *globs* that fit no type there is; the author's own types are not known here."""
    return [g for g in globs if not g.startswith(USER_PREFIX) and not any(fnmatchcase(name, g) for name in EVENTS)]


def globs_of(types: Sequence[str]) -> list[str]:
    """Return the types that were asked for, as they are compared.

    Raises:
        Usage: one fits none that there is.
    """
    globs = [type_ if "." in type_ else type_.upper() for type_ in types]
    if unknown := unknown_types(globs):
        name = unknown[0]
        begun = [f"'{name}_*'"] if any(each.startswith(f"{name}_") for each in EVENTS) else []
        near = begun or difflib.get_close_matches(name, EVENTS) or ["STEP_COMPLETED"]
        raise Usage(f"no event is of type {name!r}", hint=f"--type {near[0]}")
    return globs


def failure_text(failure: Mapping[str, Any]) -> str:
    """Return the record of a failure as `Type: message`."""
    kind, message = failure.get("type", "Exception"), failure.get("message", "")
    return f"{kind}: {message}" if message else str(kind)


def _about(payload: Any, name_of: NameOf) -> str:
    if hasattr(payload, "id"):
        return str(payload.id)
    if hasattr(payload, "start"):
        return name_of(payload.start)
    return str(getattr(payload, "flow", ""))


def _words(event: Event) -> list[str]:
    say = _WORDS.get(event.type)
    if say is not None:
        return [word for word in [say(event.payload)] if word]
    reason = getattr(event.payload, "reason", None)
    return [reason] if reason else []


def _stopped(payload: Any) -> str:
    return joined(CAUSE_WORDS.get(payload.cause, "").strip(), payload.reason or "")


def _differing(differences: Sequence[Mapping[str, Any]]) -> str:
    ids = [str(difference.get("id")) for difference in differences]
    more = ", ..." if len(ids) > _IDS_MAX else ""
    return f", which asks otherwise: {', '.join(ids[:_IDS_MAX])}{more}" if ids else ""


def _forked(payload: Any) -> str:
    source = f"from {payload.source['execution_id']} after event {payload.source['sequence']}"
    for_real = f", to do {payload.promotes} for real" if payload.promotes else ""
    given = ", with other arguments" if payload.given is not None else ""
    served = ", to be served from there" if payload.reuse is not None else ""
    return joined(source + given + served + for_real, payload.reason or "")


def _migrated(payload: Any) -> str:
    where = "other code" if payload.before != payload.after else "the same code"
    told = f"to {where}" if payload.flow is None else f"moved to {where}, {payload.flow} version {payload.version}"
    without = f", without {', '.join(payload.unpatched)}" if payload.unpatched else ""
    return joined(told + _differing(payload.differences) + without, payload.reason or "")


_WORDS: Final[Mapping[str, Callable[[Any], str]]] = {
    "EXECUTION_CANCEL_REQUESTED": _stopped,
    "EXECUTION_CANCELLED": _stopped,
    "EXECUTION_SUSPENDED": lambda payload: f"waits for {payload.why}" if payload.why else "",
    "EXECUTION_RESUMED": lambda payload: "after it was cut off" if payload.cut_off else "",
    "EXECUTION_CONTINUED": lambda payload: f"goes on as {payload.next}",
    "EXECUTION_FORKED": _forked,
    "EXECUTION_RETRIED": lambda payload: f"generation {payload.generation}",
    "EXECUTION_MIGRATED": _migrated,
    "PATCH_APPLIED": lambda payload: payload.name,
    "STEP_ATTEMPTED": lambda payload: f"attempt {payload.attempt}",
    "STEP_ATTEMPT_FAILED": lambda payload: f"attempt {payload.attempt}",
    "STEP_FAILED": lambda payload: f"after {payload.attempts} attempts" if payload.attempts > 1 else "",
    "EFFECT_RESOLVED": lambda payload: f"as {payload.verdict}",
    "MESSAGE_AWAITED": lambda payload: f"of {payload.topic}" if payload.topic != payload.id else "",
    "TOPIC_HELD": lambda payload: joined(payload.topic, payload.reason or ""),
    "TOPIC_RELEASED": lambda payload: payload.topic,
    "EXECUTION_DENIED": lambda payload: f"{payload.action}: {payload.reason}",
    "OUTCOME_ATTACHED": lambda payload: payload.note or "",
    "STREAM_SETTLED": lambda payload: f"{len(payload.chunks or ())} chunks",
    "SCOPE_CLOSED": lambda payload: end_words("SCOPE_CLOSED", payload._asdict()),
    "SCOPE_CUT": lambda payload: f"because {payload.branch} failed",
}
