"""The lines in Postgres: the part of `PostgresStorage` that is an `AdmissionStore`. Each method is one transaction.

Who changes the lines holds an advisory lock of the transaction, so that a place in line is given once. The rules
(`loom.spi.admitting`) are plain functions that ask as they go, so they run in a thread, and what they ask is answered here.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from loom.core.ids import ExecutionId
from loom.plugins.postgres.session import Raw
from loom.plugins.postgres.settings import PostgresSettings
from loom.plugins.postgres.writing import key_bytes, key_text
from loom.spi import admitting
from loom.spi.admission_store import VOID_AFTER_MS, Admission, Pace, Quiet, Slots, Terms
from loom.spi.admitting import Entry, LogStand

T = TypeVar("T")

LOCK_KEY: Final = 0x4C696E65  # "Line"
_LOCK: Final = "SELECT pg_advisory_xact_lock($1)"
# A chain has ended when its last link has: the first is followed by what names it as its chain.
_OPEN: Final = """
    (EXISTS (SELECT FROM loom.executions AS e WHERE e.id = l.run AND NOT e.ended)
     OR EXISTS (SELECT FROM loom.executions AS e WHERE e.chain = l.run AND NOT e.ended))
"""
_IN_FORCE: Final = f"""
    ({_OPEN} OR (l.joined_at > :void
                 AND l.length = coalesce((SELECT e.length FROM loom.executions AS e WHERE e.id = l.run), 0)))
"""  # noqa: S608  # our own text, here and below
_AWAKE: Final = "NOT EXISTS (SELECT FROM loom.executions AS e WHERE e.id = l.run AND e.status = 'paused')"
_COLUMNS: Final = """
    run, number, stage, length, joined_at, due_at, newer,
    quiet_line, quiet_ms, slot_line, slot_runs, pace_line, pace_runs, pace_ms
"""
_LOG: Final = """
    SELECT e.length, e.ended AND NOT EXISTS (SELECT FROM loom.executions AS k WHERE k.chain = :run AND NOT k.ended)
    FROM loom.executions AS e WHERE e.id = :run
"""
_ENTRIES: Final = f"SELECT {_COLUMNS} FROM loom.lines AS l"  # noqa: S608
_PUT: Final = f"""
    INSERT INTO loom.lines ({_COLUMNS})
    VALUES (:run, :number, :stage, :length, :joined_at, :due_at, :newer,
            :quiet_line, :quiet_ms, :slot_line, :slot_runs, :pace_line, :pace_runs, :pace_ms)
    ON CONFLICT (run) DO UPDATE SET
        number = :number, stage = :stage, length = :length, joined_at = :joined_at, due_at = :due_at, newer = :newer,
        quiet_line = :quiet_line, quiet_ms = :quiet_ms, slot_line = :slot_line, slot_runs = :slot_runs,
        pace_line = :pace_line, pace_runs = :pace_runs, pace_ms = :pace_ms
"""  # noqa: S608
_HELD: Final = f"""
    SELECT count(*) FROM loom.lines AS l WHERE slot_line = :line AND stage IN ('turn', 'begun') AND {_IN_FORCE}
"""  # noqa: S608
_WAITING: Final = f"""
    {_ENTRIES} WHERE slot_line = :line AND stage = 'line' AND {_AWAKE} AND {_IN_FORCE} ORDER BY number LIMIT :limit
"""
_WAITING_BEFORE: Final = f"""
    SELECT count(*) FROM loom.lines AS l
    WHERE slot_line = :line AND stage = 'line' AND number < :number AND {_IN_FORCE}
"""  # noqa: S608
_TURNS_BEFORE: Final = f"""
    SELECT count(*) FROM loom.lines AS l
    WHERE pace_line = :line AND stage = 'turn' AND number < :number AND {_AWAKE} AND {_IN_FORCE}
"""  # noqa: S608
_QUIET: Final = f"{_ENTRIES} WHERE quiet_line = :line AND stage = 'quiet' AND newer IS NULL AND {_IN_FORCE}"
_TURNS: Final = "SELECT at FROM loom.turns WHERE line = :line AND at > :since ORDER BY at"
_CALL: Final = """
    UPDATE loom.executions SET called = called + 1, called_at = coalesce(called_at, :now) WHERE id = :run AND NOT ended
