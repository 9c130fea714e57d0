"""The rules of standing in line, for every store: what a transaction does once it can read and write the lines.

Pure but for the lines it is given. A store gives one object of `Lines` a transaction; the rules are decided here alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from loom.core.ids import ExecutionId
from loom.spi.admission_store import VOID_AFTER_MS, Admission, Pace, Stage, Terms

CALLED_MAX: Final = 1_000
"""So many lines one sweep settles, and so many runs it calls, at most."""


class Entry(NamedTuple):
    """Where a run stands in line. *number* is its place, *length* that of its log when it joined, *joined_at* the time.

    *due_at* is when it can go on by itself, *newer* who has taken its place.
    """

    run: ExecutionId
    number: int
    stage: Stage
    terms: Terms
    length: int
    joined_at: int
    due_at: int | None = None
    newer: ExecutionId | None = None


class LogStand(NamedTuple):
    """What the lines need to know of a log: its length, and whether its chain has ended."""

    length: int
    ended: bool


class Lines(Protocol):
    """What a store can do with its lines in a transaction at the time *now* (ms since the epoch).

    Those *in force* have not ended, or are about to be written; *asleep* is a parked run that nothing has called and whose
    time is not known to have come.
    """

    now: int

    def entry(self, run: ExecutionId) -> Entry | None: ...

    def log(self, run: ExecutionId) -> LogStand | None: ...

    def put(self, entry: Entry) -> None:
        """Write an entry in the place of the one that its run has."""
        ...

    def drop(self, run: ExecutionId) -> None: ...

    def next_number(self) -> int: ...

    def held(self, line: str) -> int:
        """Return how many in force hold a slot of *line*."""
        ...

    def waiting(self, line: str, limit: int) -> Sequence[Entry]:
        """Return the first in force that wait for a slot of *line* and are not paused."""
        ...

    def waiting_before(self, line: str, number: int) -> int: ...

    def turns_before(self, line: str, number: int) -> int:
        """Return how many in force that are not paused wait for their turn at the pace of *line*, before *number*."""
        ...

    def quiet(self, line: str) -> Sequence[Entry]:
        """Return those of *line* in their quiet time whose place nobody has taken."""
        ...

    def turns(self, line: str, since: int) -> Sequence[int]:
        """Return when runs of *line* began after *since*, in order."""
        ...

    def begin(self, line: str, since: int) -> None:
        """Note that one begins now, and forget those up to *since*."""
        ...

    def call(self, run: ExecutionId) -> None: ...

    def out_of_force(self, limit: int) -> Sequence[Entry]: ...

    def lines_with_waiting(self, limit: int) -> Sequence[str]:
        """Return lines that have somebody who waits for a slot, and fewer that hold one than the first of them wants."""
        ...

    def overslept(self, limit: int) -> Sequence[ExecutionId]:
        """Return who is asleep though its `due_at` has come."""
        ...

    def succeed(self, run: ExecutionId, newer: ExecutionId | None) -> None:
        """Have *newer* stand where *run* is noted as having taken somebody's place."""
        ...


def join(lines: Lines, run: ExecutionId, terms: Terms, *, length: int, begins: bool) -> Admission | None:
    """See `AdmissionStore.join_lines`."""
    log = lines.log(run)
    if (log.length if log else 0) != length:
        return None
    known = lines.entry(run)
    if known is not None and known.length == length and _is_trusted(lines, known):
        return _advanced(lines, known, begins=begins)
    entry = _joined(lines, run, terms, length)
    older = _succeeded(lines, entry)
    return _advanced(lines, entry, begins=begins)._replace(older=older)


def admit(lines: Lines, run: ExecutionId, terms: Terms, *, has_begun: bool) -> Admission:
    """See `AdmissionStore.admit`."""
    entry = lines.entry(run)
    if entry is None:
        log = lines.log(run)
        entry = _joined(lines, run, terms, log.length if log else 0)
        if has_begun:
            lines.put(entry._replace(stage="begun"))
            return Admission("begun")
    elif entry.stage != "begun":
        entry = entry._replace(terms=terms)
    return _advanced(lines, entry, begins=True)


def leave(lines: Lines, run: ExecutionId) -> list[ExecutionId]:
    """See `AdmissionStore.leave_lines`."""
    entry = lines.entry(run)
    if entry is None:
        return []
    lines.drop(run)
    return settle(lines, entry.terms.slots.line) if entry.terms.slots else []


def sweep(lines: Lines) -> list[ExecutionId]:
    """See `AdmissionStore.sweep_lines`."""
    for entry in lines.out_of_force(CALLED_MAX):
        if lines.log(entry.run) is None:
            lines.succeed(entry.run, entry.newer)
        lines.drop(entry.run)
    called = [run for line in lines.lines_with_waiting(CALLED_MAX) for run in settle(lines, line)]
    for run in lines.overslept(CALLED_MAX):
        lines.call(run)
        called.append(run)
    return called


