"""What a timeline draws of a log: a row an event, its lane, the call it belongs to, and each call's attempts and times.

Used so: one `Timeline` a run; `add` the events as they are read, and later as they happen. `rows[i]` is the i-th event of the
log, `calls[start]` the call that event number *start* asked, `lanes[k]` the branch that a row or a call stands in: lane 0 is the
flow itself. What a call looks like at some event is `call_status` of it and of the state there, so that a timeline can be
drawn as it stood at any event. `sifting.py` finds rows.

Nothing is read off a log when a branch has ended. A lane has a column of its own from the first event in it until the flow
above it goes on; then the column is free for another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from loom.core.envelope import EDITED, EventEnvelope
from loom.core.identity import scope_of
from loom.core.json import JsonObject
from loom.core.state import TERMINAL, ExecutionState
from loom.lenses.execution import CallKind, CallStatus, kind_of, open_status, settled_status
from loom.lenses.folding import legible

Event = EventEnvelope[Any]
CallStatusAt: TypeAlias = CallStatus | Literal["ahead", "void"]
"""Of a call at some event: also that it is not asked yet, or is as if it had never been."""

COLUMNS_MAX: Final = 64
"""So many lanes have columns at a time; the others have none (-1)."""
_FREE: Final = -1
_FAILURES: Final = frozenset(
    {
        "EXECUTION_DENIED",
        "EXECUTION_DIVERGED",
        "EFFECT_INDOUBT",
        "GATE_TIMED_OUT",
        "MESSAGE_TIMED_OUT",
        "SCOPE_CUT",
        "SCOPE_TIMED_OUT",
    }
)
"""Events that tell of something gone wrong without holding a failure."""
_AT_ONCE: Final = frozenset({"scope", "decision", "stream", "event"})
"""Calls that are settled by the event that asks them."""
_ENDS: Final = frozenset(f"EXECUTION_{status.upper()}" for status in TERMINAL)


class Lane(NamedTuple):
    """One branch of a run: its *path* as identities begin with it ("" is the flow), and the number of its first event."""

    path: str
    depth: int
    first: int


class Attempt(NamedTuple):
    """One attempt of a step: its *number* from 1, when it began and ended (ms since the epoch), the events that tell of it.

    *end* and *ended_at* are None while it runs; *failure* is how it failed, None where it did not.
    """

    number: int
    start: int
    began_at: int
    end: int | None = None
    ended_at: int | None = None
    failure: Mapping[str, Any] | None = None


class Outcome(NamedTuple):
    """How a call ended, with which event and when (ms since the epoch). One that is tried again later ends more than once.

    *since* is the event from which on that is so: later than the end where a retry opened a scope again that had been cut.
    """

    since: int
    end: int
    at: int
    status: CallStatus


class Call(NamedTuple):
    """One call of the flow: what event number *start* asked at *asked_at* (ms since the epoch), and all that came of it."""

    start: int
    id: str
    kind: CallKind
    type: str
    lane: int
    depth: int
    asked_at: int
    attempts: tuple[Attempt, ...] = ()
    outcomes: tuple[Outcome, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the identity: name and tag."""
        return self.id.rpartition("/")[2]

    def outcome_at(self, n: int) -> Outcome | None:
        """Return how it had ended once event *n* had happened, None: not yet."""
        return next((outcome for outcome in reversed(self.outcomes) if outcome.since <= n), None)

    def attempts_at(self, n: int) -> list[Attempt]:
        """Return its attempts as they stood once event *n* had happened."""
        begun = [attempt for attempt in self.attempts if attempt.start <= n]
        return [
            attempt
            if attempt.end is None or attempt.end <= n
            else attempt._replace(end=None, ended_at=None, failure=None)
            for attempt in begun
        ]


class Row(NamedTuple):
    """One event as a line of a timeline.

    *call* is the start of the call that it belongs to, None for the run's own events; *live* has the lane of each column after
    this event (-1: none), *column* that of its own lane. *took* is for how long the call, or the attempt, that it ends went on, in ms.
    """

    sequence: int
    type: str
    at: int
    call: int | None
    lane: int
    column: int
    live: tuple[int, ...]
    is_failure: bool
    took: int | None = None
    attempt: int | None = None


