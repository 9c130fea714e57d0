"""Rows of the index as a command tells them, and the cursor with which a list goes on. Pure."""

from __future__ import annotations

import json
from typing import Any

from loom.core.ids import execution_id as as_id
from loom.spi.admission_store import Admission
from loom.spi.event_store import ExecutionRow
from loom_cli.drivers import is_cancelling
from loom_cli.errors import Usage
from loom_cli.options import EVENTS_MAX


def row_json(row: ExecutionRow, line: Admission | None = None, *, stopped: bool = False) -> dict[str, Any]:
    """Return a row of the index in the shape of docs/reference/json.md, with where the run stands in line; *stopped*: it is a trial that did."""
    index = row.index
    return {
        "id": row.execution_id,
        "flow": index.flow,
        "status": index.status,
        "cancelling": is_cancelling(row),
        "stopped": stopped,
        "parent": index.parent or None,
        "started_at": index.started_at,
        "updated_at": index.updated_at,
        "ended_at": row.ended_at,
        "wake_at": index.wake_at,
        "length": row.length,
        "gates": gates_of(row) or [],
        "attributes": _cell(index.attributes) or {},
        "driver": row.driver or None,
        "lease_ms": row.lease_ms if row.driver else None,
        "line": {"stage": line.stage, "ahead": line.ahead, "wake_at": line.wake_at} if line is not None else None,
        "cursor": f"{index.started_at}:{row.execution_id}",
    }


def gates_of(row: ExecutionRow) -> list[dict[str, Any]] | None:
    """Return the open gates of *row*; None when that cell is damaged: a row is but a cache (kernel rule 2.3)."""
    gates = _cell(row.index.gates)
    is_whole = isinstance(gates, list) and all(isinstance(gate, dict) and "gate" in gate for gate in gates)
    return gates if is_whole else None


def _cell(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def cursor_of(text: str | None) -> tuple[int, str] | None:
    """Return where a list goes on that a cursor names, None for none.

    Raises:
        Usage: it is no cursor.
    """
    if text is None:
        return None
    started_at, colon, execution_id = text.partition(":")
    fits = started_at.isdecimal() and len(started_at) <= len(str(EVENTS_MAX)) and int(started_at) <= EVENTS_MAX
    if not (colon and execution_id and fits):
        raise Usage(f"{text!r} is no cursor", hint="take it from the `cursor` of a row, or the note under a list")
    return int(started_at), as_id(execution_id)
