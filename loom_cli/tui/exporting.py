"""What is looked at, for elsewhere: as JSON, or as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from loom.core.views import open_gates
from loom.lenses.differing import change_json
from loom.lenses.folding import event_json, state_digest, state_json
from loom.lenses.shapes import gate_json
from loom.lenses.timeline import call_json
from loom_cli.safe_text import safe
from loom_cli.screen import Styled
from loom_cli.tui.model import Model
from loom_cli.tui.open_log import OpenLog
from loom_cli.tui.rows import head_line, place_line, row_line

_WIDTH: Final = 200


def view_json(log: OpenLog, model: Model) -> dict[str, Any]:
    """Return what is seen at the cursor, in the shape of docs/reference/json.md."""
    state, call = log.state(model.at), log.call(model.at)
    found = log.changes(model.at, model.mark)
    return {
        "id": log.run_id,
        "flow": log.moments.now.facts.flow,
        "sequence": log.rows[model.at].sequence,
        "last": log.moments.last,
        "event": event_json(log.event(model.at)),
        "call": call_json(call, state) if call is not None and state is not None else None,
        "status": state.status if state is not None else None,
        "digest": state_digest(state) if state is not None else None,
        "gates": [gate_json(gate) for gate in open_gates(state)] if state is not None else [],
        "against": log.rows[model.mark].sequence if model.mark is not None else None,
        "changes": [change_json(change) for change in found] if found is not None else None,
        "state": state_json(state) if state is not None else None,
    }


def view_text(log: OpenLog, model: Model, rows: Iterable[int], pane: Iterable[Iterable[Styled]]) -> str:
    """Return what is seen as lines of text: the run, the *rows* of the timeline that are in sight, and all of the *pane*."""
    return "\n".join(_text_lines(log, model, rows, pane)) + "\n"


def _text_lines(log: OpenLog, model: Model, rows: Iterable[int], pane: Iterable[Iterable[Styled]]) -> Iterator[str]:
    yield _text(head_line(log, model))
    yield _text(place_line(log, model))
    yield ""
    for index in rows:
        begin = ">" if index == model.at else " "
        yield f"{begin}{_text(row_line(log, model, index, _WIDTH))}".rstrip()
    yield ""
    for pieces in pane:
        yield _text(pieces)


def _text(pieces: Iterable[Styled]) -> str:
    return "".join(safe(piece.text) for piece in pieces).rstrip()
