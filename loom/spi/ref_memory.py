"""The names of branches in memory: the part of `MemoryStorage` that is a `RefStore`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loom.spi.memory_logs import Logs
from loom.spi.ref_store import Family, RefMove


class MemoryRefs:
    """A `RefStore` that forgets everything with the object, and a family with its run."""

    _kept: Logs

    async def refs(self, family: Family) -> Mapping[str, RefMove]:
        """Return the last move of each name; see `RefStore.refs`."""
        return {name: moves[-1] for name, moves in sorted(self._named(family).items())}

    async def ref_moves(self, family: Family, name: str) -> Sequence[RefMove]:
        """Return all moves of a name; see `RefStore.ref_moves`."""
        return list(self._named(family).get(name, ()))

    async def move_ref(self, family: Family, name: str, move: RefMove) -> bool:
        """Add a move; see `RefStore.move_ref`."""
        log = self._kept.life(*family)
        if log is None or move.number != len(log.refs.get(name, ())) + 1:
            return False
        log.refs.setdefault(name, []).append(move)
        return True

    def _named(self, family: Family) -> Mapping[str, list[RefMove]]:
        log = self._kept.life(*family)
        return {} if log is None else log.refs
