"""Reading a log: page by page, decoded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.kernel.codec import decode_events
from loom.spi.event_store import EventStore


async def read_log(storage: EventStore, run_id: ExecutionId, start: int = 0) -> AsyncIterator[EventEnvelope[Any]]:
    """Yield the decoded events of one log from *start* on, page by page."""
    while True:
        page = await storage.read(run_id, start=start)
        if not page:
            return
        for event in decode_events(run_id, page):
            yield event
        start = page[-1].sequence + 1
