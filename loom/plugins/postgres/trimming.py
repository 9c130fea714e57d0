"""Deleting from Postgres: the part of `PostgresStorage` that is an `EndedIndex` and an `EventTrim`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.postgres.reading import COLUMNS
from loom.plugins.postgres.session import Raw
from loom.plugins.postgres.settings import PostgresSettings
from loom.spi import deleting
from loom.spi.deleting import LogStand
from loom.spi.event_store import ExecutionRow, Head
from loom.spi.event_trim import Below, Deleted, Kept, Link
from loom.spi.tables import execution_row

T = TypeVar("T")

BY_LIFE: Final = ("attributes", "events", "forks", "model_rows", "models_erased", "refs", "requests", "snapshots")
"""The tables that keep something by the incarnation of a run, beside `executions`. Whoever adds one adds it here."""

BY_ID: Final = ("lines",)
"""The tables that keep something by the id of a run."""

# All that is concerned is locked in one order, as appends do, so that none waits for the other.
_LOCK: Final = "SELECT FROM loom.executions WHERE id = ANY ($1) ORDER BY id FOR UPDATE"
_STAND: Final = """
    SELECT id, run, length, ended, driver IS NOT NULL, called_at IS NOT NULL, coalesce(chain, id), coalesce(parent, ''),
           coalesce((SELECT source.id FROM loom.forks AS f JOIN loom.executions AS source ON source.run = f.source
                     WHERE f.run = executions.run), '')
    FROM loom.executions
"""
_NAMED: Final = f"{_STAND} WHERE id = ANY ($1)"
_CONCERNED: Final = f"""
    {_NAMED} UNION {_STAND} WHERE chain = ANY ($1) UNION {_STAND} WHERE parent = ANY ($1)
    UNION {_STAND} WHERE run IN (
        SELECT f.run FROM loom.executions AS source JOIN loom.forks AS f ON f.source = source.run WHERE source.id = ANY ($1))
"""  # noqa: S608  # our own text, here and below
# A chain has ended when its last link has; a run that was never written has not.
_PLACED: Final = """
    SELECT newer FROM loom.lines AS l
    WHERE newer = ANY ($1) AND NOT coalesce(
        (SELECT e.ended FROM loom.executions AS e WHERE e.chain = l.run ORDER BY e.link DESC LIMIT 1),
        (SELECT e.ended FROM loom.executions AS e WHERE e.id = l.run), false)
"""
_ENDED: Final = f"""
    SELECT {COLUMNS} FROM loom.executions AS e
    LEFT JOIN LATERAL (
        SELECT ended, updated_at FROM loom.executions WHERE chain = e.id ORDER BY link DESC LIMIT 1
    ) AS last ON true
    WHERE e.started_at < $2 AND (e.started_at, e.id) > ($3, $4) AND e.ended AND e.link = 1
      AND coalesce(last.ended, true) AND coalesce(last.updated_at, e.updated_at) < $2
      AND (e.parent IS NULL OR NOT EXISTS (SELECT FROM loom.executions AS above WHERE above.id = e.parent))
      AND NOT EXISTS (
          SELECT FROM loom.forks AS f JOIN loom.executions AS above ON above.run = f.source WHERE f.run = e.run)
    ORDER BY e.started_at, e.id LIMIT $5
"""  # noqa: S608  # our own text, here and below
_BELOW: Final = f"""
    WITH above AS (
        SELECT id, run FROM loom.executions WHERE chain IS NULL AND id = ANY ($2)
        UNION ALL SELECT chain, run FROM loom.executions WHERE chain = ANY ($2)
    ), begun AS (
        SELECT parent AS of_chain, id, run FROM loom.executions WHERE parent = ANY ($2) AND link = 1
        UNION SELECT above.id, e.id, e.run
        FROM above JOIN loom.forks AS f ON f.source = above.run JOIN loom.executions AS e ON e.run = f.run
    )
    SELECT begun.of_chain, {COLUMNS} FROM begun JOIN loom.executions AS e ON e.run = coalesce(
        (SELECT run FROM loom.executions WHERE chain = begun.id ORDER BY link DESC LIMIT 1), begun.run)
