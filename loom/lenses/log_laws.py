"""What some events have to say of the log before them, whatever the flow: their laws, a row a type. Pure.

The fold reads an event as it stands and refuses what it cannot fold. These laws are for who doubts the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from loom.core.envelope import EventEnvelope
from loom.core.errors import LoomError
from loom.core.state import ExecutionState
from loom.driving.errors import ExecutionNotFailed
from loom.driving.retrying import retried

Event: TypeAlias = EventEnvelope[Any]
Law: TypeAlias = Callable[[Event, ExecutionState, Sequence[Event]], bool]
"""Whether an event fits the state before it, and the log that it is of."""


def unlawful(events: Sequence[Event], folded: Sequence[ExecutionState]) -> Iterator[int]:
    """Yield the sequences of events that do not fit what came before them; *folded* are the states of the log."""
    for event, before in zip(events[1:], folded, strict=False):
        law = LAWS.get(event.type)
        if law is not None and not _keeps(law, event, before, events):
            yield event.sequence


def _keeps(law: Law, event: Event, before: ExecutionState, log: Sequence[Event]) -> bool:
    try:
        return law(event, before, log)
    except (AttributeError, KeyError, TypeError):  # it lacks what it is to say
        return False


def _resumed(event: Event, before: ExecutionState, log: Sequence[Event]) -> bool:
    return bool(event.payload.cut_off) is (before.status == "running")


def _taken_over(event: Event, before: ExecutionState, log: Sequence[Event]) -> bool:
    """Tokens were counted once; now they are places in the log."""
    return event.payload.token in (event.sequence, before.facts.drives + 1)


def _migrated(event: Event, before: ExecutionState, log: Sequence[Event]) -> bool:
    digests = {each.sequence: getattr(each.payload, "digest", None) for each in log[: event.sequence]}
    noted = all(digests.get(each["sequence"]) == each["recorded"] for each in event.payload.differences)
    return noted and bool(event.payload.before == before.facts.fingerprint)


def _retried(event: Event, before: ExecutionState, log: Sequence[Event]) -> bool:
    try:
        return bool(retried(before) == event.payload)
    except ExecutionNotFailed:
        return False
    except LoomError:
        return True  # a rule of today that a log of yesterday need not keep


def _forked(event: Event, before: ExecutionState, log: Sequence[Event]) -> bool:
    """What became void stood open, and the copy goes as far as the fork says."""
    return set(event.payload.void) <= set(before.open) and bool(event.payload.source["sequence"] == before.sequence)


def _tried(event: Event, before: ExecutionState, log: Sequence[Event]) -> bool:
    start = before.open.get(event.payload.start)
    return start is not None and start.type == "STEP_STARTED"


def _resolved(event: Event, before: ExecutionState, log: Sequence[Event]) -> bool:
    return event.payload.start in before.gates


def _attached(event: Event, before: ExecutionState, log: Sequence[Event]) -> bool:
    start = event.payload.start
    return bool(0 <= start < event.sequence and log[start].type == "DECISION_RECORDED")


LAWS: Final[Mapping[str, Law]] = {
    "EXECUTION_RESUMED": _resumed,
    "EXECUTION_TAKEN_OVER": _taken_over,
    "EXECUTION_MIGRATED": _migrated,
    "EXECUTION_FORKED": _forked,
    "EXECUTION_RETRIED": _retried,
    "STEP_ATTEMPTED": _tried,
    "STEP_ATTEMPT_FAILED": _tried,
    "EFFECT_RESOLVED": _resolved,
    "OUTCOME_ATTACHED": _attached,
}
