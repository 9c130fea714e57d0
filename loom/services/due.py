"""Which of the ticks that are due start, and which are skipped and why. Pure: what now is and what is open, the caller says.

Ticks are handled in their order, each once; the cursor is the last one handled. A schedule that is seen for the first time has
its cursor at now: the past is not fired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from loom.core.ids import ExecutionId
from loom.core.schedule import Schedule
from loom.services.ticks import due_at, execution_id_at, next_ticks
from loom.spi.schedule_store import ScheduleCursor, ScheduleEntry, SkipReason

LOOKED_AT_MAX: Final = 1000
"""So many ticks are skipped in one decision at most: a year of minutes is not looked at in one go."""

QUEUE_POLL_MS: Final = 1000
"""How long a tick that waits for an earlier execution rests before that one is looked at again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do now: start an execution for each of *starts* (ticks), then move the cursor and record *entries*.

    *next_at* is when there is something to decide again, in ms: at once where more is due than was looked at; None when
    the schedule never ticks again.
    """

    starts: tuple[int, ...]
    entries: tuple[ScheduleEntry, ...]
    cursor: ScheduleCursor
    next_at: int | None


def decide(
    schedule: Schedule,
    cursor: ScheduleCursor | None,
    now_ms: int,
    *,
    is_open: bool = False,
    existing: Mapping[ExecutionId, bool] | None = None,
) -> Decision:
    """Return what becomes of the ticks of *schedule* that are due at *now_ms*.

    *is_open* says whether an earlier execution of the schedule has not ended. *existing* are executions of ticks after the
    cursor that were started though nobody recorded it (whoever did so has died in between), each with whether it is
    open: they stand, whatever the policies say by now.
    """
    if cursor is None:
        return Decision(starts=(), entries=(), cursor=ScheduleCursor(now_ms), next_at=next_due(schedule, now_ms))
    cap = schedule.catch_up.cap
    due, following = _due(schedule, cursor.at, now_ms, limit=LOOKED_AT_MAX + cap + 1)
    has_more = len(due) > LOOKED_AT_MAX + cap
    looked_at = due[:LOOKED_AT_MAX] if has_more else due
    wanted = frozenset() if has_more else frozenset(_wanted(schedule, due, now_ms))
    walk = _Walk(schedule, now_ms, cursor, is_open)
    for tick in looked_at:
        if not walk.step(tick, wanted=tick in wanted, existing=existing or {}):
            return walk.decision(next_at=now_ms + QUEUE_POLL_MS)
    return walk.decision(next_at=now_ms if has_more else following)


def next_due(schedule: Schedule, after_ms: int) -> int | None:
    """Return when the first tick after *after_ms* is due (ms), None when the schedule never ticks again."""
    tick = next(next_ticks(schedule, after_ms), None)
    return None if tick is None else due_at(schedule, tick)


def _due(schedule: Schedule, after_ms: int, now_ms: int, *, limit: int) -> tuple[list[int], int | None]:
    """Return the ticks after *after_ms* whose time has come, *limit* at most, and when the one after them is due, if any.

    A tick that its jitter holds back holds back those after it.
    """
    due: list[int] = []
    for tick in next_ticks(schedule, after_ms):
        at = due_at(schedule, tick)
        if at > now_ms or len(due) == limit:
            return due, at
        due.append(tick)
    return due, None


def _wanted(schedule: Schedule, due: list[int], now_ms: int) -> Iterator[int]:
    """Yield those of the *due* ticks that are to be caught up on."""
    late = schedule.catch_up.late
    for tick in due[-schedule.catch_up.cap :]:
        if late is None or now_ms - due_at(schedule, tick) <= late.total_seconds() * 1000:
            yield tick


@dataclass(slots=True)
class _Walk:
    """Goes from tick to tick, the oldest first, and remembers what becomes of each."""

    schedule: Schedule
    now_ms: int
    cursor: ScheduleCursor
    is_open: bool
    starts: list[int] = field(default_factory=list)
    entries: list[ScheduleEntry] = field(default_factory=list)

    def step(self, tick: int, *, wanted: bool, existing: Mapping[ExecutionId, bool]) -> bool:
        """Decide about *tick*; return whether it is decided, and does not wait for an earlier execution."""
        execution_id = execution_id_at(self.schedule, tick)
        if execution_id in existing:
            self._started(tick, execution_id, is_open=existing[execution_id] or self.is_open)
        elif not wanted:
            self._skipped(tick, self._why_unwanted())
        elif self.schedule.overlap == "queue" and self.is_open:
            return False
        elif self.schedule.overlap == "skip" and self.is_open:
            self._skipped(tick, "overlap")
        else:
            self.starts.append(tick)
            self._started(tick, execution_id, is_open=True)
        return True

    def _why_unwanted(self) -> SkipReason:
        if self.schedule.overlap == "queue" and self.is_open:
            return "overlap"  # others came while it waited
        return "cap" if self.schedule.catch_up.way == "all" else "catch-up"

    def decision(self, *, next_at: int | None) -> Decision:
        return Decision(starts=tuple(self.starts), entries=tuple(self.entries), cursor=self.cursor, next_at=next_at)

    def _started(self, tick: int, execution_id: ExecutionId, *, is_open: bool) -> None:
        self.is_open = is_open
        self.cursor = ScheduleCursor(tick, execution_id)
        self.entries.append(
            ScheduleEntry(tick_at=tick, until_at=tick, count=1, at=self.now_ms, execution_id=execution_id)
        )

    def _skipped(self, tick: int, reason: SkipReason) -> None:
        self.cursor = self.cursor._replace(at=tick)
        first, count = tick, 0
        if self.entries and self.entries[-1].reason == reason:
            last = self.entries.pop()
            first, count = last.tick_at, last.count
        self.entries.append(ScheduleEntry(tick_at=first, until_at=tick, count=count + 1, at=self.now_ms, reason=reason))
