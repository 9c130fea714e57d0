"""Reading a log: page by page, decoded."""

from __future__ import annotations

from typing import Any

from loom.core.collecting import collected_later
from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.kernel.codec import decode_events
from loom.spi.event_store import EventStore


async def read_log(storage: EventStore, run_id: ExecutionId, *, length: int | None = None) -> list[EventEnvelope[Any]]:
    """Return the events of one log. Where its *length* is known, nothing is read just to see the end."""
    events: list[EventEnvelope[Any]] = []
    start = 0
    while (length is None or start < length) and (page := await storage.read(run_id, start=start)):
        with collected_later():
            events += decode_events(run_id, page)
        start = page[-1].sequence + 1
    return events
