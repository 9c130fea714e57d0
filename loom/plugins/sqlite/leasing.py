"""Leases in SQLite: the part of `SqliteStorage` that is a `LeaseStore`. Each method is one transaction."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Concatenate, Final, ParamSpec, TypeVar

import orjson

from loom.core.ids import ExecutionId
from loom.plugins.sqlite import reading
from loom.spi.clock import Clock
from loom.spi.event_store import Claim, LeaseChange
from loom.spi.tables import claim_of

P = ParamSpec("P")
T = TypeVar("T")

# From one driver to the next, along the index: there are many executions, and few drivers.
_HOLDERS: Final = """
    WITH RECURSIVE holders (driver) AS (
        SELECT (SELECT driver FROM executions INDEXED BY executions_held
                WHERE driver IS NOT NULL ORDER BY driver LIMIT 1)
        UNION ALL
        SELECT (SELECT driver FROM executions INDEXED BY executions_held
                WHERE driver > holders.driver ORDER BY driver LIMIT 1)
        FROM holders WHERE holders.driver IS NOT NULL
    )
"""
_DRIVERS: Final = _HOLDERS + "SELECT driver FROM holders WHERE driver IS NOT NULL"  # noqa: S608  # our own text
_WANTED: Final = """
    ended = 0 AND (:flows IS NULL OR flow IN (SELECT value FROM json_each(:flows)))
    AND (:skip IS NULL OR id NOT IN (SELECT value FROM json_each(:skip)))
"""
_CLAIMABLE: Final = f"""
    {_HOLDERS}, ready (run, since) AS (
        SELECT * FROM (
            SELECT run, wake_at FROM executions INDEXED BY executions_due
            WHERE wake_at <= :now AND driver IS NULL AND {_WANTED}
            ORDER BY wake_at, flow, run LIMIT :limit)
        UNION ALL SELECT * FROM (
            SELECT run, called_at FROM executions INDEXED BY executions_called
            WHERE called_at <= :now AND driver IS NULL AND {_WANTED}
            ORDER BY called_at, flow, run LIMIT :limit)
        UNION ALL SELECT * FROM (
            SELECT run, leased_until
            FROM holders CROSS JOIN executions INDEXED BY executions_held ON executions.driver = holders.driver
            WHERE leased_until <= :now AND {_WANTED} AND (
                released OR executions.driver <> :driver OR id NOT IN (SELECT value FROM json_each(:driving)))
            ORDER BY leased_until, flow, run LIMIT :limit)
        UNION ALL SELECT * FROM (
            SELECT run, leased_until FROM executions INDEXED BY executions_held
            WHERE driver IN (SELECT value FROM json_each(:gone)) AND {_WANTED}
            ORDER BY leased_until, flow, run LIMIT :limit)
    )
    SELECT run, driver, released, called
    FROM (SELECT run, min(since) AS since FROM ready GROUP BY run) JOIN executions USING (run)
    ORDER BY since, flow, run LIMIT :limit
"""  # noqa: S608  # our own text
_TAKE: Final = """
    UPDATE executions SET driver = ?, leased_until = ?, released = 0
    WHERE run IN (SELECT value FROM json_each(?))
"""
# Found by id: the plus keeps the planner from the index of drivers, who may hold many more than are named.
_RENEW: Final = """
    UPDATE executions SET leased_until = ?, released = 0
    WHERE id IN (SELECT value FROM json_each(?)) AND +driver = ?
    RETURNING id
"""
_RELEASE: Final = """
    UPDATE executions SET leased_until = ?, released = 1
    WHERE id IN (SELECT value FROM json_each(?)) AND +driver = ?
"""
_LEAVE: Final = """
    UPDATE executions
    SET driver = NULL, leased_until = 0, released = 0,
        called = CASE WHEN called > seen.number THEN called ELSE 0 END,
        called_at = CASE WHEN called > seen.number THEN called_at END
    FROM (SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS number FROM json_each(?)) AS seen
    WHERE executions.id = seen.id AND +driver = ?
