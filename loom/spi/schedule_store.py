"""Where schedules keep how far they are handled, and what became of each tick.

Any number of pollers share one store. Each reads the cursor, starts what is due under ids that are the same for all, and
moves the cursor by compare and set: of many one wins, and only its entries are on record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from loom.core.ids import ExecutionId, declared_name

SCHEDULE_STORE_SPI_VERSION: Final = "1.0.0"

ENTRIES_MAX: Final = 10_000
"""So many entries a schedule has on record, the newest: a week of minutes, a year of hours."""

SkipReason: TypeAlias = Literal["catch-up", "cap", "overlap"]
"""Why a tick was skipped: it was missed; more were missed than are caught up on; an earlier execution was open."""


def known_schedule(schedule_id: str) -> str:
    """Return *schedule_id*, which is a word; every store asks it first, so that all refuse the same.

    Raises:
        InvalidId: it is none; not every store could keep it.
    """
    return declared_name("schedule", schedule_id)


class ScheduleCursor(NamedTuple):
    """How far a schedule is handled: all its ticks up to and including *at*, in milliseconds since the epoch, UTC.

    *latest* is the execution that it started last, None when it has started none.
    """

    at: int
    latest: ExecutionId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEntry:
    """What became of a tick: *execution_id* was started for it, or it was skipped for a *reason*; the other is None.

    Ticks that were skipped in a row for one reason are one entry: *count* of them, from *tick_at* to *until_at*. *at* is
    when that was decided. All times are in milliseconds since the epoch, UTC.
    """

    tick_at: int
    until_at: int
    count: int
    at: int
    execution_id: ExecutionId | None = None
    reason: SkipReason | None = None


@runtime_checkable
class ScheduleStore(Protocol):
    """The cursors and the records of schedules, by the schedule's id.

    Raises (every method):
        InvalidId: the id is no word; see `known_schedule`.
    """

    async def schedule_cursor(self, schedule_id: str) -> ScheduleCursor | None:
        """Return how far a schedule is handled, None when it was never seen."""
        ...

    async def record_ticks(
        self,
        schedule_id: str,
        expected: ScheduleCursor | None,
        cursor: ScheduleCursor,
        *,
        entries: Sequence[ScheduleEntry],
    ) -> bool:
        """Move the cursor from *expected* (None: never seen) to *cursor* and add *entries*, all in one transaction.

        Of the entries of the schedule the newest `ENTRIES_MAX` are kept; older ones are removed in the same transaction.
        Return False, with nothing written, when the cursor stands elsewhere. *cursor* is later than *expected*; the
        entries lie between the two, in order. On return, what is written survives a crash of the machine.

        Raises:
            StoreUnavailable: it is not known to be written; the cursor tells.
        """
        ...

    async def schedule_entries(
        self, schedule_id: str, *, limit: int = 100, before: int | None = None
    ) -> Sequence[ScheduleEntry]:
        """Return up to *limit* entries, the newest first; with *before*, those with a smaller *tick_at* only."""
        ...
