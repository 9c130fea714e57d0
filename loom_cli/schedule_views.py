"""Schedules and their records as JSON and as rows for people. Pure: what now is, the caller says.

People see times on the wall clock of the schedule's zone, for that is what its expression speaks of.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from loom.core.schedule import Schedule
from loom.services.ticks import due_at, execution_id_at, next_ticks
from loom.spi.schedule_store import ScheduleCursor, ScheduleEntry
from loom_cli.screen import Styled
from loom_cli.times import distance, duration


def schedule_json(schedule: Schedule, after_ms: int, count: int) -> dict[str, Any]:
    """Return *schedule* with the next *count* ticks after *after_ms*, in the shape of docs/reference/json.md."""
    late = schedule.catch_up.late
    return {
        "id": schedule.id,
        "flow": schedule.flow.id,
        "cron": schedule.cron,
        "tz": schedule.tz,
        "catch_up": schedule.catch_up.way,
        "cap": schedule.catch_up.cap,
        "late_s": late.total_seconds() if late is not None else None,
        "overlap": schedule.overlap,
        "jitter_s": schedule.jitter.total_seconds(),
        "next": [_tick_json(schedule, tick) for tick in islice(next_ticks(schedule, after_ms), count)],
    }


def record_json(cursor: ScheduleCursor | None, entries: Sequence[ScheduleEntry]) -> dict[str, Any]:
    """Return how far a schedule is handled and what became of its ticks."""
    return {"handled_at": cursor.at if cursor else None, "entries": [_entry_json(entry) for entry in entries]}


def _tick_json(schedule: Schedule, tick: int) -> dict[str, Any]:
    return {"tick_at": tick, "due_at": due_at(schedule, tick), "execution_id": execution_id_at(schedule, tick)}


def _entry_json(entry: ScheduleEntry) -> dict[str, Any]:
    return {
        "tick_at": entry.tick_at,
        "until_at": entry.until_at,
        "count": entry.count,
        "at": entry.at,
        "execution_id": entry.execution_id,
        "reason": entry.reason,
    }


def listed(schedule: Schedule, now_ms: int) -> tuple[str | Styled, ...]:
    """Return the cells of *schedule* in a list: id, flow, expression, zone, its next tick and how far that is."""
    tick = next(next_ticks(schedule, now_ms), None)
    following = (wall(tick, schedule), distance(due_at(schedule, tick), now_ms)) if tick is not None else ("never", "")
    return (schedule.id, schedule.flow.id, schedule.cron, schedule.tz, *following)


def upcoming(schedule: Schedule, after_ms: int, count: int, *, now_ms: int) -> list[tuple[str | Styled, ...]]:
    """Return a row for each of the next *count* ticks after *after_ms*."""
    return [
        (
            wall(tick, schedule),
            Styled(distance(due_at(schedule, tick), now_ms), "dim"),
            execution_id_at(schedule, tick),
        )
        for tick in islice(next_ticks(schedule, after_ms), count)
    ]


def became(schedule: Schedule, entry: ScheduleEntry) -> tuple[str | Styled, ...]:
    """Return the cells of an entry of the record: its ticks, what became of them, and which execution or why."""
    ticks = wall(entry.tick_at, schedule)
    if entry.count > 1:
        ticks += f" to {wall(entry.until_at, schedule)}"
    if entry.execution_id is None:
        return ticks, Styled(f"{entry.count} skipped" if entry.count > 1 else "skipped", "yellow"), entry.reason or ""
    return ticks, Styled("started", "green"), entry.execution_id


def policies(schedule: Schedule) -> list[tuple[str, str]]:
    """Return what the schedule does about missed, overlapping and simultaneous starts, each with its name."""
    jitter = round(schedule.jitter.total_seconds() * 1000)
    return [
        ("catch-up", str(schedule.catch_up)),
        ("overlap", schedule.overlap),
        ("jitter", f"up to {duration(jitter)}" if jitter else "none"),
    ]


def wall(at_ms: int, schedule: Schedule) -> str:
    """Return what the clock of the schedule's zone shows at *at_ms*, with its distance to UTC: it may show that twice."""
    shown = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(ZoneInfo(schedule.tz))
    return shown.isoformat(sep=" ", timespec="minutes")
