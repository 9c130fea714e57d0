"""The lines in SQLite: the part of `SqliteStorage` that is an `AdmissionStore`. Each method is one transaction."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import orjson

from loom.core.ids import ExecutionId
from loom.spi import admitting
from loom.spi.admission_store import VOID_AFTER_MS, Admission, Pace, Quiet, Slots, Terms
from loom.spi.admitting import Entry, LogStand
from loom.spi.clock import Clock

P = ParamSpec("P")
T = TypeVar("T")

# A chain has ended when its last link has: the first is followed by what names it as its chain.
_OPEN: Final = """
    (EXISTS (SELECT 1 FROM executions WHERE id = lines.run AND ended = 0)
     OR EXISTS (SELECT 1 FROM executions WHERE chain = lines.run AND ended = 0))
"""
_IN_FORCE: Final = f"""
    ({_OPEN} OR (joined_at > :void
                 AND length = coalesce((SELECT length FROM executions WHERE id = lines.run), 0)))
"""  # noqa: S608  # our own text, here and below
_AWAKE: Final = "NOT EXISTS (SELECT 1 FROM executions WHERE id = lines.run AND status = 'paused')"
_COLUMNS: Final = """
    run, number, stage, length, joined_at, due_at, newer,
    quiet_line, quiet_ms, slot_line, slot_runs, pace_line, pace_runs, pace_ms
"""
_LOG: Final = """
    SELECT length, ended AND NOT EXISTS (SELECT 1 FROM executions AS link WHERE link.chain = :run AND link.ended = 0)
    FROM executions WHERE id = :run
"""
_ENTRIES: Final = f"SELECT {_COLUMNS} FROM lines"  # noqa: S608
_AMONG: Final = f"{_ENTRIES} WHERE run IN (SELECT value FROM json_each(:runs))"  # noqa: S608
_PUT: Final = f"INSERT OR REPLACE INTO lines ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_HELD: Final = f"""
    SELECT count(*) FROM lines WHERE slot_line = :line AND stage IN ('turn', 'begun') AND {_IN_FORCE}
"""  # noqa: S608
_WAITING: Final = f"""
    {_ENTRIES} WHERE slot_line = :line AND stage = 'line' AND {_AWAKE} AND {_IN_FORCE} ORDER BY number LIMIT :limit
"""
_WAITING_BEFORE: Final = f"""
    SELECT count(*) FROM lines WHERE slot_line = :line AND stage = 'line' AND number < :number AND {_IN_FORCE}
"""  # noqa: S608
_TURNS_BEFORE: Final = f"""
    SELECT count(*) FROM lines
    WHERE pace_line = :line AND stage = 'turn' AND number < :number AND {_AWAKE} AND {_IN_FORCE}
"""  # noqa: S608
_QUIET: Final = f"{_ENTRIES} WHERE quiet_line = :line AND stage = 'quiet' AND newer IS NULL AND {_IN_FORCE}"
_TURNS: Final = "SELECT at FROM turns WHERE line = :line AND at > :since ORDER BY at"
_CALL: Final = """
    UPDATE executions SET called = called + 1, called_at = coalesce(called_at, :now) WHERE id = :run AND ended = 0
"""
_OUT_OF_FORCE: Final = f"{_ENTRIES} WHERE NOT {_IN_FORCE} ORDER BY number LIMIT :limit"
_LINES_WITH_WAITING: Final = f"""
    SELECT waiting.slot_line
    FROM (SELECT slot_line, max(slot_runs) AS runs FROM lines
          WHERE slot_line IS NOT NULL AND stage = 'line' AND {_AWAKE} AND {_IN_FORCE} GROUP BY slot_line) AS waiting
    WHERE waiting.runs > (SELECT count(*) FROM lines
                          WHERE slot_line = waiting.slot_line AND stage IN ('turn', 'begun') AND {_IN_FORCE})
    LIMIT :limit
"""  # noqa: S608
_OVERSLEPT: Final = """
    SELECT lines.run FROM lines JOIN executions ON executions.id = lines.run
    WHERE due_at <= :now AND stage IN ('quiet', 'turn') AND status = 'suspended' AND driver IS NULL
      AND called_at IS NULL AND (wake_at IS NULL OR wake_at > :now)
    ORDER BY number LIMIT :limit
