"""What was asked of a run and made durable, and no driver has taken up: whoever asked it was cut off before the run was driven."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import orjson

from loom.core.ids import ExecutionId
from loom.core.links import once
from loom.spi.event_store import Request

_SETTLES: Final = frozenset({"answer", "verdict"})


def untaken(pending: Iterable[Request]) -> list[Request]:
    """Return what of a lane waits for a driver; messages do not: they wait in the inbox until the flow receives them."""
    return [request for request in pending if request.kind != "message"]


def settled_meanwhile(run_id: ExecutionId, pending: Iterable[Request]) -> frozenset[int]:
    """Return the sequences of the open gates, and effects in doubt, of *run_id* which an untaken answer or verdict is for."""
    starts = ((request, orjson.loads(request.body)["start"]) for request in pending if request.kind in _SETTLES)
    names = {"answer": "gate", "verdict": "doubt"}
    return frozenset(
        start
        for request, start in starts
        if f"{request.key}:".startswith(once(run_id, f"{names[request.kind]}:{start}:"))
    )
