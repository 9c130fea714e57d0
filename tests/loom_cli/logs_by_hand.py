"""Logs written by hand, a second an event: fixed input for what is drawn from events."""

from __future__ import annotations

from typing import Any

from loom.core import facts as f
from loom.core.envelope import NO_METADATA, EventEnvelope
from loom.core.ids import ExecutionId
from loom.kernel.fold import EVENTS

STARTED_AT = 1_800_000_000_000
RUN = ExecutionId("refund-42")

_TYPES = {row.payload: row.name for row in EVENTS.values()}


def log(*facts: Any) -> list[EventEnvelope[Any]]:
    """Return the events of *facts*, a second apart; a pair is a fact and its metadata."""
    events = []
    for sequence, each in enumerate((f.ExecutionStarted("refund", "fp", "seed", {}), *facts)):
        fact, metadata = each if type(each) is tuple else (each, NO_METADATA)
        at = STARTED_AT + 1000 * sequence
        events.append(EventEnvelope(RUN, sequence, _TYPES[type(fact)], at, fact, metadata))
    return events


def step(name: str, ordinal: int = 0, **more: Any) -> f.StepStarted:
    return f.StepStarted(name, ordinal, "digest", **more)


def refused(message: str = "refused") -> dict[str, Any]:
    return {"type": "ConnectionError", "message": message}
