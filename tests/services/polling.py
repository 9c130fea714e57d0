"""Schedules polled in a test: a clock that is moved by hand, and executions that a real runtime starts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import loom
from loom.driving.errors import ExecutionAlreadyExists
from loom.services.scheduling import ScheduledStart, Scheduling, Starter, StartResult, Ticked
from loom.spi.clock import VirtualClock
from loom.spi.event_store import ExecutionQuery, Storage
from loom.spi.schedule_store import ScheduleEntry, ScheduleStore

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
DAY_0: Final = int(datetime(2026, 11, 30, tzinfo=UTC).timestamp()) * 1000


@loom.flow
async def report(ctx: loom.Context) -> str:
    return "done"


@loom.flow
async def greet(ctx: loom.Context, name: str) -> str:
    return f"hello {name}"


@loom.flow
async def ask(ctx: loom.Context) -> Any:
    return await ctx.suspend("approval", expects=bool)


FLOWS: Final[dict[str, Any]] = {flow.id: flow for flow in (report, greet, ask)}


class Bench:
    """One storage, a clock at midnight, and pollers of *schedules* that a runtime starts the executions for."""

    def __init__(self, *schedules: loom.Schedule, storage: Any = None) -> None:
        self.schedules, self.clock = schedules, VirtualClock(DAY_0)
        self.storage = storage or loom.MemoryStorage(clock=self.clock)
        self.runtime = loom.WorkflowRuntime(self.storage, flows=FLOWS, clock=self.clock)

    def poller(self, wrap: Callable[[Starter], Starter] = lambda start: start) -> Scheduling:
        """Return what one process would poll with."""
        return Scheduling(self.schedules, storage=self.storage, clock=self.clock, start=wrap(self.start))

    async def start(self, start: ScheduledStart) -> StartResult:
        """Start an execution and drive it until it ends or waits."""
        try:
            await self.runtime.start(
                start.flow,
                start.input,
                id=start.execution_id,
                principal=start.principal,
                attributes=start.attributes,
                linger_s=0,
            )
        except ExecutionAlreadyExists:
            return "already there"
        return "started"

    async def poll_until(self, poller: Scheduling, at_ms: int) -> list[Ticked]:
        """Call *poller* whenever it asked for it until the clock shows *at_ms*."""
        calls = [await poller.tick()]
        while (next_at := calls[-1].next_at) is not None and next_at <= at_ms:
            self.clock.advance(max(0, next_at - self.clock.now_ms()))
            calls.append(await poller.tick())
        self.clock.advance(max(0, at_ms - self.clock.now_ms()))
        return calls


async def executions(storage: Storage) -> list[str]:
    """Return the ids of all executions, sorted."""
    return sorted(row.execution_id for row in await storage.find(ExecutionQuery(limit=5000)))


async def record(storage: ScheduleStore, id: str) -> list[ScheduleEntry]:
    """Return the whole record of a schedule, oldest first."""
    return list(await storage.schedule_entries(id, limit=5000))[::-1]


def told(entry: ScheduleEntry) -> str:
    """Return an entry as text."""
    return entry.execution_id or f"{entry.count} {entry.reason}"


async def poll_minutes(path: str, minutes: int) -> None:
    """Poll a schedule of every minute on the store at *path*, as one process of several, and print what it starts."""
    bench = Bench(loom.schedule("minutely", "* * * * *", report), storage=loom.sqlite_storage(path))
    poller = bench.poller()
    await poller.tick()
    for _ in range(minutes):
        bench.clock.advance(MINUTE)
        for started in (await poller.tick()).started:
            print(started, flush=True)  # noqa: T201  # what the test reads
    await bench.runtime.close()


if __name__ == "__main__":
    asyncio.run(poll_minutes(sys.argv[1], int(sys.argv[2])))
