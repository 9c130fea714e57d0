"""What adapters share that keep schedules in a table: how a row is read and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loom.spi.schedule_store import ScheduleEntry


def schedule_entry(found: Sequence[Any]) -> ScheduleEntry:
    """Return an entry whose columns are: tick_at, until_at, count, at, execution_id, reason."""
    tick_at, until_at, count, at, run, reason = found
    return ScheduleEntry(tick_at=tick_at, until_at=until_at, count=count, at=at, execution_id=run, reason=reason)


def entry_columns(entry: ScheduleEntry) -> tuple[object, ...]:
    """Return the columns of *entry*, in the order of `schedule_entry`."""
    return entry.tick_at, entry.until_at, entry.count, entry.at, entry.execution_id, entry.reason
