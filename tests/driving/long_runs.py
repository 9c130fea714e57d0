"""Runs that are long: a flow that climbs stairs and waits at the top, and its log written at once instead of step by step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson

import loom
from loom.core.ids import ExecutionId
from loom.driving.runtime import WorkflowRuntime
from loom.plugins.postgres import PostgresStorage
from loom.plugins.sqlite import SqliteStorage
from loom.spi.event_store import Append, Appended, EventRecord, Storage
from loom.spi.memory import MemoryStorage
from tests.kernel.running import runtime

RUN = ExecutionId("long")
BATCH = 10_000
AROUND = 4
"""Events of the flow beside those of its steps: it starts, opens a gate, decides, and is suspended."""


@loom.step
async def climb(stair: int) -> int:
    return stair + 1


@loom.flow
async def stairs(ctx: loom.Context, count: int) -> list[Any]:
    way = await ctx.decide("way", lambda: "up")
    height = 0
    for stair in range(count):
        height = await ctx.run(climb, stair)
    answers = [await ctx.suspend("top", expects=str) for _ in range(3)]
    return [way, height, *answers]


def climber(storage: Storage | None = None, **options: Any) -> WorkflowRuntime:
    """Return a runtime that knows the flow."""
    return runtime(stairs, storage=storage, **options)


async def written(storage: Storage, length: int) -> Appended:
    """Write the log of a run of *length* events that stands at its first gate, as the runtime would have written it."""
    count = (length - AROUND) // 2
    assert AROUND + 2 * count == length
    near = climber()
    await near.start(stairs, 2, id=RUN)
    short = await near.storage.read(RUN)
    row = await near.storage.row(RUN)
    assert row is not None
    head: Appended | None = None
    for first in range(0, length, BATCH):
        events = [_event(short, place, count) for place in range(first, min(first + BATCH, length))]
        item = Append(
            execution_id=RUN,
            incarnation=head.incarnation if head else None,
            expected=first,
            append_id=f"bulk-{first}",
            events=events,
            index=row.index,
        )
        [result] = await storage.append([item])
        assert isinstance(result, Appended), result
        head = result
    assert head is not None
    return head


def _event(short: Sequence[EventRecord], place: int, count: int) -> EventRecord:
    """Return the event at *place* of a run that climbs *count* stairs, made from that of a run which climbs two."""
    begins, tail = 2, 2 + 2 * count
    if place < begins:
        return _changed(short[place], place, {"input": count} if place == 0 else {})
    if place >= tail:
        return _changed(short[place - tail + begins + 4], place, {"ordinal": count + 1} if place == tail else {})
    stair = (place - begins) // 2
    if (place - begins) % 2:
        return _changed(short[3], place, {"start": place - 1, "result": stair + 1})
    again = {"id": f"climb#{stair}" if stair else "climb", "ordinal": stair + 1, "args": {"stair": stair}}
    return _changed(short[2], place, again)


def _changed(event: EventRecord, place: int, changes: dict[str, Any]) -> EventRecord:
    payload = orjson.loads(event.payload) | changes
    return event._replace(sequence=place, at=short_at(event) + place, payload=orjson.dumps(payload))


def short_at(event: EventRecord) -> int:
    """Return the second in which *event* happened, so that times do not run backward."""
    return event.at // 1000 * 1000


class Counted:
    """What a store was asked for: how many events were read, and where each reading began."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.read_events = 0
        self.calls: list[str] = []

    async def read(self, *args: Any, **kwargs: Any) -> Sequence[EventRecord]:
        page: Sequence[EventRecord] = await super().read(*args, **kwargs)  # type: ignore[misc]  # mixed in before a store
        self.read_events += len(page)
        return page

    async def latest_snapshot(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append("latest")
        return await super().latest_snapshot(*args, **kwargs)  # type: ignore[misc]

    async def snapshots(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append("heads")
        return await super().snapshots(*args, **kwargs)  # type: ignore[misc]

    async def put_snapshot(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append("put")
        return await super().put_snapshot(*args, **kwargs)  # type: ignore[misc]


class CountedMemory(Counted, MemoryStorage): ...


class CountedSqlite(Counted, SqliteStorage): ...


class CountedPostgres(Counted, PostgresStorage): ...


async def sequences(storage: Any, run: str = RUN) -> list[int]:
    """Return where the snapshots of a run stand, the oldest first."""
    row = await storage.row(ExecutionId(run))
    assert row is not None
    return [head.sequence for head in await storage.snapshots(row.execution_id, row.incarnation)][::-1]


async def closing(storage: Storage) -> AsyncIterator[Storage]:
    """Give *storage* and close it."""
    yield storage
    await storage.close()
