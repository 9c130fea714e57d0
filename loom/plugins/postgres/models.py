"""Rows of read models in Postgres: the part of `PostgresStorage` that is a `ReadModelStore`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.postgres.session import Raw
from loom.plugins.postgres.settings import PostgresSettings
from loom.spi.event_store import Head
from loom.spi.read_model_store import Behind, ModelRow, ModelRows
from loom.spi.tables import AFTER_EVERY_ID
from loom.spi.where import odd_row

T = TypeVar("T")

# A run may be deleted while its row is written. So its row is locked first, in the order in which deleting locks them, and
# what is deleted by then is not there any more.
_LOCK: Final = "SELECT FROM loom.executions WHERE run = ANY ($1::bigint[]) ORDER BY id FOR KEY SHARE"
# No row is ahead of its log, of another life than the present one, or older than the one in its place.
_PUT: Final = """
    INSERT INTO loom.model_rows AS m (model, version, run, sequence, since, body, odd)
    SELECT $1, $2, e.run, given.sequence, loom.clock_ms($3), nullif(given.body, ''), given.odd
    FROM unnest($4::bigint[], $5::text[], $6::bigint[], $7::bytea[], $8::text[]) AS given(run, id, sequence, body, odd)
    JOIN loom.executions AS e ON e.run = given.run AND e.id = given.id
    WHERE e.length > given.sequence AND given.sequence >= 0
      AND NOT EXISTS (SELECT FROM loom.models_erased AS x WHERE x.run = e.run)
    ORDER BY e.id
    ON CONFLICT (model, version, run) DO UPDATE
    SET sequence = excluded.sequence, body = excluded.body, odd = excluded.odd
    WHERE excluded.sequence > m.sequence
    RETURNING run
"""
_ALL: Final = "AND e.id > $3 AND e.id >= $4 AND e.id < $5 ORDER BY e.id LIMIT $6"
_SOME: Final = f"AND e.id = ANY ($7::text[]) {_ALL}"
# Rows are looked up run by run, by the key: OFFSET keeps the server from another way. And each statement is planned anew, by how
# large the table is: one that was planned when a model was empty would read all of its rows for each run.
_PLANNED: Final = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)"
_LOOKED_UP: Final = """
    LATERAL (SELECT run, sequence, body FROM loom.model_rows WHERE model = $1 AND version = $2 AND run = e.run OFFSET 0) AS m
"""
_ROWS: Final = f"""
    SELECT e.id, m.run, m.sequence, m.body FROM loom.executions AS e CROSS JOIN {_LOOKED_UP} WHERE m.body IS NOT NULL
"""  # noqa: S608  # our own text, here and below
_BEHIND: Final = f"""
    SELECT e.id, e.run, e.length, m.sequence, coalesce(m.body, '')
    FROM loom.executions AS e LEFT JOIN {_LOOKED_UP} ON true
    WHERE e.length > coalesce(m.sequence + 1, 0)
      AND NOT EXISTS (SELECT FROM loom.models_erased AS x WHERE x.run = e.run OFFSET 0)
"""  # noqa: S608
_MODELS: Final = """
    SELECT model, version, count(body), min(since) AS since FROM loom.model_rows GROUP BY model, version
    ORDER BY model, since DESC, version
"""
_DROP: Final = """
    WITH gone AS (
        DELETE FROM loom.model_rows WHERE model = $1 AND ($2::text IS NULL OR version = $2) RETURNING body
    ) SELECT count(body) FROM gone
"""
_NAMED: Final = "SELECT run FROM loom.executions WHERE id = ANY ($1::text[]) ORDER BY id FOR UPDATE"
_LISTED: Final = """
    SELECT count(m.body) FROM loom.model_rows AS m JOIN loom.executions AS e ON e.run = m.run WHERE e.id = ANY ($1::text[])
"""
_ERASE: Final = """
    WITH gone AS (DELETE FROM loom.model_rows WHERE run = ANY ($1::bigint[]) RETURNING body),
    noted AS (INSERT INTO loom.models_erased (run) SELECT unnest($1::bigint[]) ON CONFLICT DO NOTHING)
    SELECT count(body) FROM gone
