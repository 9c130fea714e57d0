"""The names of branches in Postgres: the part of `PostgresStorage` that is a `RefStore`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from loom.plugins.postgres.session import Raw
from loom.plugins.postgres.writing import key_bytes, key_text
from loom.spi.ref_store import Family, RefMove

T = TypeVar("T")

_MOVES: Final = """
    SELECT name, number, execution_id, at, principal, reason
    FROM loom.refs WHERE run = (SELECT run FROM loom.executions WHERE id = $1 AND run = $2) ORDER BY name, number
"""
_MOVE: Final = """
    INSERT INTO loom.refs (run, name, number, execution_id, at, principal, reason)
    SELECT e.run, $3, $4, $5, $6, $7, $8 FROM loom.executions AS e
    WHERE e.id = $1 AND e.run = $2
      AND $4 = 1 + coalesce((SELECT max(r.number) FROM loom.refs AS r WHERE r.run = e.run AND r.name = $3), 0)
    ON CONFLICT DO NOTHING RETURNING 1
"""


class PostgresRefs(ABC):
    """Keeps the names of branches; how a statement gets to the database is the storage's business."""

    @abstractmethod
    async def _read(self, work: Callable[[Raw], Awaitable[T]]) -> T: ...

    @abstractmethod
    async def _change(self, work: Callable[[Raw], Awaitable[T]], *, repeatable: bool = True) -> T: ...

    async def refs(self, family: Family) -> Mapping[str, RefMove]:
        """Return the last move of each name; see `RefStore.refs`."""
        return dict(await self._moves(family))

    async def ref_moves(self, family: Family, name: str) -> Sequence[RefMove]:
        """Return all moves of a name; see `RefStore.ref_moves`."""
        return [move for named, move in await self._moves(family) if named == name]

    async def move_ref(self, family: Family, name: str, move: RefMove) -> bool:
        """Add a move; see `RefStore.move_ref`. One whose answer was lost is not made again: who asks looks what there is."""
        said = (key_bytes(move.principal), key_bytes(move.reason))
        values = (*family, key_bytes(name), move.number, move.execution_id, move.at, *said)
        return bool(await self._change(lambda raw: raw.fetchval(_MOVE, *values), repeatable=False))

    async def _moves(self, family: Family) -> list[tuple[str, RefMove]]:
        rows = await self._read(lambda raw: raw.fetch(_MOVES, *family))
        return [
            (key_text(name), RefMove(number, execution_id, at, key_text(principal), key_text(reason)))
            for name, number, execution_id, at, principal, reason in rows
        ]