"""
_OUT_OF_FORCE: Final = f"{_ENTRIES} WHERE NOT {_IN_FORCE} ORDER BY number LIMIT :limit"
_LINES_WITH_WAITING: Final = f"""
    SELECT waiting.slot_line
    FROM (SELECT slot_line, max(slot_runs) AS runs FROM loom.lines AS l
          WHERE slot_line IS NOT NULL AND stage = 'line' AND {_AWAKE} AND {_IN_FORCE} GROUP BY slot_line) AS waiting
    WHERE waiting.runs > (SELECT count(*) FROM loom.lines AS l
                          WHERE slot_line = waiting.slot_line AND stage IN ('turn', 'begun') AND {_IN_FORCE})
    LIMIT :limit
"""  # noqa: S608
_OVERSLEPT: Final = """
    SELECT l.run FROM loom.lines AS l JOIN loom.executions AS e ON e.id = l.run
    WHERE l.due_at <= :now AND l.stage IN ('quiet', 'turn') AND e.status = 'suspended' AND e.driver IS NULL
      AND e.called_at IS NULL AND (e.wake_at IS NULL OR e.wake_at > :now)
    ORDER BY l.number LIMIT :limit
"""
_TYPES: Final = {
    **dict.fromkeys(("run", "stage", "newer"), "text"),
    **dict.fromkeys(("line", "quiet_line", "slot_line", "pace_line"), "bytea"),
    "runs": "text[]",
}

Ask = Callable[[str, Sequence[object]], Sequence[Any]]
"""Returns the rows that a statement gives."""


class PostgresLines(ABC):
    """Keeps the lines; how a statement gets to the database is the storage's business."""

    _settings: PostgresSettings

    @abstractmethod
    async def now_ms(self) -> int: ...

    @abstractmethod
    async def _read(self, work: Callable[[Raw], Awaitable[T]]) -> T: ...

    @abstractmethod
    async def _change(self, work: Callable[[Raw], Awaitable[T]], *, repeatable: bool = True) -> T: ...

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
        now = await self.now_ms()
        if not await self._read(lambda raw: _beside(raw, now, lambda lines: lines.need_sweeping())):
            return []
        return await self._on_lines(admitting.sweep)

    async def admissions(self, runs: Sequence[ExecutionId]) -> Mapping[ExecutionId, Admission]:
        """Return how runs stand; see `AdmissionStore.admissions`."""
        now = await self.now_ms()
        return await self._read(lambda raw: _beside(raw, now, lambda lines: _admissions(lines, runs)))

    async def _on_lines(self, work: Callable[[_Lines], T]) -> T:
        async def change(raw: Raw) -> T:
            async with raw.transaction():
                await raw.execute(_LOCK, LOCK_KEY)
                now = await raw.fetchval("SELECT loom.clock_ms($1)", self._settings.now_ms)
                return await _beside(raw, now, work)

        return await self._change(change)


async def _beside(raw: Raw, now: int, work: Callable[[_Lines], T]) -> T:
    """Return what *work* returns, which runs in a thread; this loop answers what it asks."""
    loop = asyncio.get_running_loop()

    def ask(statement: str, given: Sequence[object]) -> Sequence[Any]:
        return asyncio.run_coroutine_threadsafe(raw.fetch(statement, *given), loop).result()

    working = asyncio.ensure_future(asyncio.to_thread(work, _Lines(ask, now)))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])  # it uses the connection
        raise


