"""The names of branches in SQLite: the part of `SqliteStorage` that is a `RefStore`."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Concatenate, Final, ParamSpec, TypeVar

from loom.spi.ref_store import Family, RefMove

P = ParamSpec("P")
T = TypeVar("T")

_LIFE: Final = "(SELECT run FROM executions WHERE id = ? AND run = ?)"
_MOVES: Final = f"""
    SELECT name, number, execution_id, at, principal, reason FROM refs WHERE run = {_LIFE} ORDER BY name, number
"""  # noqa: S608  # our own text
_MOVE: Final = f"""
    INSERT INTO refs (run, name, number, execution_id, at, principal, reason)
    SELECT run, ?, ?, ?, ?, ?, ? FROM executions
    WHERE id = ? AND run = ? AND ? = 1 + coalesce((SELECT max(number) FROM refs WHERE run = {_LIFE} AND name = ?), 0)
"""  # noqa: S608  # our own text


class SqliteRefs(ABC):
    """Keeps the names of branches; how a statement gets to the database is the storage's business."""

    @abstractmethod
    async def _read(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @abstractmethod
    async def _transact(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def refs(self, family: Family) -> Mapping[str, RefMove]:
        """Return the last move of each name; see `RefStore.refs`."""
        return dict(await self._read(_moves, family))

    async def ref_moves(self, family: Family, name: str) -> Sequence[RefMove]:
        """Return all moves of a name; see `RefStore.ref_moves`."""
        return [move for named, move in await self._read(_moves, family) if named == name]

    async def move_ref(self, family: Family, name: str, move: RefMove) -> bool:
        """Add a move; see `RefStore.move_ref`."""
        return await self._transact(_moved, family, name, move)


def _moves(raw: sqlite3.Connection, family: Family) -> list[tuple[str, RefMove]]:
    return [(str(name), RefMove(*move)) for name, *move in raw.execute(_MOVES, family)]


def _moved(raw: sqlite3.Connection, family: Family, name: str, move: RefMove) -> bool:
    return raw.execute(_MOVE, (name, *move, *family, move.number, *family, name)).rowcount == 1