class Timeline:
    """The rows, calls and lanes of one log so far."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.calls: dict[int, Call] = {}
        self.lanes: list[Lane] = [Lane("", 0, 0)]
        self._by_path = {"": 0}
        self._by_id: dict[str, int] = {}
        self._columns = _Columns()
        self._open: dict[int, set[int]] = {}
        self._next: dict[int, tuple[int, int]] = {}
        self._failures: list[int] = []
        self._times: list[int] = []

    def add(self, events: Iterable[Event]) -> None:
        """Take what comes next of the log."""
        for event in map(legible, events):
            self.rows.append(self._row(event))
            self._times.append(event.at)
            if self.rows[-1].is_failure:
                self._failures.append(len(self.rows) - 1)

    def failure(self, index: int, *, back: bool = False) -> int | None:
        """Return the index of the next row after (*back*: before) *index* that tells of something gone wrong."""
        at = bisect_right(self._failures, index - back)
        if back:
            return self._failures[at - 1] if at else None
        return self._failures[at] if at < len(self._failures) else None

    def at_time(self, at: int) -> int:
        """Return the index of the last row at *at* (ms since the epoch) or before; 0 where there is none."""
        return max(bisect_right(self._times, at) - 1, 0)

    def named(self, text: str) -> list[Call]:
        """Return the calls that *text* means: by identity, or by its last part with or without the tag; the first asked first."""
        if text in self._by_id:
            return [self.calls[self._by_id[text]]]
        return [call for call in self.calls.values() if is_about(call.id, text)]

    def _row(self, event: Event) -> Row:
        payload = event.payload
        begun = getattr(payload, "id", None) if hasattr(payload, "ordinal") else None
        start: int | None = event.sequence if begun is not None else getattr(payload, "start", None)
        took = attempt = None
        if begun is not None:
            self._begin(event, begun)
        elif start is not None and start in self.calls:
            took, attempt = self._go_on(event, self.calls[start])
            took = None if EDITED in event.metadata else took
        else:
            start = None
            self._of_the_run(event)
        lane = self.calls[start].lane if start is not None else 0
        column = self._columns.of(lane)
        failed = getattr(payload, "failure", None) is not None or event.type in _FAILURES
        return Row(event.sequence, event.type, event.at, start, lane, column, self._columns.live, failed, took, attempt)

    def _begin(self, event: Event, id: str) -> None:
        lane = self._lane(scope_of(id), event.sequence)
        kind = kind_of(event.type)
        call = Call(event.sequence, id, kind, event.type, lane, self.lanes[lane].depth, event.at)
        if kind == "step":
            call = call._replace(attempts=(Attempt(1, event.sequence, event.at),))
        elif kind in _AT_ONCE:
            call = call._replace(outcomes=(Outcome(event.sequence, event.sequence, event.at, settled_status(event)),))
        self.calls[event.sequence] = call
        self._by_id[id] = event.sequence
        if not call.outcomes:
            self._open.setdefault(lane, set()).add(event.sequence)
        self._columns.free(self._below(self.lanes[lane].path, idle=True))
        self._columns.take(lane)

    def _lane(self, path: str, first: int) -> int:
        if path not in self._by_path:
            self._by_path[path] = len(self.lanes)
            self.lanes.append(Lane(path, path.count("/") // 2, first))
        return self._by_path[path]

    def _below(self, path: str, *, idle: bool) -> list[int]:
        """Return the lanes with a column that are below *path*; *idle*: of these, where nothing stands open."""
        lanes = [lane for lane in self._columns.live if lane > 0]
        below = [lane for lane in lanes if self.lanes[lane].path.startswith(path) and self.lanes[lane].path != path]
        return [lane for lane in below if not (idle and self._open.get(lane))]

    def _go_on(self, event: Event, call: Call) -> tuple[int | None, int | None]:
        """Take an event of *call*; return how long what it ends went on, and the number of its attempt."""
        match event.type:
            case "STEP_ATTEMPTED":
                begun = Attempt(event.payload.attempt, event.sequence, event.at)
                self.calls[call.start] = call._replace(attempts=(*call.attempts, begun))
                return None, begun.number
            case "STEP_ATTEMPT_FAILED":
                ended = self._ended(call, event)
                self._next[call.start] = ended.number + 1, event.payload.due_at
                return event.at - ended.began_at, ended.number
            case "EFFECT_INDOUBT" | "OUTCOME_ATTACHED":
                return None, None
            case "EFFECT_RESOLVED" if event.payload.verdict == "retry":
                return None, None
            case "SCOPE_CLOSED" | "SCOPE_CUT" | "SCOPE_TIMED_OUT":
                self._cut(call, frozenset(event.payload.shielded or ()))
        if call.kind == "step":
            self._ended(call, event)
        self._open.get(call.lane, set()).discard(call.start)
        outcome = Outcome(event.sequence, event.sequence, event.at, settled_status(event))
        call = self.calls[call.start]
        self.calls[call.start] = call._replace(outcomes=(*call.outcomes, outcome))
        return event.at - call.asked_at, None

    def _ended(self, call: Call, event: Event) -> Attempt:
        """End the attempt of *call* that runs; one whose begin was not told began when it was due."""
        *before, last = call.attempts
        if last.end is not None:
            number, due_at = self._next.get(call.start, (last.number + 1, event.at))
            before, last = [*before, last], Attempt(number, event.sequence, min(due_at, event.at))
        failure = getattr(event.payload, "failure", None)
        ended = last._replace(end=event.sequence, ended_at=event.at, failure=failure)
        self.calls[call.start] = call._replace(attempts=(*before, ended))
        return ended

    def _cut(self, scope: Call, shielded: frozenset[int]) -> None:
        """Take that *scope* ended early: nobody waits any more for what stands open below it."""
        below = self._below(f"{scope.id}/", idle=False)
        for lane in below:
            self._open.get(lane, set()).intersection_update(shielded)
        self._columns.free([lane for lane in below if not self._open.get(lane)])

    def _of_the_run(self, event: Event) -> None:
        for start in getattr(event.payload, "void", None) or ():
            if (call := self.calls.get(start)) is not None:
                self._open.get(call.lane, set()).discard(start)
        for start in getattr(event.payload, "reopened", None) or ():
            if (call := self.calls.get(start)) is not None:
                self._open.setdefault(call.lane, set()).add(start)
                self._next[start] = 1, event.at
        for start in getattr(event.payload, "cuts", None) or ():
            if (call := self.calls.get(start)) is not None:
                opened = Outcome(event.sequence, call.start, call.asked_at, "done")
                self.calls[start] = call._replace(outcomes=(*call.outcomes, opened))
        if event.type in _ENDS:
            self._columns.free(self._below("", idle=False))


class _Columns:
    """Which lane stands in which column: the flow in the first, each other in the first that is free, or in that it had."""

    def __init__(self) -> None:
        self.live: tuple[int, ...] = (0,)
        self._had: dict[int, int] = {0: 0}

    def of(self, lane: int) -> int:
        """Return the column of *lane*, -1: it has none."""
        column = self._had.get(lane, _FREE)
        return column if column < len(self.live) and self.live[column] == lane else _FREE

    def take(self, lane: int) -> None:
        if self.of(lane) != _FREE:
            return
        live = [*self.live, _FREE]
        column = self._had.get(lane, _FREE)
        if not (0 <= column < len(live) and live[column] == _FREE):
            column = live.index(_FREE)
        if column < COLUMNS_MAX:
            live[column] = lane
            self._had[lane] = column
            self._set(live)

    def free(self, lanes: Sequence[int]) -> None:
        if lanes:
            self._set([_FREE if lane in lanes else lane for lane in self.live])

    def _set(self, live: list[int]) -> None:
        while live[-1] == _FREE:
            live.pop()
        self.live = tuple(live)


def call_status(call: Call, state: ExecutionState) -> CallStatusAt:
    """Return how *call* stood where *state* is the state of its run, at any event."""
    if state.sequence < call.start:
        return "ahead"
    if (start := state.open.get(call.start)) is not None:
        return open_status(state, legible(start))
    outcome = call.outcome_at(state.sequence)
    return outcome.status if outcome is not None else "void"


def is_about(identity: str, text: str) -> bool:
    """Tell whether *text* means the call *identity*: in full, without the scopes it stands in, or without its tag too."""
    name = identity.rpartition("/")[2]
    return text in (identity, name, name.partition("#")[0]) or identity.endswith(f"/{text}")


def row_json(row: Row) -> JsonObject:
    """Return *row* as JSON."""
    return {**row._asdict(), "live": list(row.live)}


def call_json(call: Call, state: ExecutionState) -> JsonObject:
    """Return *call* as JSON, as it stood where *state* is the state of its run."""
    outcome = call.outcome_at(state.sequence) if call.start not in state.open else None
    return {
        "start": call.start,
        "id": call.id,
        "name": call.name,
        "kind": call.kind,
        "type": call.type,
        "lane": call.lane,
        "depth": call.depth,
        "status": call_status(call, state),
        "asked_at": call.asked_at,
        "end": outcome.end if outcome is not None else None,
        "ended_at": outcome.at if outcome is not None else None,
        "attempts": [attempt._asdict() for attempt in call.attempts_at(state.sequence)],
    }
