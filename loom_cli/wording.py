"""Events in words: failures, attempts, outcomes. What both the tree and the list of changes say of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from loom.core.child_names import CHILD_TOPIC
from loom.core.envelope import EventEnvelope
from loom.core.identity import unescape
from loom.core.sides import side_words
from loom_cli.readable import readable
from loom_cli.times import distance, duration, moment

Event = EventEnvelope[Any]

NOTE_MAX: Final = 160
CAUSE_WORDS: Final = {
    "deadline": " since its time was over",
    "parent": " with its parent",
    "force": " by force, without its clean-up",
    "superseded": " for a newer one",
    "imported": " here, where it was imported",
}
"""What had a run cancelled, where nobody asked for it."""


_TOO_LATE: Final = {"GATE_TIMED_OUT": "nobody answered in time", "MESSAGE_TIMED_OUT": "no message came in time"}


def identity(start: Event) -> str:
    """Return the identity of the syscall that *start* asked."""
    text: str = start.payload["id"] if isinstance(start.payload, Mapping) else start.payload.id
    return text


def child_of(topic: str) -> str | None:
    """Return the id of the child whose end is awaited on *topic*, None for a topic of messages."""
    return topic.removeprefix(CHILD_TOPIC) if topic.startswith(CHILD_TOPIC) else None


def awaited_words(topic: str) -> str:
    """Return what is awaited on *topic*."""
    child = child_of(topic)
    return f"a message of {topic}" if child is None else f"the child {child}"


def failure_text(failure: Mapping[str, Any]) -> str:
    """Return the record of a failure as `Type: message`."""
    type_, message = failure.get("type", "Exception"), failure.get("message", "")
    return f"{type_}: {message}" if message else str(type_)


def failure_of(outcome: Event) -> str | None:
    """Return the text of the failure that *outcome* is, None when it is none."""
    if outcome.type in _TOO_LATE:
        return _TOO_LATE[outcome.type]
    failure = getattr(outcome.payload, "failure", None)
    return failure_text(failure) if failure is not None else None


def outcome_words(outcome: Event) -> str:
    """Return what *outcome* was, as a word or two after the name of its syscall; empty for a plain result."""
    by = outcome.metadata.get("principal")
    who = f" by {by}" if by else ""
    payload = outcome.payload
    match outcome.type:
        case "GATE_ANSWERED":
            return f"answered{who}"
        case "MESSAGE_RECEIVED":
            return f"received{f' from {by}' if by else ''}"
        case "EFFECT_RESOLVED":
            return f"resolved as {payload.verdict}{who}"
        case "DECISION_RECORDED":
            return f"decided {one_line(value_text(payload.choice), 60)}"
        case "STREAM_SETTLED":
            return counted(len(payload.chunks or ()), "chunk", "chunks")
        case _:
            return {"TIMER_FIRED": "slept"}.get(outcome.type, "emitted" if outcome.type.startswith("user.") else "")


def value_text(encoded: Any) -> str:
    """Return *encoded*, a value of a log, as text: itself when it is one, else compact JSON, without tags."""
    value = readable(encoded)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def branches_words(start: Event) -> str:
    """Return how many branches a scope opened; a block opens its tasks one by one."""
    branches = start.payload.branches
    if start.payload.kind == "scope":
        return "a block of tasks"
    return counted(branches if isinstance(branches, int) else len(branches or ()), "branch", "branches")


def end_words(type_: str, told: Mapping[str, Any]) -> str:
    """Return how a scope ended early, by the type and the fields of the event that says so."""
    if type_ == "SCOPE_CLOSED":
        return f"{', '.join(told['counted'])} came first"
    return "its time was over" if type_ == "SCOPE_TIMED_OUT" else f"{told['branch']} failed"


def step_id(start: Event) -> str:
    """Return which step *start* asks, as it is declared."""
    tool: str | None = start.payload.tool
    return tool or _declared(start.payload.id)


def _declared(id: str) -> str:
    return unescape(id.rpartition("/")[2].partition("#")[0])


def attempt_words(attempt: int, start: Event | None, attempts_max: Mapping[str, int]) -> str:
    """Return `attempt 2 of 4`, without the 4 where the step's declaration is not known."""
    most = None
    if start is not None:
        most = attempts_max.get(step_id(start))
    return f"attempt {attempt}" + (f" of {most}" if most and most >= attempt else "")


def difference_rows(difference: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return both sides of a divergence, each with what it is; what is likely to blame comes last, without a name."""
    scope = str(difference.get("scope") or "").rstrip("/")
    rows = [
        ("at", f"place {difference.get('ordinal')}" + (f" of {scope}" if scope else "")),
        ("recorded", _side(difference.get("recorded"))),
        ("asked", _side(difference.get("asked"))),
    ]
    return [*rows, *(("", line) for line in str(difference.get("likely") or "").splitlines())]


def _side(side: Mapping[str, Any] | None) -> str:
    return side_words(side, text=lambda value: one_line(value_text(value), 200))


def rest_words(ms: int) -> str:
    """Return how long a rest of *ms* still is, in tenths of a second where more would flicker."""
    return f"{max(ms, 0) / 1000:.1f}s" if ms < 10_000 else duration(ms)


def until_words(due_at: int | None, now_ms: int) -> str:
    """Return until when something waits, and how far that is; empty when nothing ends it."""
    if due_at is None:
        return ""
    left = distance(due_at, now_ms) if due_at > now_ms else "due"
    return f"until {moment(due_at, now_ms)} ({left})"


def one_line(text: str, limit: int = NOTE_MAX) -> str:
    """Return *text* on one line, shortened."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}\u2026"


def counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def crowded_words(flow: str, count: int) -> str:
    """Return that more than *count* runs of *flow* are due, what was counted, and what to do about it."""
    told = f"more than {count:,} runs of {flow} are due and wait for a driver (parked runs whose time has come)"
    return f"{told}: start fewer, larger runs, or say with loom.Starts how many there may be (docs/guide/not-a-job-queue.md)"


def joined(*parts: str) -> str:
    """Return the parts that say something, with commas between."""
    return ", ".join(part for part in parts if part)
