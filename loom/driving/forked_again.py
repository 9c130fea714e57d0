"""The command that forks once more what a fork is of, with the same edit, from the fork's own record. Pure."""

from __future__ import annotations

import shlex
from typing import Any, Final

import orjson

from loom.core.envelope import EDITED, EventEnvelope
from loom.core.state import ExecutionState

_VALUES: Final = {
    "STEP_COMPLETED": "result",
    "GATE_ANSWERED": "answer",
    "MESSAGE_RECEIVED": "message",
    "DECISION_RECORDED": "choice",
}


def forked_again(state: ExecutionState) -> str:
    """Return the command that forks what *state* is a fork of anew, served from there and with the rest done live."""
    forked = state.facts.forked
    assert forked is not None
    source = forked.payload.source
    words = ["loom", "fork", source["execution_id"], *_edit(state, forked), "--reuse", "--live"]
    return shlex.join(words)


def _edit(state: ExecutionState, forked: EventEnvelope[Any]) -> list[str]:
    given = forked.payload.given
    if given is not None:
        starts = [*state.open.values(), *(settled.start for settled in state.settled)]
        call = next((start.payload.id for start in starts if start.sequence == given["start"]), None)
        if call is not None:
            return ["--input", call, "--value", _json(given["args"])]
    for settled in state.settled:
        outcome = settled.outcome
        if outcome.sequence == forked.sequence + 1 and EDITED in outcome.metadata:
            value = getattr(outcome.payload, _VALUES[outcome.type])
            return ["--output", settled.start.payload.id, "--value", _json(value)]
    return ["--at", str(forked.payload.source["sequence"])]


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
