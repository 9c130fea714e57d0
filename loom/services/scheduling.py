"""Schedules at work: one call of `tick` starts what is due, puts on record what became of it, and says when to call again.

Any number of processes may do this on one store. What is started has an id that is the same for everybody, so starting is
idempotent; then the cursor is moved by compare and set, and one of them wins. Who dies in between has done no harm: whoever
comes next finds the executions by their ids and records them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeAlias

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId, FlowId
from loom.core.schedule import Schedule
from loom.core.state import TERMINAL
from loom.driving.chains import last_link
from loom.services.due import Decision, decide, next_due
from loom.services.ticks import execution_id_at, written
from loom.spi.clock import Clock
from loom.spi.event_store import Storage
from loom.spi.schedule_store import ScheduleCursor, ScheduleStore

FAULT_REST_MS: Final = 10_000
"""How long a schedule rests after it could not be handled."""

_UNRECORDED_MAX: Final = 1000

StartResult: TypeAlias = Literal["started", "already there"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledStart:
    """An execution that a tick asks for: *flow* with *input* (`MISSING`: none) under *execution_id*."""

    flow: FlowId
    input: Any
    execution_id: ExecutionId
    principal: str
    attributes: Mapping[str, Any]


class Starter(Protocol):
    """Starts executions for schedules."""

    async def __call__(self, start: ScheduledStart) -> StartResult:
        """Begin the execution durably, unless it is there already; its end is not waited for.

        Raises:
            LoomError: it is not known to be there; asking again is safe.
        """
        ...


class SchedulesNotKept(LoomError):
    """The store cannot keep a record of schedules."""

    code = "schedules-not-kept"
    hint = "Use loom.sqlite_storage(), or a store that is a ScheduleStore too."

    def __init__(self, *, store: str) -> None:
        self.store = store
        super().__init__(f"the store keeps no record of schedules ({store})")


def schedule_store(storage: Storage) -> ScheduleStore:
    """Return *storage* as the store of schedules that it is.

    Raises:
        SchedulesNotKept: it is none.
    """
    if isinstance(storage, ScheduleStore):
        return storage
    raise SchedulesNotKept(store=storage.url)


@dataclass(slots=True, kw_only=True)
class Ticked:
    """What came of one call: what was *started* by it, how many ticks were *skipped*, what could not be done.

    *faults* are by the id of the schedule, whose ticks stay due. *next_at* is when to call again, in ms; None when nothing
    will ever be due.
    """

    started: list[ExecutionId] = field(default_factory=list)
    skipped: int = 0
    faults: dict[str, LoomError] = field(default_factory=dict)
    next_at: int | None = None


class Scheduling:
    """Handles *schedules* on one storage; *start* begins executions, *clock* is that of the store."""

    def __init__(self, schedules: Iterable[Schedule], *, storage: Storage, clock: Clock, start: Starter) -> None:
        self._schedules = tuple(schedules)
        self._storage, self._record = storage, schedule_store(storage)
        self._clock, self._start = clock, start
        self._next_at: dict[str, int | None] = {}

    async def tick(self) -> Ticked:
        """Start what is due and return what came of it. A schedule at fault does not hold up the others."""
        ticked = Ticked()
        for schedule in self._schedules:
            if self._may_be_due(schedule):
                self._next_at[schedule.id] = await self._handled(schedule, ticked)
        ticked.next_at = min((at for at in self._next_at.values() if at is not None), default=None)
        return ticked

    def _may_be_due(self, schedule: Schedule) -> bool:
        if schedule.id not in self._next_at:
            return True
        at = self._next_at[schedule.id]
        return at is not None and at <= self._clock.now_ms()

    async def _handled(self, schedule: Schedule, ticked: Ticked) -> int | None:
        try:
            return await self._handle(schedule, ticked)
        except LoomError as error:
            ticked.faults[schedule.id] = error
            return self._clock.now_ms() + FAULT_REST_MS

    async def _handle(self, schedule: Schedule, ticked: Ticked) -> int | None:
        """Decide, start and record until nothing is due; return when something will be."""
        while True:
            now_ms = self._clock.now_ms()
            cursor = await self._record.schedule_cursor(schedule.id)
            decision = await self._decided(schedule, cursor, now_ms)
            for tick in decision.starts:
                start = scheduled_start(schedule, tick)
                if await self._start(start) == "started":
                    ticked.started.append(start.execution_id)
            if decision.cursor != cursor:
                if not await self._record.record_ticks(schedule.id, cursor, decision.cursor, entries=decision.entries):
                    continue  # somebody else has moved it: look again
                ticked.skipped += sum(entry.count for entry in decision.entries if entry.reason is not None)
            if decision.next_at is None or decision.next_at > now_ms:
                return decision.next_at

    async def _decided(self, schedule: Schedule, cursor: ScheduleCursor | None, now_ms: int) -> Decision:
        first_due = next_due(schedule, cursor.at) if cursor is not None else None
        if cursor is None or first_due is None or first_due > now_ms:
            return decide(schedule, cursor, now_ms)  # nothing is due, so nothing has to be asked
        cares = schedule.overlap != "allow"
        existing = {
            each: cares and await is_open(self._storage, each)
            for each in await self._unrecorded(schedule, cursor, now_ms)
        }
        has_open = cares and cursor.latest is not None and await is_open(self._storage, cursor.latest)
        return decide(schedule, cursor, now_ms, is_open=has_open, existing=existing)

    async def _unrecorded(self, schedule: Schedule, cursor: ScheduleCursor, now_ms: int) -> list[ExecutionId]:
        """Return the executions of ticks after *cursor*: who started them has not recorded it, and may have died."""
        after, until = execution_id_at(schedule, cursor.at), execution_id_at(schedule, now_ms)
        found = await self._storage.ids(after=after, prefix=f"{schedule.id}-", limit=_UNRECORDED_MAX)
        return [each for each in found if each <= until and len(each) == len(until)]


def scheduled_start(schedule: Schedule, tick_at: int) -> ScheduledStart:
    """Return the execution that the tick *tick_at* (ms) of *schedule* asks for."""
    return ScheduledStart(
        flow=schedule.flow.id,
        input=schedule.input,
        execution_id=execution_id_at(schedule, tick_at),
        principal=schedule.principal,
        attributes=MappingProxyType({**schedule.attributes, "schedule": schedule.id, "tick": written(tick_at)}),
    )


async def is_open(storage: Storage, execution_id: ExecutionId) -> bool:
    """Say whether an execution has not ended; one that was continued has not while the last link of its chain has not."""
    row = await storage.row(execution_id)
    return row is not None and (await last_link(storage, row)).index.status not in TERMINAL - {"continued"}