"""


class SqliteLeases(ABC):
    """Keeps leases; how a statement gets to the database is the storage's business."""

    @property
    @abstractmethod
    def clock(self) -> Clock:
        """The clock by which leases are judged."""

    @abstractmethod
    async def _read(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @abstractmethod
    async def _transact(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def now_ms(self) -> int:
        """Return the time by the store's clock, ms since the epoch."""
        return self.clock.now_ms()

    async def claim(
        self,
        driver: str,
        *,
        lease_ms: int,
        limit: int,
        flows: Sequence[str] | None = None,
        gone: Sequence[str] = (),
        skip: Sequence[ExecutionId] = (),
        driving: Sequence[ExecutionId] = (),
    ) -> Sequence[Claim]:
        """Take up what can go on and nobody holds, longest due first; see `LeaseStore.claim`."""
        lease, wanted = LeaseChange(driver, lease_ms), {"flows": flows, "gone": gone, "skip": skip, "driving": driving}
        return await self._transact(_claim, lease, self.clock, limit=limit, wanted=wanted)

    async def renew(self, driver: str, executions: Sequence[ExecutionId], *, lease_ms: int) -> Sequence[ExecutionId]:
        """Hold *executions* for another *lease_ms*; see `LeaseStore.renew`."""
        return await self._transact(_renew, LeaseChange(driver, lease_ms), executions, self.clock)

    async def leave(self, driver: str, seen: Mapping[ExecutionId, int]) -> None:
        """Give up parked executions that were claimed and did not move; see `LeaseStore.leave`."""
        await self._transact(_leave, driver, seen)

    async def release(self, driver: str, executions: Sequence[ExecutionId]) -> None:
        """Let leases lapse; see `LeaseStore.release`."""
        await self._transact(_release, driver, executions, self.clock)

    async def drivers(self) -> Sequence[str]:
        """Return the drivers that hold something, in order."""
        return await self._read(_drivers)


def _claim(
    raw: sqlite3.Connection,
    lease: LeaseChange,
    clock: Clock,
    *,
    limit: int,
    wanted: Mapping[str, Sequence[str] | None],
) -> list[Claim]:
    now, gone = clock.now_ms(), wanted["gone"] or ()
    known = {name: None if given is None else _json(list(given)) for name, given in wanted.items()}
    found = raw.execute(_CLAIMABLE, {"driver": lease.driver, "now": now, "limit": limit, **known}).fetchall()
    runs = [run for run, *_ in found]
    if runs:
        raw.execute(_TAKE, (lease.driver, now + lease.ms, _json(runs)))
    rows = reading.rows_of(raw, runs, now=now)
    return [
        claim_of(rows[run], had=had or "", released=bool(released), calls=called, gone=gone)
        for run, had, released, called in found
    ]


def _renew(
    raw: sqlite3.Connection, lease: LeaseChange, executions: Sequence[ExecutionId], clock: Clock
) -> list[ExecutionId]:
    rows = raw.execute(_RENEW, (clock.now_ms() + lease.ms, _json(list(executions)), lease.driver)).fetchall()
    held = {execution_id for (execution_id,) in rows}
    return [execution_id for execution_id in executions if execution_id not in held]


def _leave(raw: sqlite3.Connection, driver: str, seen: Mapping[ExecutionId, int]) -> None:
    raw.execute(_LEAVE, (_json(list(seen.items())), driver))


def _release(raw: sqlite3.Connection, driver: str, executions: Sequence[ExecutionId], clock: Clock) -> None:
    raw.execute(_RELEASE, (clock.now_ms(), _json(list(executions)), driver))


def _drivers(raw: sqlite3.Connection) -> list[str]:
    return [driver for (driver,) in raw.execute(_DRIVERS)]


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
