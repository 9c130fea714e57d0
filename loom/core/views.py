"""What waits for a person or a message, read off a state: the rows that listings and messages show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from loom.core.envelope import EventEnvelope
from loom.core.state import UNTRIED, ExecutionState, is_cut


class OpenGate(NamedTuple):
    """A gate that waits for an answer, or an effect in doubt that waits for a verdict.

    *gate* is its address, *start* the sequence that opened it; *show* and *schema* are JSON, *shown* the digest of what
    is shown. *reason* is set for an effect in doubt. Times are ms since the epoch.
    """

    gate: str
    start: int
    opened_at: int
    label: str
    in_doubt: bool = False
    show: Any = None
    shown: str | None = None
    schema: Mapping[str, Any] | None = None
    key: str | None = None
    due_at: int | None = None
    reason: str | None = None


def open_gates(state: ExecutionState) -> list[OpenGate]:
    """Return what waits for a person, in the order it was asked."""
    return [_gate(state, state.gates[start]) for start in sorted(state.gates)]


class AwaitedMessage(NamedTuple):
    """A receive that waits for a message of *topic*; *receive* is its id. Times are ms since the epoch."""

    receive: str
    start: int
    asked_at: int
    topic: str
    due_at: int | None


def awaited_messages(state: ExecutionState) -> list[AwaitedMessage]:
    """Return the receives that stand open, the oldest first."""
    if state.is_terminal or state.facts.grace_ended is not None:
        return []
    closed = (state.facts.cancel.payload.closed or ()) if state.facts.cancel is not None else ()
    return [
        AwaitedMessage(start.payload.id, sequence, start.at, start.payload.topic, start.payload.due_at)
        for sequence, start in sorted(state.open.items())
        if start.type == "MESSAGE_AWAITED" and sequence not in closed and not is_cut(start, state.cuts)
    ]


def _gate(state: ExecutionState, start: EventEnvelope[Any]) -> OpenGate:
    p = start.payload
    if start.type == "STEP_STARTED":
        doubt = state.attempts.get(start.sequence, UNTRIED).doubt
        at, reason = (doubt.at, doubt.payload.reason) if doubt is not None else (start.at, None)
        return OpenGate(p.id, start.sequence, at, p.id, in_doubt=True, show=p.args, reason=reason)
    return OpenGate(
        p.id,
        start.sequence,
        start.at,
        p.label,
        show=p.show,
        shown=p.shown,
        schema=p.schema,
        key=p.key,
        due_at=p.due_at,
    )


def gate_rows(state: ExecutionState) -> list[dict[str, Any]]:
    """Return the open gates as the index row holds them: addresses, keys and times, not what is shown."""
    return [
        {"gate": g.gate, "opened_at": g.opened_at, "in_doubt": g.in_doubt, "due_at": g.due_at, "key": g.key}
        for g in open_gates(state)
    ]
