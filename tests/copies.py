"""What must hold of a copy of a store: it is what the store was at one moment, and can go on from there."""

from __future__ import annotations

from typing import Any

from loom.core.ids import ExecutionId
from loom.core.state import empty_state
from loom.driving.reading import read_log
from loom.kernel.fold import fold
from loom.spi.event_store import ExecutionQuery, Storage
from loom.spi.indexing import gates_text, index_row

Logs = dict[ExecutionId, list[Any]]


async def logs_of(store: Storage) -> Logs:
    """Return all logs; fail where the store is not one whole thing."""
    logs: Logs = {}
    for row in await store.find(ExecutionQuery(limit=1_000_000)):
        events = await read_log(store, row.execution_id)
        assert [event.sequence for event in events] == list(range(row.length)), row
        state = fold(events, empty_state(row.execution_id))
        assert row.index == index_row(state, gates_text(state)), row
        logs[row.execution_id] = events
    return logs


def is_earlier(copy: Logs, original: Logs) -> bool:
    """Whether each log of the *copy* is how one of the *original* began."""
    return all(original[name][: len(events)] == events for name, events in copy.items())
