"""A log that grows, with the state after each of its events: what time travel goes by, in a terminal and in a page.

Used so: one `Moments` a run; `add` the events as they are read, page by page, and later as they happen; ask `state_at` and
`changes_at` for any number in between. A state is that of `fold_at`, and what differs is what `changes` tells.

One state in 64 is kept, and those between are folded again when asked for, some at a time: so a step costs as little in the
middle of a long log as at its end, and what is kept is little beside the events.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState, empty_state
from loom.driving.errors import LogCompacted
from loom.lenses.differing import Change, changes
from loom.lenses.folding import evolved, is_newer

Event = EventEnvelope[Any]

_EVERY: Final = 64
_BLOCKS_MAX: Final = 8


class Moments:
    """The events of one log so far, and the state after each.

    *base* is the state that stands for events which were moved away (see `StoredLog`): before it no state is known.
    """

    def __init__(self, run_id: ExecutionId, *, base: ExecutionState | None = None) -> None:
        self._base, self._now = base, base or empty_state(run_id)
        self._start = self._now
        self._events: list[Event] = []
        self._numbers: list[int] = []
        self._unfolded = 0
        self._kept: list[ExecutionState] = []
        self._blocks: dict[int, list[ExecutionState]] = {}
        self._newer_from: int | None = None
        self._rewritten: list[int] = []

    @property
    def events(self) -> Sequence[Event]:
        """All events that were added, in order."""
        return self._events

    @property
    def now(self) -> ExecutionState:
        """The state after the last event, that of *base* or of nothing before any was added."""
        return self._now

    @property
    def first(self) -> int:
        """The number of the first event after which the state is known."""
        return 0 if self._base is None else self._base.sequence

    @property
    def last(self) -> int:
        """The number of the last event, -1 before any was added."""
        return self._numbers[-1] if self._numbers else -1

    def add(self, events: Iterable[Event]) -> None:
        """Take what comes next of the log; what is known already is left out.

        Raises:
            LogCorrupt: an event does not fit those before it, which are taken.
        """
        for event in events:
            if event.sequence <= self.last:
                continue
            if self._base is None or event.sequence > self._base.sequence:
                self._fold(event)
            else:
                self._unfolded += 1
            self._events.append(event)
            self._numbers.append(event.sequence)

    def index(self, n: int) -> int:
        """Return the place of event number *n* among the events.

        Raises:
            IndexError: there is no such event.
        """
        at = bisect_left(self._numbers, n)
        if at == len(self._numbers) or self._numbers[at] != n:
            raise IndexError(n)
        return at

    def event(self, n: int) -> Event:
        """Return event number *n*.

        Raises:
            IndexError: there is none.
        """
        return self._events[self.index(n)]

    def state_at(self, n: int) -> ExecutionState:
        """Return the state once event number *n* has happened.

        Raises:
            IndexError: there is no event *n*.
            LogCompacted: it is before the base.
        """
        if self._base is not None and n <= self._base.sequence:
            if n == self._base.sequence:
                return self._base
            raise self._gone(n)
        at = self.index(n) - self._unfolded
        return self._block(at // _EVERY)[at % _EVERY]

    def changes_at(self, n: int, against: int | None = None) -> list[Change]:
        """Return what is different after event *n* from how it was after event *against* (None: the one before *n*).

        -1 is before anything happened.

        Raises:
            IndexError, LogCompacted: see `state_at`.
        """
        before = self._number_before(n) if against is None else against
        old = self._start if before < 0 and self._base is None else self.state_at(before)
        new = self.state_at(n)
        low, high = sorted((before, n))
        is_grown = bisect_right(self._rewritten, low) == bisect_right(self._rewritten, high)
        return changes(old, new, in_common=min(len(old.settled), len(new.settled)) if is_grown else 0)

    def _number_before(self, n: int) -> int:
        if n <= self.first:
            return n - 1
        at = self.index(n)
        return self._numbers[at - 1] if at > self._unfolded else self.first

    def _gone(self, n: int) -> LogCompacted:
        assert self._base is not None
        what = f"the state after event {n} is not known here"
        return LogCompacted(execution_id=self._base.execution_id, through=self._base.sequence, what=what)

    def _fold(self, event: Event) -> None:
        if self._newer_from is None and is_newer(event):
            self._newer_from = event.sequence
        after = evolved(self._now, event, forgiving=self._newer_from is not None)
        at = len(self._events) - self._unfolded
        if at % _EVERY == 0:
            self._kept.append(self._now)
        if after.settled is not self._now.settled and len(after.settled) != len(self._now.settled) + 1:
            self._rewritten.append(event.sequence)
        self._now = after

    def _block(self, number: int) -> list[ExecutionState]:
        """Return the states after the events of one block."""
        begin = self._unfolded + number * _EVERY
        events = self._events[begin : begin + _EVERY]
        block = self._blocks.pop(number, [])
        if len(block) < len(events):
            state = block[-1] if block else self._kept[number]
            block = [*block]
            for event in islice(events, len(block), None):
                forgiving = self._newer_from is not None and event.sequence >= self._newer_from
                state = evolved(state, event, forgiving=forgiving)
                block.append(state)
        self._blocks[number] = block
        if len(self._blocks) > _BLOCKS_MAX:
            del self._blocks[next(iter(self._blocks))]
        return block
