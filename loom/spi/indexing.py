"""The index row of an execution, made from its state: a cache of the fold that listings read. Pure."""

from __future__ import annotations

import orjson

from loom.core.state import ExecutionState
from loom.core.views import gate_rows
from loom.spi.event_store import IndexRow


def gates_text(state: ExecutionState) -> str:
    """Return the open gates as the row has them."""
    return orjson.dumps(gate_rows(state)).decode() if state.gates else "[]"


def index_row(state: ExecutionState, gates: str) -> IndexRow:
    """Return the row of an execution in *state*; *gates* is the `gates_text` of it. A fork is as old as its own way."""
    facts = state.facts
    return IndexRow(
        flow=facts.flow,
        status=state.status,
        started_at=facts.forked.at if facts.forked is not None else facts.started_at,
        updated_at=state.at,
        wake_at=facts.wake_at,
        gates=gates,
        attributes=orjson.dumps(facts.attributes).decode() if facts.attributes else "{}",
        chain=facts.chain[0] if facts.chain else state.execution_id,
        link=facts.link,
        parent=facts.parent["execution_id"] if facts.parent else "",
        ended=state.is_terminal,
    )
