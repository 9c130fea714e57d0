"""What is known of the log that is looked at: its events, the state at each, its timeline, and what a search finds. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Final

from loom.core.envelope import EventEnvelope
from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState
from loom.driving.errors import LogCompacted
from loom.kernel.errors import LogCorrupt
from loom.lenses.differing import Change
from loom.lenses.execution import CallKind
from loom.lenses.moments import Moments
from loom.lenses.sifting import Sift, fits
from loom.lenses.timeline import Call, Row, Timeline

Event = EventEnvelope[Any]

LARGE: Final = 20_000
"""A comparison of states that are so many events apart is not made in passing."""


class OpenLog:
    """One log, as far as it was read. An event is meant by its place in the log here, the *index* of its row."""

    def __init__(self, run_id: ExecutionId, *, base: ExecutionState | None = None) -> None:
        self.run_id = run_id
        self.moments, self.timeline = Moments(run_id, base=base), Timeline()
        self.total = 0
        """The number of events that there are to read."""
        self.is_read = False
        """Whether all that was there when it was opened has been read."""
        self.problem: LoomError | None = None
        """Why no more of it can be read."""
        self._by_kind: dict[CallKind, list[int]] = {}
        self._marked: list[int] = []
        self.matches: list[int] = []
        """The indices of the rows that are what is looked for, in order, as far as it was looked."""
        self.sift = Sift()
        self.sifted = 0
        """So many rows were looked through."""

    @property
    def rows(self) -> Sequence[Row]:
        return self.timeline.rows

    def add(self, events: Iterable[Event]) -> None:
        """Take what comes next. What does not fit ends it, and is told in `problem`."""
        known = len(self.moments.events)
        try:
            self.moments.add(events)
        except LogCorrupt as error:
            self.problem = error
        self.timeline.add(self.moments.events[known:])
        for row in self.timeline.rows[known:]:
            if row.call == row.sequence:
                self._by_kind.setdefault(self.timeline.calls[row.sequence].kind, []).append(row.sequence)
        self.total = max(self.total, len(self.rows))

    def event(self, index: int) -> Event:
        return self.moments.events[index]

    def index(self, n: int) -> int:
        """Return the index of event number *n*, or of the first one after it that is there."""
        return min(bisect_left(self.rows, n, key=lambda row: row.sequence), max(len(self.rows) - 1, 0))

    def require_known(self, n: int) -> None:
        """Refuse the number of an event that was moved away, whatever of it was kept.

        Raises:
            LogCompacted: it was.
        """
        if n < self.moments.first or self.rows[self.index(n)].sequence != n:
            what = f"event {n} is not known here"
            raise LogCompacted(execution_id=self.run_id, through=self.moments.first, what=what)

    def state(self, index: int) -> ExecutionState | None:
        """Return the state after an event; None where it was moved away."""
        try:
            return self.moments.state_at(self.rows[index].sequence)
        except LogCompacted:
            return None

    def changes(self, index: int, against: int | None) -> list[Change] | None:
        """Return what is different after an event from after another (None: the one before); None: one of the two is not known."""
        mark = None if against is None else self.rows[against].sequence
        try:
            return self.moments.changes_at(self.rows[index].sequence, mark)
        except (LogCompacted, IndexError):
            return None

    def call(self, index: int) -> Call | None:
        """Return the call that an event belongs to."""
        start = self.rows[index].call
        return None if start is None else self.timeline.calls[start]

    def calls(self, kind: CallKind, upto: int, limit: int) -> list[Call]:
        """Return the last *limit* calls of a kind that were asked up to event number *upto*, the newest first."""
        starts = self._by_kind.get(kind, [])
        end = bisect_right(starts, upto)
        return [self.timeline.calls[start] for start in reversed(starts[max(end - limit, 0) : end])]

    def count(self, kind: CallKind, upto: int) -> int:
        """Return how many calls of a kind were asked up to event number *upto*."""
        return bisect_right(self._by_kind.get(kind, []), upto)

    # -- searching -----------------------------------------------------------------------------------------------

    def look_for(self, sift: Sift) -> None:
        """Begin to look for something else."""
        self.sift, self.matches, self.sifted = sift, [], 0

    def sift_some(self, count: int) -> bool:
        """Look through *count* more rows; return whether there are more to look through."""
        if not self.sift.terms:
            return False
        last = min(self.sifted + count, len(self.rows))
        for index in range(self.sifted, last):
            if fits(self.sift, self.timeline, self.rows[index], self.event(index)):
                self.matches.append(index)
        self.sifted = last
        return last < len(self.rows)

    def match(self, index: int, *, back: bool = False) -> int | None:
        """Return the next row after (*back*: before) *index* that is what is looked for, going round at the end."""
        if not self.matches:
            return None
        if back:
            at = bisect_left(self.matches, index)
            return self.matches[at - 1]
        at = bisect_right(self.matches, index)
        return self.matches[at % len(self.matches)]
