"""What changed, in one line an event: what a log, a pipe or a dumb terminal is told of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from loom.driving.simulating import is_trial
from loom.kernel.fold import USER_PREFIX
from loom_cli.progress import Progress, tried_words
from loom_cli.times import duration
from loom_cli.wording import (
    CAUSE_WORDS,
    Event,
    attempt_words,
    awaited_words,
    branches_words,
    end_words,
    failure_of,
    failure_text,
    identity,
    joined,
    one_line,
    outcome_words,
    until_words,
    value_text,
)

_DIFFERENCES_TOLD: Final = 3
_ARGUMENTS_MAX: Final = 80


def told(progress: Progress, event: Event) -> str | None:
    """Return what *event* says in one line, None for one that the command tells otherwise; *progress* includes it."""
    if event.type.startswith(USER_PREFIX):
        return f"{event.type.removeprefix(USER_PREFIX)} emitted"
    tell = _TOLD.get(event.type)
    return tell(progress, event) if tell is not None else None


def _step_started(progress: Progress, event: Event) -> str:
    return f"{event.payload.id} started"


def _step_attempted(progress: Progress, event: Event) -> str:
    start, attempt = progress.state.open.get(event.payload.start), event.payload.attempt
    if event.payload.start not in progress.again:
        return f"{_name(progress, event)} {attempt_words(attempt, start, progress.attempts_max)} started"
    which = f" {attempt_words(attempt, start, progress.attempts_max)}" if attempt > 1 else ""
    return f"{_name(progress, event)}{which} started again"


def _attempt_failed(progress: Progress, event: Event) -> str:
    payload = event.payload
    start = progress.state.open.get(payload.start)
    rest = duration(max(payload.due_at - event.at, 0))
    failed = f"attempt {payload.attempt} failed: {one_line(failure_text(payload.failure))}"
    return f"{_name(progress, event)} {failed}; {attempt_words(payload.attempt + 1, start, progress.attempts_max)} in {rest}"


def _settled(progress: Progress, event: Event) -> str:
    settled = next(s for s in progress.state.settled if s.outcome.sequence == event.sequence)
    name = identity(settled.start)
    took, failure = duration(event.at - settled.start.at), failure_of(event)
    if failure is not None:
        tried = event.payload.attempts if event.type == "STEP_FAILED" else 1
        return f"{name} failed{f' after {tried} attempts' if tried > 1 else ''}: {one_line(failure)}"
    if event.type == "STEP_COMPLETED":
        return joined(f"{name} done in {took}", tried_words(progress, settled.start))
    return f"{name} {outcome_words(event) or 'done'}"


def _in_doubt(progress: Progress, event: Event) -> str:
    return f"{_name(progress, event)} is in doubt: {one_line(event.payload.reason)}"


def _gate_opened(progress: Progress, event: Event) -> str:
    return f"{event.payload.id} {joined('waits for an answer', until_words(event.payload.due_at, event.at))}"


def _message_awaited(progress: Progress, event: Event) -> str:
    payload = event.payload
    return f"{payload.id} {joined(f'waits for {awaited_words(payload.topic)}', until_words(payload.due_at, event.at))}"


def _held(progress: Progress, event: Event) -> str:
    return f"messages of {event.payload.topic} are {'held back' if event.type == 'TOPIC_HELD' else 'delivered again'}"


def _denied(progress: Progress, event: Event) -> str:
    payload = event.payload
    return f"{payload.principal or 'somebody'} may not {payload.action}: {one_line(payload.reason)}"


def _timer_set(progress: Progress, event: Event) -> str:
    return f"{event.payload.id} sleeps {until_words(event.payload.due_at, event.at)}"


def _scope_opened(progress: Progress, event: Event) -> str:
    return f"{event.payload.id} opened {branches_words(event)}"


def _scope_ended(progress: Progress, event: Event) -> str:
    why = end_words(event.type, event.payload._asdict())
    is_closed = event.type == "SCOPE_CLOSED"
    return f"{_name(progress, event)} {'is closed:' if is_closed else 'was cut, because'} {why}"


def _resumed(progress: Progress, event: Event) -> str:
    if event.payload.cut_off and is_trial(progress.state):
        return "taken up again where it had stopped"
    return "taken up again after it was cut off" if event.payload.cut_off else "resumed"


def _migrated(progress: Progress, event: Event) -> str:
    told = [_difference(progress, difference) for difference in event.payload.differences]
    if not told:
        return "the code has changed since; what was recorded still fits it"
    more = f"; and {len(told) - _DIFFERENCES_TOLD} more (loom logs)" if len(told) > _DIFFERENCES_TOLD else ""
    return f"the code has changed since, and asks otherwise: {'; '.join(told[:_DIFFERENCES_TOLD])}{more}"


def _difference(progress: Progress, difference: Mapping[str, Any]) -> str:
    """Return what a step was asked with when it ran, and what the code asks now; its record is served all the same."""
    sequence = difference.get("sequence")
    recorded = next((s.start.payload for s in progress.state.settled if s.start.sequence == sequence), None)
    before = value_text(getattr(recorded, "args", None))
    asked = value_text((difference.get("asked") or {}).get("args"))
    return f"{difference.get('id')} ran with {one_line(before, _ARGUMENTS_MAX)}, not {one_line(asked, _ARGUMENTS_MAX)}"


def _retried(progress: Progress, event: Event) -> str:
    return "tried again from the failure; what succeeded stays"


def _verdict(progress: Progress, event: Event) -> str:
    name = _name(progress, event)
    return f"{name} {outcome_words(event)}" if event.payload.verdict != "failed" else _settled(progress, event)


def _dropped(progress: Progress, event: Event) -> str:
    kind, reason = event.payload.kind, one_line(event.payload.reason)
    if kind == "message":
        return f"a message was dropped: {reason}"
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} came too late: {reason}"


def _cancel_requested(progress: Progress, event: Event) -> str:
    fact, by = event.payload, event.metadata.get("principal")
    who = f" by {by}" if by else ""
    grace = until_words(fact.due_at, event.at)
    told = f"cancelled{CAUSE_WORDS.get(fact.cause, '')}{who}{f': {one_line(fact.reason)}' if fact.reason else ''}"
    return f"{told}; its clean-up has {grace.replace('until', 'time until')}"


def _grace_ended(progress: Progress, event: Event) -> str:
    return "the time for its clean-up is over: what it still does is cut off"


_TOLD: Final = {
    "EXECUTION_CANCEL_REQUESTED": _cancel_requested,
    "EXECUTION_GRACE_ENDED": _grace_ended,
    "EXECUTION_RESUMED": _resumed,
    "EXECUTION_RETRIED": _retried,
    "EXECUTION_MIGRATED": _migrated,
    "STEP_STARTED": _step_started,
    "STEP_ATTEMPTED": _step_attempted,
    "STEP_ATTEMPT_FAILED": _attempt_failed,
    "STEP_COMPLETED": _settled,
    "STEP_FAILED": _settled,
    "EFFECT_INDOUBT": _in_doubt,
    "EFFECT_RESOLVED": _verdict,
    "GATE_OPENED": _gate_opened,
    "GATE_ANSWERED": _settled,
    "GATE_TIMED_OUT": _settled,
    "MESSAGE_AWAITED": _message_awaited,
    "MESSAGE_RECEIVED": _settled,
    "MESSAGE_TIMED_OUT": _settled,
    "TOPIC_HELD": _held,
    "TOPIC_RELEASED": _held,
    "EXECUTION_DENIED": _denied,
    "TIMER_SET": _timer_set,
    "TIMER_FIRED": _settled,
    "SCOPE_OPENED": _scope_opened,
    "SCOPE_CLOSED": _scope_ended,
    "SCOPE_TIMED_OUT": _scope_ended,
    "SCOPE_CUT": _scope_ended,
    "DECISION_RECORDED": _settled,
    "STREAM_SETTLED": _settled,
    "REQUEST_DROPPED": _dropped,
}
"""Starts and ends of the run itself are told by the command, with what to do about them."""


def _name(progress: Progress, event: Event) -> str:
    sequence = event.payload.start
    start = progress.state.open.get(sequence)
    if start is None:
        start = next((s.start for s in progress.state.settled if s.start.sequence == sequence), None)
    return identity(start) if start is not None else f"event {sequence}"
