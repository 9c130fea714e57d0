"""Deleting from SQLite: the part of `SqliteStorage` that is an `EndedIndex` and an `EventTrim`. Each method is one transaction."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Concatenate, Final, ParamSpec, TypeVar

import orjson

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.sqlite import reading
from loom.plugins.sqlite.changes import noting_cuts
from loom.spi import deleting
from loom.spi.clock import Clock
from loom.spi.deleting import LogStand
from loom.spi.event_store import ExecutionRow, Head
from loom.spi.event_trim import Below, Deleted, Kept, Link

P = ParamSpec("P")
T = TypeVar("T")

BY_LIFE: Final = ("attributes", "events", "forks", "model_rows", "models_erased", "refs", "requests", "snapshots")
"""The tables that keep something by the incarnation of a run, beside `executions`. Whoever adds one adds it here."""

BY_ID: Final = ("lines",)
"""The tables that keep something by the id of a run."""

_AMONG: Final = "(SELECT value FROM json_each(?))"
_STAND: Final = """
    SELECT id, run, length, ended, driver IS NOT NULL, called_at IS NOT NULL, coalesce(chain, id), coalesce(parent, ''),
           coalesce((SELECT source.id FROM forks JOIN executions AS source ON source.run = forks.source
                     WHERE forks.run = executions.run), '')
    FROM executions
"""
_NAMED: Final = f"{_STAND} WHERE id IN {_AMONG}"
_CONCERNED: Final = f"""
    {_NAMED}
    UNION {_STAND} WHERE chain IS NOT NULL AND chain IN {_AMONG}
    UNION {_STAND} WHERE parent IS NOT NULL AND parent IN {_AMONG}
    UNION {_STAND} WHERE run IN (
        SELECT forks.run FROM executions AS source JOIN forks ON forks.source = source.run WHERE source.id IN {_AMONG})
"""  # noqa: S608  # our own text, here and below
# A chain has ended when its last link has; a run that was never written has not.
_PLACED: Final = f"""
    SELECT newer FROM lines
    WHERE newer IS NOT NULL AND newer IN {_AMONG} AND NOT coalesce(
        (SELECT ended FROM executions INDEXED BY executions_links
         WHERE chain = lines.run ORDER BY link DESC LIMIT 1),
        (SELECT ended FROM executions WHERE id = lines.run), 0)
"""  # noqa: S608  # our own text, here and below
_LAST: Final = "executions INDEXED BY executions_links WHERE chain = begun.id ORDER BY link DESC LIMIT 1"
_ENDED: Final = f"""
    SELECT run FROM executions AS begun INDEXED BY executions_newest
    WHERE started_at < :before AND (started_at, id) > (:at, :id) AND ended = 1 AND link = 1
      AND coalesce((SELECT ended FROM {_LAST}), 1)
      AND coalesce((SELECT updated_at FROM {_LAST}), updated_at) < :before
      AND (parent IS NULL OR NOT EXISTS (SELECT 1 FROM executions AS above WHERE above.id = begun.parent))
      AND NOT EXISTS (SELECT 1 FROM forks JOIN executions AS above ON above.run = forks.source WHERE forks.run = begun.run)
    ORDER BY started_at, id LIMIT :limit
"""  # noqa: S608
_BELOW: Final = f"""
    WITH above (id, run) AS (
        SELECT id, run FROM executions WHERE chain IS NULL AND id IN {_AMONG}
        UNION ALL SELECT chain, run FROM executions WHERE chain IS NOT NULL AND chain IN {_AMONG}
    ), begun (of_chain, id, run) AS (
        SELECT parent, id, run FROM executions WHERE parent IS NOT NULL AND parent IN {_AMONG} AND link = 1
        UNION SELECT above.id, e.id, e.run
        FROM above JOIN forks ON forks.source = above.run JOIN executions AS e ON e.run = forks.run
    )
    SELECT of_chain, coalesce((SELECT run FROM {_LAST}), begun.run) FROM begun
