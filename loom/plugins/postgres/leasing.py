"""Leases in Postgres: the part of `PostgresStorage` that is a `LeaseStore`. Each method is one statement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from loom.core.ids import ExecutionId
from loom.plugins.postgres.reading import COLUMNS, WIDTH
from loom.plugins.postgres.session import Raw
from loom.plugins.postgres.settings import PostgresSettings
from loom.spi.event_store import Claim
from loom.spi.tables import claim_of, execution_row

T = TypeVar("T")

# From one driver to the next, along the index: there are many executions, and few drivers.
_DRIVERS: Final = """
    WITH RECURSIVE holders (driver) AS (
        (SELECT driver FROM loom.executions WHERE driver IS NOT NULL ORDER BY driver LIMIT 1)
        UNION ALL
        SELECT (SELECT driver FROM loom.executions WHERE driver > holders.driver ORDER BY driver LIMIT 1)
        FROM holders WHERE holders.driver IS NOT NULL
    )
    SELECT driver FROM holders WHERE driver IS NOT NULL
"""
_AT: Final = "(SELECT at FROM clock)"
_WANTED: Final = """
    NOT e.ended AND ($4::text[] IS NULL OR e.flow = ANY ($4)) AND e.id <> ALL ($6::text[])
"""
_LAPSED: Final = f"e.leased_until <= {_AT} AND (e.released OR e.driver <> $2 OR e.id <> ALL ($7::text[]))"
_FIRST: Final = "e.flow, e.run LIMIT $8 + 100"
"""Some more than are asked for: those that others are taking just now are passed over."""

# What is found is looked at again once it is locked: another may have taken it in between.
_CLAIM: Final = f"""
    WITH clock AS MATERIALIZED (SELECT loom.clock_ms($1) AS at), ready (run, since) AS (
        (SELECT e.run, e.wake_at FROM loom.executions AS e
         WHERE e.wake_at <= {_AT} AND e.driver IS NULL AND {_WANTED} ORDER BY e.wake_at, {_FIRST})
        UNION ALL
        (SELECT e.run, e.called_at FROM loom.executions AS e
         WHERE e.called_at <= {_AT} AND e.driver IS NULL AND {_WANTED} ORDER BY e.called_at, {_FIRST})
        UNION ALL
        (SELECT e.run, e.leased_until FROM loom.executions AS e
         WHERE e.driver IS NOT NULL AND {_LAPSED} AND {_WANTED} ORDER BY e.leased_until, {_FIRST})
        UNION ALL
        (SELECT e.run, e.leased_until FROM loom.executions AS e
         WHERE e.driver = ANY ($5::text[]) AND {_WANTED} ORDER BY e.leased_until, {_FIRST})
    ), first AS (
        SELECT run, min(since) AS since FROM ready GROUP BY run
    ), chosen AS MATERIALIZED (
        SELECT e.run, first.since, e.driver, e.released, e.called
        FROM first JOIN loom.executions AS e USING (run)
        WHERE {_WANTED} AND CASE WHEN e.driver IS NULL THEN e.wake_at <= {_AT} OR e.called_at <= {_AT}
                                 ELSE ({_LAPSED}) OR e.driver = ANY ($5) END
        ORDER BY first.since, e.flow, e.run LIMIT $8 FOR UPDATE OF e SKIP LOCKED
    ), taken AS (
        UPDATE loom.executions AS e SET driver = $2, leased_until = {_AT} + $3, released = false
        FROM chosen WHERE e.run = chosen.run
        RETURNING {COLUMNS}, coalesce(chosen.driver, '') AS had, chosen.released AS let_go, chosen.called AS calls,
                  chosen.since AS since
    )
    SELECT * FROM taken ORDER BY since, flow, run
"""  # noqa: S608  # our own text
_HELD: Final = """
    WITH held AS MATERIALIZED (
        SELECT run FROM loom.executions WHERE id = ANY ($2::text[]) AND driver = $1 ORDER BY id FOR UPDATE
    )
"""
_RENEW: Final = f"""{_HELD}
    UPDATE loom.executions AS e SET leased_until = loom.clock_ms($3) + $4, released = false
    FROM held WHERE e.run = held.run RETURNING e.id
"""  # noqa: S608  # our own text
_RELEASE: Final = f"""{_HELD}
    UPDATE loom.executions AS e SET leased_until = loom.clock_ms($3), released = true
    FROM held WHERE e.run = held.run
"""  # noqa: S608  # our own text
_LEAVE: Final = f"""{_HELD}
    UPDATE loom.executions AS e
    SET driver = NULL, leased_until = 0, released = false,
        called = CASE WHEN e.called > seen.number THEN e.called ELSE 0 END,
        called_at = CASE WHEN e.called > seen.number THEN e.called_at END
    FROM held, unnest($2::text[], $3::bigint[]) AS seen(id, number)
    WHERE e.run = held.run AND e.id = seen.id
"""  # noqa: S608  # our own text


class PostgresLeases(ABC):
    """Keeps leases; how a statement gets to the database is the storage's business."""

    _settings: PostgresSettings

    @abstractmethod
    async def _read(self, work: Callable[[Raw], Awaitable[T]]) -> T: ...

    @abstractmethod
    async def _change(self, work: Callable[[Raw], Awaitable[T]], *, repeatable: bool = True) -> T: ...

    async def now_ms(self) -> int:
        """Return the time by the store's clock, ms since the epoch."""
        if self._settings.clock is not None:
            return self._settings.clock.now_ms()
        return int(await self._read(lambda raw: raw.fetchval("SELECT loom.clock_ms(NULL)")))

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
        wanted = (None if flows is None else list(flows), list(gone), list(skip), list(driving))

        async def work(raw: Raw) -> list[Claim]:
            rows = await raw.fetch(_CLAIM, self._settings.now_ms, driver, lease_ms, *wanted, limit)
            return [_claim(tuple(row), gone) for row in rows]

        return await self._change(work)

    async def renew(self, driver: str, executions: Sequence[ExecutionId], *, lease_ms: int) -> Sequence[ExecutionId]:
        """Hold *executions* for another *lease_ms*; see `LeaseStore.renew`."""
        given = (driver, list(executions), self._settings.now_ms, lease_ms)
        held = {row[0] for row in await self._change(lambda raw: raw.fetch(_RENEW, *given))}
        return [execution_id for execution_id in executions if execution_id not in held]

    async def leave(self, driver: str, seen: Mapping[ExecutionId, int]) -> None:
        """Give up parked executions that were claimed and did not move; see `LeaseStore.leave`."""
        await self._change(lambda raw: raw.fetch(_LEAVE, driver, list(seen), list(seen.values())))

    async def release(self, driver: str, executions: Sequence[ExecutionId]) -> None:
        """Let leases lapse; see `LeaseStore.release`."""
        await self._change(lambda raw: raw.fetch(_RELEASE, driver, list(executions), self._settings.now_ms))

    async def drivers(self) -> Sequence[str]:
        """Return the drivers that hold something, in order."""
        return [row[0] for row in await self._read(lambda raw: raw.fetch(_DRIVERS))]


def _claim(row: Sequence[Any], gone: Sequence[str]) -> Claim:
    had, released, calls, _ = row[WIDTH:]
    return claim_of(execution_row(row[:WIDTH]), had=had, released=released, calls=calls, gone=gone)
