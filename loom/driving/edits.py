"""What a person may put into a fork in the place of what its source has: one input, result, choice, answer or message. Pure.

A result, a choice, an answer or a message is an ordinary outcome, written behind the fork and marked as edited. The arguments
of a step stand in the fact of the fork itself, and the step is asked with them.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from loom.core import facts as f
from loom.core.envelope import EDITED, EventEnvelope
from loom.core.json import Json, JsonObject
from loom.core.origins import start_of
from loom.driving.errors import ForkRefused

Event: TypeAlias = EventEnvelope[Any]
What: TypeAlias = Literal["input", "output"]

_OUTCOMES: Final = frozenset(
    {
        "STEP_COMPLETED",
        "STEP_FAILED",
        "EFFECT_RESOLVED",
        "GATE_ANSWERED",
        "GATE_TIMED_OUT",
        "MESSAGE_RECEIVED",
        "MESSAGE_TIMED_OUT",
        "DECISION_RECORDED",
    }
)


class Edit(NamedTuple):
    """At the syscall *id* (its identity, `charge#1`), *value* (JSON) instead of its `input` or its `output`.

    The input is that of a step: an object of its arguments by name, of which those left out stay as they are. The output is the
    result of a step, the answer of a gate, what was chosen, or the message that was received.
    """

    id: str
    what: What
    value: Json


class Placed(NamedTuple):
    """An edit at its place: the last event of the source that is copied, and what is written instead of what came then.

    *keeps* is the start that stays open though it is asked anew elsewhere, *given* goes into the fact of the fork, *outcome* (type
    and fact) behind it; *edited* is the sequence of what is replaced.
    """

    through: int
    edited: int
    keeps: int | None = None
    given: JsonObject | None = None
    outcome: tuple[str, Any] | None = None

    @property
    def metadata(self) -> Mapping[str, Any]:
        return {EDITED: self.edited}


def placed(run_id: str, events: Sequence[Event], edit: Edit) -> Placed:
    """Return where *edit* belongs in the log *events*; of a syscall that was asked again after a retry it is the last.

    Raises:
        ForkRefused: nothing there can be edited so.
    """
    starts = [event for event in events if getattr(event.payload, "id", None) == edit.id]
    if not starts:
        known = sorted({id for event in events if isinstance(id := getattr(event.payload, "id", None), str)})
        near = difflib.get_close_matches(edit.id, known)
        hint = f"Did you mean {', '.join(near)}?" if near else f"`loom logs {run_id}` shows what it asked."
        raise ForkRefused(execution_id=run_id, why=f"it never asked {edit.id}", hint=hint)
    start = starts[-1]
    return _input(run_id, start, edit) if edit.what == "input" else _output(run_id, events, start, edit)


def _input(run_id: str, start: Event, edit: Edit) -> Placed:
    if start.type != "STEP_STARTED" or not isinstance(edit.value, dict):
        why = f"the input of {edit.id} cannot be edited: only a step has one, and it is an object of arguments by name"
        raise ForkRefused(execution_id=run_id, why=why)
    args = {**(start.payload.args or {}), **edit.value}
    given = {"start": start.sequence, "args": args}
    return Placed(start.sequence, start.sequence, keeps=start.sequence, given=given)


def _output(run_id: str, events: Sequence[Event], start: Event, edit: Edit) -> Placed:
    outcome = next((e for e in events if e.type in _OUTCOMES and start_of(e) == start.sequence), None)
    if outcome is None:
        hint = "An open gate is answered in a fork like in any run; an open step can be given another input."
        raise ForkRefused(execution_id=run_id, why=f"{edit.id} has no output that could be edited", hint=hint)
    payload, sequence, value = outcome.payload, start.sequence, edit.value
    fact: tuple[str, Any]
    match start.type:
        case "STEP_STARTED":
            fact = "STEP_COMPLETED", f.StepCompleted(sequence, value)
        case "GATE_OPENED":
            fact = "GATE_ANSWERED", f.GateAnswered(sequence, value)
        case "MESSAGE_AWAITED" if outcome.type == "MESSAGE_RECEIVED":
            fact = "MESSAGE_RECEIVED", payload._replace(message=value)
        case "DECISION_RECORDED":
            fact = "DECISION_RECORDED", payload._replace(choice=value, failure=None, propensity=None)
        case _:
            raise ForkRefused(execution_id=run_id, why=f"{edit.id} has no output that could be edited")
    keeps = None if start is outcome else sequence
    return Placed(outcome.sequence - 1, outcome.sequence, keeps=keeps, outcome=fact)