"""  # noqa: S608
_LINKS: Final = f"""
    SELECT id, id, run, length FROM executions WHERE chain IS NULL AND id IN {_AMONG}
    UNION ALL SELECT chain, id, run, length FROM executions WHERE chain IS NOT NULL AND chain IN {_AMONG}
"""  # noqa: S608


class SqliteTrim(ABC):
    """Finds what has ended, and deletes; how a statement gets to the database is the storage's business."""

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

    async def ended(
        self, *, before: int, after: tuple[int, str] = (0, ""), limit: int = 1000
    ) -> Sequence[ExecutionRow]:
        """Return the first links of chains that have ended, the longest begun first; see `EndedIndex.ended`."""
        given = {"before": before, "at": after[0], "id": after[1], "limit": limit}
        return await self._read(_ended, given, now=self.clock.now_ms())

    async def below(self, chains: Sequence[ExecutionId]) -> Sequence[Below]:
        """Return the children and the forks of *chains*; see `EndedIndex.below`."""
        return await self._read(_below, chains, now=self.clock.now_ms())

    async def links(self, chains: Sequence[ExecutionId]) -> Sequence[Link]:
        """Return every link of *chains*."""
        return await self._read(_links, chains)

    async def delete(self, families: Sequence[Sequence[Head]], *, dry_run: bool = False) -> Sequence[Deleted | Kept]:
        """Delete whole families; see `EventTrim.delete`."""
        if dry_run:
            return deleting.results(families, await self._read(_refusals, families))
        return await self._transact(_delete, families)


def _ended(raw: sqlite3.Connection, given: Mapping[str, object], *, now: int) -> list[ExecutionRow]:
    runs = [run for (run,) in raw.execute(_ENDED, given)]
    found = reading.rows_of(raw, runs, now=now)
    return [found[run] for run in runs if run in found]


def _below(raw: sqlite3.Connection, chains: Sequence[ExecutionId], *, now: int) -> list[Below]:
    pairs = raw.execute(_BELOW, [_json(list(chains))] * 3).fetchall()
    found = reading.rows_of(raw, [run for _, run in pairs], now=now)
    return [Below(ExecutionId(of), found[run]) for of, run in pairs if run in found]


def _links(raw: sqlite3.Connection, chains: Sequence[ExecutionId]) -> list[Link]:
    rows = raw.execute(_LINKS, [_json(list(chains))] * 2)
    return [Link(ExecutionId(chain), Head._make(head)) for chain, *head in rows]


def _delete(raw: sqlite3.Connection, families: Sequence[Sequence[Head]]) -> list[Deleted | Kept]:
    """Look, decide and delete: the inside of a transaction."""
    refusals = _refusals(raw, families)
    _forget(raw, deleting.gone(families, refusals))
    return deleting.results(families, refusals)


def _refusals(raw: sqlite3.Connection, families: Sequence[Sequence[Head]]) -> Sequence[Kept | None]:
    names = _json(deleting.named(families))
    stands = _stands(raw, _CONCERNED, [names] * 4)
    stands += _stands(raw, _NAMED, [_json(deleting.named_by(stands))])
    placed = {newer for (newer,) in raw.execute(_PLACED, (names,))}
    return deleting.kept(families, stands, placed)


def _stands(raw: sqlite3.Connection, statement: str, given: Sequence[str]) -> list[LogStand]:
    return [
        LogStand(ExecutionId(name), Incarnation(run), length, bool(ended), bool(held), bool(called), *relatives)
        for name, run, length, ended, held, called, *relatives in raw.execute(statement, given)
    ]


def _forget(raw: sqlite3.Connection, heads: Sequence[Head]) -> None:
    """Delete all that the tables keep by these runs."""
    runs, ids = _json([head.incarnation for head in heads]), _json([head.execution_id for head in heads])
    with noting_cuts(raw):
        for table in (*BY_LIFE, "executions"):
            raw.execute(f"DELETE FROM {table} WHERE run IN {_AMONG}", (runs,))  # noqa: S608
    for table in BY_ID:
        raw.execute(f"DELETE FROM {table} WHERE run IN {_AMONG}", (ids,))  # noqa: S608


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