"""


class SqliteLines(ABC):
    """Keeps the lines; how a statement gets to the database is the storage's business."""

    @property
    @abstractmethod
    def clock(self) -> Clock:
        """The clock by which it is judged what is due."""

    @abstractmethod
    async def _read(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @abstractmethod
    async def _transact(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def join_lines(self, run: ExecutionId, terms: Terms, *, length: int, begins: bool = True) -> Admission | None:
        """Put a run at the end of its lines; see `AdmissionStore.join_lines`."""
        return await self._on_lines(lambda lines: admitting.join(lines, run, terms, length=length, begins=begins))

    async def admit(self, run: ExecutionId, terms: Terms, *, has_begun: bool = False) -> Admission:
        """Let a run begin if it may; see `AdmissionStore.admit`."""
        return await self._on_lines(lambda lines: admitting.admit(lines, run, terms, has_begun=has_begun))

    async def leave_lines(self, run: ExecutionId) -> Sequence[ExecutionId]:
        """Take a run out that has ended; see `AdmissionStore.leave_lines`."""
        return await self._on_lines(lambda lines: admitting.leave(lines, run))

    async def sweep_lines(self) -> Sequence[ExecutionId]:
        """Make up for what was cut off; see `AdmissionStore.sweep_lines`."""
        if not await self._read(lambda raw: _Lines(raw, self.clock).need_sweeping()):
            return []
        return await self._on_lines(admitting.sweep)

    async def admissions(self, runs: Sequence[ExecutionId]) -> Mapping[ExecutionId, Admission]:
        """Return how runs stand; see `AdmissionStore.admissions`."""
        return await self._read(lambda raw: _admissions(_Lines(raw, self.clock), runs))

    async def _on_lines(self, work: Callable[[_Lines], T]) -> T:
        return await self._transact(lambda raw: work(_Lines(raw, self.clock)))


class _Lines:
    """The lines within one transaction, as `admitting.Lines`."""

    def __init__(self, raw: sqlite3.Connection, clock: Clock) -> None:
        self._raw, self.now = raw, clock.now_ms()

    def entry(self, run: ExecutionId) -> Entry | None:
        return next(iter(self._entries(f"{_ENTRIES} WHERE run = :run", run=run)), None)

    def entries(self, runs: Sequence[ExecutionId]) -> Sequence[Entry]:
        return self._entries(_AMONG, runs=orjson.dumps(list(runs)).decode())

    def log(self, run: ExecutionId) -> LogStand | None:
        row = self._raw.execute(_LOG, {"run": run}).fetchone()
        return LogStand(row[0], bool(row[1])) if row else None

    def put(self, entry: Entry) -> None:
        self._raw.execute(_PUT, _row(entry))

    def drop(self, run: ExecutionId) -> None:
        self._raw.execute("DELETE FROM lines WHERE run = ?", (run,))

    def next_number(self) -> int:
        return int(self._one("SELECT coalesce(max(number), 0) + 1 FROM lines"))

    def held(self, line: str) -> int:
        return self._one(_HELD, line=line)

    def waiting(self, line: str, limit: int) -> Sequence[Entry]:
        return self._entries(_WAITING, line=line, limit=limit)

    def waiting_before(self, line: str, number: int) -> int:
        return self._one(_WAITING_BEFORE, line=line, number=number)

    def turns_before(self, line: str, number: int) -> int:
        return self._one(_TURNS_BEFORE, line=line, number=number)

    def quiet(self, line: str) -> Sequence[Entry]:
        return self._entries(_QUIET, line=line)

    def turns(self, line: str, since: int) -> Sequence[int]:
        return [at for (at,) in self._raw.execute(_TURNS, {"line": line, "since": since})]

    def begin(self, line: str, since: int) -> None:
        self._raw.execute("DELETE FROM turns WHERE line = ? AND at <= ?", (line, since))
        self._raw.execute("INSERT INTO turns (line, at) VALUES (?, ?)", (line, self.now))

    def call(self, run: ExecutionId) -> None:
        self._raw.execute(_CALL, {"run": run, "now": self.now})

    def out_of_force(self, limit: int) -> Sequence[Entry]:
        return self._entries(_OUT_OF_FORCE, limit=limit)

    def lines_with_waiting(self, limit: int) -> Sequence[str]:
        return [line for (line,) in self._raw.execute(_LINES_WITH_WAITING, {**self._times, "limit": limit})]

    def overslept(self, limit: int) -> Sequence[ExecutionId]:
        return [run for (run,) in self._raw.execute(_OVERSLEPT, {**self._times, "limit": limit})]

    def succeed(self, run: ExecutionId, newer: ExecutionId | None) -> None:
        self._raw.execute("UPDATE lines SET newer = ? WHERE newer = ?", (newer, run))

    def need_sweeping(self) -> bool:
        """Say whether a sweep would find something to do, so that most need no transaction that writes."""
        return bool(self.out_of_force(1) or self.lines_with_waiting(1) or self.overslept(1))

    @property
    def _times(self) -> dict[str, Any]:
        return {"now": self.now, "void": self.now - VOID_AFTER_MS}

    def _one(self, statement: str, **given: object) -> int:
        [value] = self._raw.execute(statement, {**self._times, **given}).fetchone()
        return int(value)

    def _entries(self, statement: str, **given: object) -> Sequence[Entry]:
        return [_entry(*row) for row in self._raw.execute(statement, {**self._times, **given})]


def _admissions(lines: _Lines, runs: Sequence[ExecutionId]) -> Mapping[ExecutionId, Admission]:
    return {entry.run: admitting.standing(lines, entry) for entry in lines.entries(runs)}


def _row(entry: Entry) -> tuple[object, ...]:
    quiet, slots, pace = entry.terms
    stands = (entry.run, entry.number, entry.stage, entry.length, entry.joined_at, entry.due_at, entry.newer)
    return (*stands, *(quiet or (None, None)), *(slots or (None, None)), *(pace or (None, None, None)))


def _entry(run: Any, number: int, stage: Any, length: int, *rest: Any) -> Entry:
    joined_at, due_at, newer, *parts = rest
    quiet = Quiet(*parts[:2]) if parts[0] is not None else None
    slots = Slots(*parts[2:4]) if parts[2] is not None else None
    pace = Pace(*parts[4:]) if parts[4] is not None else None
    return Entry(run, number, stage, Terms(quiet, slots, pace), length, joined_at, due_at, newer)
