"""The JSON that the page is drawn from. Pure: given moments, states and rows, gives values; docs/reference/json.md has the shapes.

Values of authors stand as they do on the log, shortened; `readable` briefs beside them are for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from loom.core.envelope import SIMULATED, EventEnvelope
from loom.core.missing import MISSING
from loom.core.state import ExecutionState
from loom.core.views import OpenGate, awaited_messages, open_gates
from loom.lenses.branches import BranchView, branch_json
from loom.lenses.differing import Change
from loom.lenses.folding import event_json
from loom.lenses.moments import Moments
from loom.lenses.shapes import gate_json, receive_json
from loom.lenses.timeline import Call, Row, Timeline, call_json, call_status
from loom.spi.event_store import ExecutionRow
from loom_cli.drivers import driver_words, is_cancelling, left_words
from loom_cli.event_lines import event_line, style_of
from loom_cli.readable import readable
from loom_cli.web.form_fields import form_json
from loom_cli.web.shortening import short

Event = EventEnvelope[Any]
Json: TypeAlias = Any

_BRIEF_MAX: Final = 160
_OPEN_MAX: Final = 500
_TONES: Final = {"green": "good", "red": "bad", "yellow": "wait", "magenta": "doubt", "blue": "life", "cyan": "own"}
_FACTS: Final = (
    "flow",
    "version",
    "fingerprint",
    "started_at",
    "wake_at",
    "why",
    "principal",
    "generation",
    "drives",
    "link",
    "next",
    "simulated",
)


def line_json(event: Event, row: Row, moments: Moments) -> Json:
    """Return one event as a line of the list: what it is about and says, in a few words."""
    line = event_line(event, lambda start: _name_of(start, moments))
    told: dict[str, Json] = {
        "n": event.sequence,
        "type": event.type,
        "at": event.at,
        "about": line.about,
        "says": line.says,
    }
    if line.value is not None:
        told["brief"] = brief(line.value)
    if tone := _TONES.get(style_of(event.type), ""):
        told["tone"] = tone
    marks = {"call": row.call, "took": row.took, "lane": row.lane or None}
    flags = {"failure": row.is_failure or line.is_failure, "simulated": SIMULATED in event.metadata}
    return (
        told
        | {key: value for key, value in marks.items() if value is not None}
        | {k: True for k, v in flags.items() if v}
    )


def _name_of(start: int, moments: Moments) -> str:
    try:
        return str(getattr(moments.event(start).payload, "id", f"event {start}"))
    except IndexError:
        return f"event {start}"


def brief(value: Json) -> str:
    """Return *value*, as on a log, in one short line for people."""
    shown = readable(short(value, text_max=_BRIEF_MAX, items_max=24, nodes_max=60).value)
    text = shown if isinstance(shown, str) else compact_words(shown)
    return text if len(text) <= _BRIEF_MAX else text[: _BRIEF_MAX - 1] + "…"


def compact_words(value: Json) -> str:
    """Return *value* as JSON for people: with its characters as they are."""
    import json

    return json.dumps(value, ensure_ascii=False)


def run_json(state: ExecutionState, row: ExecutionRow | None, moments: Moments) -> Json:
    """Return a run as it stands now, for the head of its page."""
    facts = state.facts
    parent = facts.parent or {}
    return {
        "id": state.execution_id,
        "status": state.status,
        "cancelling": row is not None and is_cancelling(row) and not state.is_terminal,
        "first": moments.first,
        "last": moments.last,
        "at": state.at,
        "ended": state.is_terminal,
        **{name: getattr(facts, name) for name in _FACTS},
        **{
            name: _for_people(getattr(facts, name))
            for name in ("attributes", "input", "result", "failure", "difference")
        },
        "cause": cause_json(state),
        "chain": facts.chain[0] if facts.chain else None,
        "parent": {"id": parent["execution_id"], "step": parent.get("step")} if parent.get("execution_id") else None,
        "source": dict(facts.forked.payload.source) if facts.forked is not None else None,
        "driver": _driver_words(row) if row is not None else None,
        "gates": len(state.gates),
    }


def cause_json(state: ExecutionState) -> Json:
    """Return the call that the run failed by: its id, the events that it goes from and to, and its arguments; None: it failed by none."""
    settled = next((each for each in state.settled if each.start.sequence == state.facts.cause), None)
    if settled is None or state.facts.cause is None:
        return None
    start, end = settled
    args = _for_people(getattr(start.payload, "args", None))
    return {"id": start.payload.id, "start": start.sequence, "end": end.sequence, "args": args}


def _for_people(value: Json) -> Json:
    return short(readable(value)).as_json() if value is not None else None


def _driver_words(row: ExecutionRow) -> str | None:
    if not row.driver:
        return None
    return left_words(row) or driver_words(row.driver)


def moment_json(moments: Moments, timeline: Timeline, n: int, against: int | None = None) -> Json:
    """Return what happened at event *n*: the event, how the run stands after it, and what is different from event *against*.

    Raises:
        IndexError, LogCompacted: see `Moments`.
    """
    state, event = moments.state_at(n), moments.event(n)
    return {
        "n": n,
        "index": moments.index(n),
        "line": line_json(event, timeline.rows[moments.index(n)], moments),
        "event": short(event_json(event)).as_json(),
        "status": state.status,
        "at": state.at,
        "wake_at": state.facts.wake_at,
        "open": [[start, call_status(timeline.calls[start], state)] for start in _open(state, timeline)],
        "gates": [gate.gate for gate in open_gates(state)],
        "receives": [receive_json(wait) for wait in awaited_messages(state)],
        "changes": [change_short(change) for change in moments.changes_at(n, against)],
    }


def _open(state: ExecutionState, timeline: Timeline) -> list[int]:
    """Return the calls that stand open, the last ones where there are many."""
    return [start for start in sorted(state.open) if start in timeline.calls][-_OPEN_MAX:]


def change_short(change: Change) -> Json:
    """Return one change with its sides shortened; a side on which there is nothing is left out."""
    sides = {"before": change.before, "after": change.after}
    return {"path": list(change.path)} | {
        name: short(side).as_json() for name, side in sides.items() if side is not MISSING
    }


def call_short(call: Call) -> Json:
    """Return one call as a bar of the timeline: when it was asked, tried and settled."""
    told: dict[str, Json] = {
        "start": call.start,
        "id": call.id,
        "kind": call.kind,
        "lane": call.lane,
        "at": call.asked_at,
    }
    if len(call.attempts) > 1:
        told["attempts"] = [[a.start, a.began_at, a.end, a.ended_at, a.failure is not None] for a in call.attempts]
    return told | {"outcomes": [outcome._asdict() for outcome in call.outcomes]}


def call_full(call: Call, state: ExecutionState, moments: Moments) -> Json:
    """Return one call as it stood where *state* is the state of its run, with the events that asked and settled it."""
    told = call_json(call, state)
    events = [moments.event(call.start), *([moments.event(told["end"])] if told["end"] is not None else [])]
    return {**told, "events": [short(event_json(event)).as_json() for event in events]}


def gates_json(state: ExecutionState) -> Json:
    """Return what waits for a person, each gate with the fields of its form."""
    return [_gate_json(gate) for gate in open_gates(state)]


def _gate_json(gate: OpenGate) -> Json:
    told = gate_json(gate)
    show = _for_people(told.pop("show"))
    schema = told.pop("schema")
    return {**told, "show": show, "schema": schema, "form": None if gate.in_doubt else form_json(schema or {})}


def branches_json(views: Sequence[BranchView]) -> Json:
    """Return the family of a run, as a tree in order."""
    return [branch_json(view) for view in views]
