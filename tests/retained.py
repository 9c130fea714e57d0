"""Stores full of runs that ended long ago, written in few transactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from loom.core.ids import ExecutionId
from loom.devtools.conformance.event_trim import DONE
from loom.devtools.conformance.logs import first
from loom.spi.event_store import Append, EventStore, IndexRow

AT_ONCE = 1_000


async def fill(store: EventStore, count: int, *, events: int = 2, name: str = "old", index: IndexRow = DONE) -> None:
    """Write *count* logs of so many *events*, which began one after the other."""
    items = list(_items(count, events, name, index))
    for place in range(0, count, AT_ONCE):
        await store.append(items[place : place + AT_ONCE])


def _items(count: int, events: int, name: str, index: IndexRow) -> Iterator[Append]:
    payloads = [b'{"n":%d}' % number for number in range(events)]
    for number in range(count):
        yield first(ExecutionId(f"{name}-{number:06}"), *payloads, index=replace(index, started_at=number))