class _Lines:
    """The lines within one transaction, as `admitting.Lines`."""

    def __init__(self, ask: Ask, now: int) -> None:
        self._ask_with, self.now = ask, now

    def entry(self, run: ExecutionId) -> Entry | None:
        return next(iter(self._entries(f"{_ENTRIES} WHERE run = :run", run=run)), None)

    def entries(self, runs: Sequence[ExecutionId]) -> Sequence[Entry]:
        return self._entries(f"{_ENTRIES} WHERE run = ANY (:runs)", runs=list(runs))

    def log(self, run: ExecutionId) -> LogStand | None:
        rows = self._ask(_LOG, run=run)
        return LogStand(rows[0][0], rows[0][1]) if rows else None

    def put(self, entry: Entry) -> None:
        self._ask(_PUT, **_row(entry))

    def drop(self, run: ExecutionId) -> None:
        self._ask("DELETE FROM loom.lines WHERE run = :run", run=run)

    def next_number(self) -> int:
        return self._one("SELECT coalesce(max(number), 0) + 1 FROM loom.lines")

    def held(self, line: str) -> int:
        return self._one(_HELD, line=key_bytes(line))

    def waiting(self, line: str, limit: int) -> Sequence[Entry]:
        return self._entries(_WAITING, line=key_bytes(line), limit=limit)

    def waiting_before(self, line: str, number: int) -> int:
        return self._one(_WAITING_BEFORE, line=key_bytes(line), number=number)

    def turns_before(self, line: str, number: int) -> int:
        return self._one(_TURNS_BEFORE, line=key_bytes(line), number=number)

    def quiet(self, line: str) -> Sequence[Entry]:
        return self._entries(_QUIET, line=key_bytes(line))

    def turns(self, line: str, since: int) -> Sequence[int]:
        return [row[0] for row in self._ask(_TURNS, line=key_bytes(line), since=since)]

    def begin(self, line: str, since: int) -> None:
        self._ask("DELETE FROM loom.turns WHERE line = :line AND at <= :since", line=key_bytes(line), since=since)
        self._ask("INSERT INTO loom.turns (line, at) VALUES (:line, :now)", line=key_bytes(line))

    def call(self, run: ExecutionId) -> None:
        self._ask(_CALL, run=run)

    def out_of_force(self, limit: int) -> Sequence[Entry]:
        return self._entries(_OUT_OF_FORCE, limit=limit)

    def lines_with_waiting(self, limit: int) -> Sequence[str]:
        return [key_text(row[0]) for row in self._ask(_LINES_WITH_WAITING, limit=limit)]

    def overslept(self, limit: int) -> Sequence[ExecutionId]:
        return [ExecutionId(row[0]) for row in self._ask(_OVERSLEPT, limit=limit)]

    def succeed(self, run: ExecutionId, newer: ExecutionId | None) -> None:
        self._ask("UPDATE loom.lines SET newer = :newer WHERE newer = :run", run=run, newer=newer)

    def need_sweeping(self) -> bool:
        """Say whether a sweep would find something to do, so that most need no transaction that writes."""
        return bool(self.out_of_force(1) or self.lines_with_waiting(1) or self.overslept(1))

    def _one(self, statement: str, **given: object) -> int:
        [[value]] = self._ask(statement, **given)
        return int(value)

    def _entries(self, statement: str, **given: object) -> Sequence[Entry]:
        return [_entry(*row) for row in self._ask(statement, **given)]

    def _ask(self, statement: str, **given: object) -> Sequence[Any]:
        """Return the rows of *statement*, in which `:name` stands for a value of *given*."""
        known = {"now": self.now, "void": self.now - VOID_AFTER_MS, **given}
        used = sorted((name for name in known if f":{name}" in statement), key=len, reverse=True)
        for place, name in enumerate(used, 1):
            statement = statement.replace(f":{name}", f"${place}::{_TYPES.get(name, 'bigint')}".replace("::", "\0"))
        return self._ask_with(statement.replace("\0", "::"), [known[name] for name in used])


def _admissions(lines: _Lines, runs: Sequence[ExecutionId]) -> Mapping[ExecutionId, Admission]:
    return {entry.run: admitting.standing(lines, entry) for entry in lines.entries(runs)}


def _row(entry: Entry) -> dict[str, object]:
    quiet, slots, pace = entry.terms
    return {
        "run": entry.run,
        "number": entry.number,
        "stage": entry.stage,
        "length": entry.length,
        "joined_at": entry.joined_at,
        "due_at": entry.due_at,
        "newer": entry.newer,
        "quiet_line": key_bytes(quiet.line) if quiet else None,
        "quiet_ms": quiet.wait_ms if quiet else None,
        "slot_line": key_bytes(slots.line) if slots else None,
        "slot_runs": slots.runs if slots else None,
        "pace_line": key_bytes(pace.line) if pace else None,
        "pace_runs": pace.runs if pace else None,
        "pace_ms": pace.per_ms if pace else None,
    }


def _entry(run: Any, number: int, stage: Any, length: int, *rest: Any) -> Entry:
    joined_at, due_at, newer, *parts = rest
    quiet = Quiet(key_text(parts[0]), parts[1]) if parts[0] is not None else None
    slots = Slots(key_text(parts[2]), parts[3]) if parts[2] is not None else None
    pace = Pace(key_text(parts[4]), *parts[5:]) if parts[4] is not None else None
    return Entry(run, number, stage, Terms(quiet, slots, pace), length, joined_at, due_at, newer)