"""


class PostgresModels(ABC):
    """Keeps rows of read models; how a statement gets to the database is the storage's business."""

    _settings: PostgresSettings

    @abstractmethod
    async def _read(self, work: Callable[[Raw], Awaitable[T]]) -> T: ...

    @abstractmethod
    async def _change(self, work: Callable[[Raw], Awaitable[T]], *, repeatable: bool = True) -> T: ...

    async def put_model_rows(self, model: str, version: str, rows: Sequence[ModelRow]) -> Sequence[bool]:
        """Keep rows that are newer than what is there; see `ReadModelStore.put_model_rows`."""
        now = self._settings.now_ms

        async def work(raw: Raw) -> list[bool]:
            async with raw.transaction():
                await raw.execute(_LOCK, [row.incarnation for row in rows])
                return [kept for part in _apart(rows) for kept in await _put(raw, (model, version, now), part)]

        return await self._change(work)

    async def model_rows(
        self,
        model: str,
        version: str,
        *,
        ids: Sequence[ExecutionId] | None = None,
        after: str = "",
        prefix: str = "",
        limit: int = 1000,
    ) -> Sequence[ModelRow]:
        """Return rows by id; see `ReadModelStore.model_rows`."""
        found = await self._chosen(_ROWS, (model, version, after, prefix, prefix + AFTER_EVERY_ID, limit), ids)
        return [ModelRow(ExecutionId(run), Incarnation(life), *row) for run, life, *row in found]

    async def behind(
        self, model: str, version: str, *, ids: Sequence[ExecutionId] | None = None, after: str = "", limit: int = 100
    ) -> Sequence[Behind]:
        """Return runs whose rows lag; see `ReadModelStore.behind`."""
        told = []
        given = (model, version, after, "", AFTER_EVERY_ID, limit)
        for run, life, length, sequence, body in await self._chosen(_BEHIND, given, ids):
            head = Head(ExecutionId(run), Incarnation(life), length)
            told.append(Behind(head, None if sequence is None else ModelRow(*head[:2], sequence, body)))
        return told

    async def models(self) -> Sequence[ModelRows]:
        """Return what has rows; see `ReadModelStore.models`."""
        return [ModelRows(*row) for row in await self._fetched(_MODELS)]

    async def drop_model(self, model: str, version: str | None = None) -> int:
        """Remove all rows of a model; see `ReadModelStore.drop_model`."""
        return int(await self._change(lambda raw: raw.fetchval(_DROP, model, version)))

    async def erase_model_rows(self, executions: Sequence[ExecutionId], *, dry_run: bool = False) -> int:
        """Take runs out of every model; see `ModelErasure.erase_model_rows`."""

        async def work(raw: Raw) -> int:
            async with raw.transaction():
                runs = [row[0] for row in await raw.fetch(_NAMED, list(executions))]
                return int(await raw.fetchval(_ERASE, runs))

        if dry_run:
            return int(await self._read(lambda raw: raw.fetchval(_LISTED, list(executions))))
        return await self._change(work)

    async def _chosen(self, statement: str, given: Sequence[object], ids: Sequence[str] | None) -> Sequence[Any]:
        """Return rows of all runs, or of *ids*: then no others are looked at."""

        async def work(raw: Raw) -> Sequence[Any]:
            async with raw.transaction():
                await raw.execute(_PLANNED)
                if ids is None:
                    return list(await raw.fetch(statement + _ALL, *given))
                return list(await raw.fetch(statement + _SOME, *given, list(ids)))

        return await self._read(work)

    async def _fetched(self, statement: str, *given: object) -> Sequence[Any]:
        rows: Sequence[Any] = await self._read(lambda raw: raw.fetch(statement, *given))
        return rows


def _apart(rows: Sequence[ModelRow]) -> list[list[ModelRow]]:
    """Return *rows* in parts, in order, none of which has two of one run: a statement changes a row once."""
    parts: list[list[ModelRow]] = []
    for row in rows:
        if not parts or any(row.incarnation == each.incarnation for each in parts[-1]):
            parts.append([])
        parts[-1].append(row)
    return parts


async def _put(raw: Raw, of: tuple[str, str, int | None], rows: Sequence[ModelRow]) -> list[bool]:
    runs, ids = [row.incarnation for row in rows], [row.execution_id for row in rows]
    odd = [odd_row(row.body) for row in rows]
    given = (runs, ids, [row.sequence for row in rows], [row.body for row in rows], odd)
    kept = {row[0] for row in await raw.fetch(_PUT, *of, *given)}
    return [row.incarnation in kept for row in rows]
