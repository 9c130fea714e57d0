"""The lines in memory: the part of `MemoryStorage` that is an `AdmissionStore`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from loom.core.ids import ExecutionId
from loom.spi import admitting
from loom.spi.admission_store import VOID_AFTER_MS, Admission, Terms
from loom.spi.admitting import Entry, LogStand
from loom.spi.memory_logs import Log, Logs


@dataclass(slots=True)
class Kept:
    """All lines of a store: who stands in them, when runs began by what counts them, and how many ever joined."""

    entries: dict[ExecutionId, Entry] = field(default_factory=dict)
    turns: dict[str, list[int]] = field(default_factory=dict)
    joined: int = 0


class MemoryLines:
    """An `AdmissionStore` that forgets everything with the object."""

    _kept: Logs

    def __init__(self) -> None:
        self._standing = Kept()

    async def join_lines(self, run: ExecutionId, terms: Terms, *, length: int, begins: bool = True) -> Admission | None:
        """Put a run at the end of its lines; see `AdmissionStore.join_lines`."""
        return admitting.join(self._lines(), run, terms, length=length, begins=begins)

    async def admit(self, run: ExecutionId, terms: Terms, *, has_begun: bool = False) -> Admission:
        """Let a run begin if it may; see `AdmissionStore.admit`."""
        return admitting.admit(self._lines(), run, terms, has_begun=has_begun)

    async def leave_lines(self, run: ExecutionId) -> Sequence[ExecutionId]:
        """Take a run out that has ended; see `AdmissionStore.leave_lines`."""
        return admitting.leave(self._lines(), run)

    async def sweep_lines(self) -> Sequence[ExecutionId]:
        """Make up for what was cut off; see `AdmissionStore.sweep_lines`."""
        return admitting.sweep(self._lines())

    async def admissions(self, runs: Sequence[ExecutionId]) -> Mapping[ExecutionId, Admission]:
        """Return how runs stand; see `AdmissionStore.admissions`."""
        lines = self._lines()
        entries = {run: entry for run in runs if (entry := lines.entry(run))}
        return {run: admitting.standing(lines, entry) for run, entry in entries.items()}

    def _lines(self) -> _Lines:
        return _Lines(self._standing, self._kept)


class _Lines:
    """The lines of one store, as `admitting.Lines`."""

    def __init__(self, kept: Kept, logs: Logs) -> None:
        self._kept, self._entries, self._logs = kept, kept.entries, logs
        self.now = logs.clock.now_ms()

    def entry(self, run: ExecutionId) -> Entry | None:
        return self._entries.get(run)

    def log(self, run: ExecutionId) -> LogStand | None:
        log, tip = self._logs.by_id.get(run), self._logs.tip(run)
        return LogStand(log.length, ended=(tip or log).index.ended) if log else None

    def put(self, entry: Entry) -> None:
        self._entries[entry.run] = entry

    def drop(self, run: ExecutionId) -> None:
        self._entries.pop(run, None)

    def next_number(self) -> int:
        self._kept.joined += 1
        return self._kept.joined

    def held(self, line: str) -> int:
        return len([each for each in self._of_slots(line) if each.stage in ("turn", "begun")])

    def waiting(self, line: str, limit: int) -> Sequence[Entry]:
        waiting = [each for each in self._of_slots(line) if each.stage == "line" and not self._is_paused(each)]
        return sorted(waiting, key=_number)[:limit]

    def waiting_before(self, line: str, number: int) -> int:
        return len([each for each in self._of_slots(line) if each.stage == "line" and each.number < number])

    def turns_before(self, line: str, number: int) -> int:
        turns = (each for each in self._in_force() if each.stage == "turn" and each.number < number)
        return len([each for each in turns if _pace_line(each) == line and not self._is_paused(each)])

    def quiet(self, line: str) -> Sequence[Entry]:
        quiet = [each for each in self._in_force() if each.stage == "quiet" and each.newer is None]
        return [each for each in quiet if each.terms.quiet is not None and each.terms.quiet.line == line]

    def turns(self, line: str, since: int) -> Sequence[int]:
        turns = self._kept.turns.get(line, [])
        return turns[bisect_right(turns, since) :]

    def begin(self, line: str, since: int) -> None:
        self._kept.turns[line] = [*self.turns(line, since), self.now]

    def call(self, run: ExecutionId) -> None:
        log = self._logs.by_id.get(run)
        if log is not None and not log.index.ended:
            self._logs.call(log, log.called + 1)

    def out_of_force(self, limit: int) -> Sequence[Entry]:
        return [each for each in self._entries.values() if not self._is_in_force(each)][:limit]

    def lines_with_waiting(self, limit: int) -> Sequence[str]:
        slots = (each.terms.slots for each in self._in_force() if each.stage == "line" and not self._is_paused(each))
        lines = dict.fromkeys(each.line for each in slots if each is not None and self.held(each.line) < each.runs)
        return list(lines)[:limit]

    def overslept(self, limit: int) -> Sequence[ExecutionId]:
        return [each.run for each in self._entries.values() if self._has_overslept(each)][:limit]

    def succeed(self, run: ExecutionId, newer: ExecutionId | None) -> None:
        for each in [each for each in self._entries.values() if each.newer == run]:
            self.put(each._replace(newer=newer))

    def _in_force(self) -> Iterator[Entry]:
        return (each for each in self._entries.values() if self._is_in_force(each))

    def _of_slots(self, line: str) -> Iterator[Entry]:
        return (each for each in self._in_force() if each.terms.slots is not None and each.terms.slots.line == line)

    def _is_in_force(self, entry: Entry) -> bool:
        log = self.log(entry.run)
        if log is not None and not log.ended:
            return True
        return (log.length if log else 0) == entry.length and entry.joined_at + VOID_AFTER_MS > self.now

    def _is_paused(self, entry: Entry) -> bool:
        log = self._logs.by_id.get(entry.run)
        return log is not None and log.index.status == "paused"

    def _has_overslept(self, entry: Entry) -> bool:
        log = self._logs.by_id.get(entry.run)
        if log is None or entry.stage == "begun" or entry.due_at is None or entry.due_at > self.now:
            return False
        return _is_asleep(log, self.now)


def _is_asleep(log: Log, now: int) -> bool:
    if log.index.status != "suspended" or log.driver or log.called_at is not None:
        return False
    return log.index.wake_at is None or log.index.wake_at > now


def _number(entry: Entry) -> int:
    return entry.number


def _pace_line(entry: Entry) -> str | None:
    return entry.terms.pace.line if entry.terms.pace else None