"""  # noqa: S608
_LINKS: Final = """
    SELECT id, id, run, length FROM loom.executions WHERE chain IS NULL AND id = ANY ($1)
    UNION ALL SELECT chain, id, run, length FROM loom.executions WHERE chain = ANY ($1)
"""


class PostgresTrim(ABC):
    """Finds what has ended, and deletes; how a statement gets to the database is the storage's business."""

    _settings: PostgresSettings

    @abstractmethod
    async def _read(self, work: Callable[[Raw], Awaitable[T]]) -> T: ...

    @abstractmethod
    async def _change(self, work: Callable[[Raw], Awaitable[T]], *, repeatable: bool = True) -> T: ...

    async def ended(
        self, *, before: int, after: tuple[int, str] = (0, ""), limit: int = 1000
    ) -> Sequence[ExecutionRow]:
        """Return the first links of chains that have ended, the longest begun first; see `EndedIndex.ended`."""
        return [execution_row(row) for row in await self._rows(_ENDED, before, *after, limit)]

    async def below(self, chains: Sequence[ExecutionId]) -> Sequence[Below]:
        """Return the children and the forks of *chains*; see `EndedIndex.below`."""
        return [Below(ExecutionId(of), execution_row(row)) for of, *row in await self._rows(_BELOW, list(chains))]

    async def links(self, chains: Sequence[ExecutionId]) -> Sequence[Link]:
        """Return every link of *chains*."""
        rows: Sequence[Any] = await self._read(lambda raw: raw.fetch(_LINKS, list(chains)))
        return [Link(ExecutionId(chain), Head(*head)) for chain, *head in rows]

    async def delete(self, families: Sequence[Sequence[Head]], *, dry_run: bool = False) -> Sequence[Deleted | Kept]:
        """Delete whole families; see `EventTrim.delete`."""

        async def change(raw: Raw) -> list[Deleted | Kept]:
            async with raw.transaction():
                return await _delete(raw, families)

        if dry_run:
            return deleting.results(families, await self._read(lambda raw: _refusals(raw, families)))
        return await self._change(change)

    async def _rows(self, statement: str, *given: object) -> Sequence[Any]:
        now = self._settings.now_ms
        rows: Sequence[Any] = await self._read(lambda raw: raw.fetch(statement, now, *given))
        return rows


async def _delete(raw: Raw, families: Sequence[Sequence[Head]]) -> list[Deleted | Kept]:
    """Look, decide and delete: the inside of a transaction."""
    await raw.execute(_LOCK, deleting.named(families))
    refusals = await _refusals(raw, families)
    await _forget(raw, deleting.gone(families, refusals))
    return deleting.results(families, refusals)


async def _refusals(raw: Raw, families: Sequence[Sequence[Head]]) -> Sequence[Kept | None]:
    names = deleting.named(families)
    stands = [_stand(*row) for row in await raw.fetch(_CONCERNED, names)]
    stands += [_stand(*row) for row in await raw.fetch(_NAMED, deleting.named_by(stands))]
    placed = {row[0] for row in await raw.fetch(_PLACED, names)}
    return deleting.kept(families, stands, placed)


def _stand(name: Any, run: Any, *rest: Any) -> LogStand:
    return LogStand(ExecutionId(name), Incarnation(run), *rest)


async def _forget(raw: Raw, heads: Sequence[Head]) -> None:
    """Delete all that the tables keep by these runs."""
    runs, ids = [head.incarnation for head in heads], [head.execution_id for head in heads]
    for table in (*BY_LIFE, "executions"):
        await raw.execute(f"DELETE FROM loom.{table} WHERE run = ANY ($1)", runs)  # noqa: S608
    for table in BY_ID:
        await raw.execute(f"DELETE FROM loom.{table} WHERE run = ANY ($1)", ids)  # noqa: S608