def settle(lines: Lines, line: str, *, asking: ExecutionId | None = None) -> list[ExecutionId]:
    """Give the free slots of *line* to those who wait, in order, and call them all but who is *asking*."""
    held = lines.held(line)
    given: list[ExecutionId] = []
    while (first := next(iter(lines.waiting(line, 1)), None)) and held < _slots(first):
        for entry in lines.waiting(line, min(_slots(first) - held, CALLED_MAX)):
            if held >= _slots(entry):
                return given
            held += 1
            lines.put(entry._replace(stage="turn", due_at=lines.now))
            if entry.run != asking:
                lines.call(entry.run)
                given.append(entry.run)
    return given


def standing(lines: Lines, entry: Entry) -> Admission:
    """Return how *entry* stands, as it is."""
    match entry.stage:
        case "quiet":
            newer = entry.newer if entry.newer is not None and lines.log(entry.newer) is not None else None
            return Admission("quiet", entry.due_at, newer=newer)
        case "line":
            slots = entry.terms.slots
            return Admission("line", ahead=lines.waiting_before(slots.line, entry.number) if slots else 0)
        case "turn":
            ahead = lines.turns_before(entry.terms.pace.line, entry.number) if entry.terms.pace else 0
            return Admission("turn", entry.due_at, ahead)
        case "begun":
            return Admission("begun")


def _joined(lines: Lines, run: ExecutionId, terms: Terms, length: int) -> Entry:
    stage: Stage = "quiet" if terms.quiet else "line"
    return Entry(run, lines.next_number(), stage, terms, length, lines.now)


def _succeeded(lines: Lines, entry: Entry) -> tuple[ExecutionId, ...]:
    """Take the place of all who are in their quiet time."""
    quiet = entry.terms.quiet
    before = lines.quiet(quiet.line) if quiet else ()
    older = [each for each in before if each.run != entry.run and (each.due_at or 0) > lines.now]
    for each in older:
        lines.put(each._replace(newer=entry.run))
    return tuple(each.run for each in older)


def _advanced(lines: Lines, entry: Entry, *, begins: bool) -> Admission:
    """Let *entry* pass the stages that it can, write it, and return how it stands."""
    if entry.stage == "begun":
        return Admission("begun")
    if entry.stage == "quiet":
        entry = _after_quiet(lines, entry)
    if entry.stage == "line":
        entry = _in_line(lines, entry)
    if entry.stage == "turn":
        entry = _at_its_turn(lines, entry, begins=begins)
    lines.put(entry)
    return standing(lines, entry)


def _after_quiet(lines: Lines, entry: Entry) -> Entry:
    quiet = entry.terms.quiet
    while entry.newer is not None:
        newer = lines.entry(entry.newer)
        if lines.log(entry.newer) is not None:
            return entry
        if newer is not None and _is_trusted(lines, newer):
            return entry._replace(due_at=newer.joined_at + VOID_AFTER_MS)
        entry = entry._replace(newer=newer.newer if newer else None)  # it was never written
    due_at = entry.joined_at + quiet.wait_ms if quiet else lines.now
    if due_at > lines.now:
        return entry._replace(due_at=due_at)
    return entry._replace(stage="line", due_at=None)


def _in_line(lines: Lines, entry: Entry) -> Entry:
    if entry.terms.slots is None:
        return entry._replace(stage="turn", due_at=lines.now)
    lines.put(entry)
    settle(lines, entry.terms.slots.line, asking=entry.run)
    return lines.entry(entry.run) or entry


def _at_its_turn(lines: Lines, entry: Entry, *, begins: bool) -> Entry:
    pace = entry.terms.pace
    due_at = _turn_at(lines, pace, entry.number) if pace else lines.now
    if due_at > lines.now or not begins:
        return entry._replace(due_at=due_at)
    if pace:
        lines.begin(pace.line, lines.now - pace.per_ms)
    return entry._replace(stage="begun", due_at=None)


def _turn_at(lines: Lines, pace: Pace, number: int) -> int:
    """Return when the run with *number* may begin if all who wait before it begin as soon as they may.

    A turn comes no earlier than *per_ms* after the turn which is *runs* before it, those ahead included.
    """
    began = lines.turns(pace.line, lines.now - pace.per_ms)
    ahead = lines.turns_before(pace.line, number)
    rounds, first = divmod(ahead, pace.runs)
    place = len(began) + first - pace.runs  # of the turn that the one in the first round comes after
    at = lines.now if place < 0 else max(lines.now, began[place] + pace.per_ms)
    return at + rounds * pace.per_ms


def _slots(entry: Entry) -> int:
    return entry.terms.slots.runs if entry.terms.slots else 0


def _is_trusted(lines: Lines, entry: Entry) -> bool:
    """Whether the run of *entry* may still be written."""
    log = lines.log(entry.run)
    return (log.length if log else 0) == entry.length and entry.joined_at + VOID_AFTER_MS > lines.now
