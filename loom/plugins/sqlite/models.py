"""Rows of read models in SQLite: the part of `SqliteStorage` that is a `ReadModelStore`. Each method is one transaction."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import orjson

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.clock import Clock
from loom.spi.event_store import Head
from loom.spi.read_model_store import Behind, ModelRow, ModelRows
from loom.spi.tables import AFTER_EVERY_ID
from loom.spi.where import odd_row

P = ParamSpec("P")
T = TypeVar("T")

# No row is ahead of its log, of another life than the present one, or older than the one in its place.
_PUT: Final = """
    INSERT INTO model_rows (model, version, run, sequence, since, body, odd)
    SELECT :model, :version, run, :sequence, :now, nullif(:body, x''), :odd
    FROM executions WHERE run = :run AND id = :id AND length > :sequence AND :sequence >= 0
      AND run NOT IN (SELECT run FROM models_erased)
    ON CONFLICT (model, version, run) DO UPDATE
    SET sequence = excluded.sequence, body = excluded.body, odd = excluded.odd
    WHERE excluded.sequence > model_rows.sequence
"""
_ALL: Final = "AND e.id > :after AND e.id >= :prefix AND e.id < :end ORDER BY e.id LIMIT :limit"
_SOME: Final = f"AND e.id IN (SELECT value FROM json_each(:ids)) {_ALL}"  # noqa: S608  # our own text
_ROWS: Final = """
    SELECT e.id, m.run, m.sequence, m.body
    FROM executions AS e CROSS JOIN model_rows AS m ON m.model = :model AND m.version = :version AND m.run = e.run
    WHERE m.body IS NOT NULL
"""
_BEHIND: Final = """
    SELECT e.id, e.run, e.length, m.sequence, ifnull(m.body, x'')
    FROM executions AS e LEFT JOIN model_rows AS m ON m.model = :model AND m.version = :version AND m.run = e.run
    WHERE e.length > ifnull(m.sequence + 1, 0) AND e.run NOT IN (SELECT run FROM models_erased)
"""
_MODELS: Final = """
    SELECT model, version, count(body), min(since) AS since FROM model_rows GROUP BY model, version
    ORDER BY model, since DESC, version
"""
_OF_MODEL: Final = "FROM model_rows WHERE model = :model AND (:version IS NULL OR version = :version)"
_LIVES: Final = "SELECT run FROM executions WHERE id IN (SELECT value FROM json_each(:ids))"


class SqliteModels(ABC):
    """Keeps rows of read models; how a statement gets to the database is the storage's business."""

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

    async def put_model_rows(self, model: str, version: str, rows: Sequence[ModelRow]) -> Sequence[bool]:
        """Keep rows that are newer than what is there; see `ReadModelStore.put_model_rows`."""
        given = {"model": model, "version": version, "now": self.clock.now_ms()}
        return await self._transact(_put, given, rows)

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
        return await self._read(
            _rows, _chosen(ids, model=model, version=version, after=after, limit=limit, prefix=prefix)
        )

    async def behind(
        self, model: str, version: str, *, ids: Sequence[ExecutionId] | None = None, after: str = "", limit: int = 100
    ) -> Sequence[Behind]:
        """Return runs whose rows lag; see `ReadModelStore.behind`."""
        return await self._read(_behind, _chosen(ids, model=model, version=version, after=after, limit=limit))

    async def models(self) -> Sequence[ModelRows]:
        """Return what has rows; see `ReadModelStore.models`."""
        return await self._read(lambda raw: [ModelRows(*row) for row in raw.execute(_MODELS)])

    async def drop_model(self, model: str, version: str | None = None) -> int:
        """Remove all rows of a model; see `ReadModelStore.drop_model`."""
        return await self._transact(_drop, {"model": model, "version": version})

    async def erase_model_rows(self, executions: Sequence[ExecutionId], *, dry_run: bool = False) -> int:
        """Take runs out of every model; see `ModelErasure.erase_model_rows`."""
        given = {"ids": orjson.dumps(list(executions)).decode()}
        return await self._read(_listed, given) if dry_run else await self._transact(_erase, given)


def _chosen(ids: Sequence[str] | None, *, prefix: str = "", **given: object) -> Mapping[str, Any]:
    wanted = None if ids is None else orjson.dumps(list(ids)).decode()
    return {**given, "ids": wanted, "prefix": prefix, "end": prefix + AFTER_EVERY_ID}


def _among(given: Mapping[str, Any]) -> str:
    """Return how the runs are chosen: of a few that are named, no others are looked at."""
    return _ALL if given["ids"] is None else _SOME


def _put(raw: sqlite3.Connection, given: Mapping[str, Any], rows: Sequence[ModelRow]) -> list[bool]:
    kept = []
    for row in rows:
        values = {"run": row.incarnation, "id": row.execution_id, "sequence": row.sequence, "body": row.body}
        kept.append(raw.execute(_PUT, {**given, **values, "odd": odd_row(row.body)}).rowcount == 1)
    return kept


def _rows(raw: sqlite3.Connection, given: Mapping[str, Any]) -> list[ModelRow]:
    return [
        ModelRow(ExecutionId(run), Incarnation(life), *row)
        for run, life, *row in raw.execute(_ROWS + _among(given), given)
    ]


def _behind(raw: sqlite3.Connection, given: Mapping[str, Any]) -> list[Behind]:
    found = []
    for run, life, length, sequence, body in raw.execute(_BEHIND + _among(given), given):
        head = Head(ExecutionId(run), Incarnation(life), length)
        found.append(Behind(head, None if sequence is None else ModelRow(*head[:2], sequence, body)))
    return found


def _drop(raw: sqlite3.Connection, given: Mapping[str, Any]) -> int:
    [(count,)] = raw.execute(f"SELECT count(body) {_OF_MODEL}", given)
    raw.execute(f"DELETE {_OF_MODEL}", given)
    return int(count)


def _listed(raw: sqlite3.Connection, given: Mapping[str, Any]) -> int:
    [(count,)] = raw.execute(f"SELECT count(body) FROM model_rows WHERE run IN ({_LIVES})", given)  # noqa: S608
    return int(count)


def _erase(raw: sqlite3.Connection, given: Mapping[str, Any]) -> int:
    count = _listed(raw, given)
    raw.execute(f"DELETE FROM model_rows WHERE run IN ({_LIVES})", given)  # noqa: S608
    raw.execute(f"INSERT OR IGNORE INTO models_erased (run) {_LIVES}", given)
    return count
