"""Names for branches: which fork of a run is the one that counts, and which was before (spec 4.5, BranchRegistry)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from loom.core.ids import ExecutionId, Incarnation

REF_STORE_SPI_VERSION: Final = "1.0.0"


class Family(NamedTuple):
    """A run and all forks of it, and of those: named by the run that is a fork of none, in its present life."""

    execution_id: ExecutionId
    incarnation: Incarnation


class RefMove(NamedTuple):
    """A name came to stand for an execution: *number* counts the moves of the name, from 1; *at* is ms since the epoch.

    *principal* is who moved it, empty when nobody said so, *reason* why.
    """

    number: int
    execution_id: ExecutionId
    at: int
    principal: str = ""
    reason: str = ""


@runtime_checkable
class RefStore(Protocol):
    """Keeps names with all that they stood for. Nothing is ever removed but with the whole family."""

    async def refs(self, family: Family) -> Mapping[str, RefMove]:
        """Return the last move of each name of *family*; none for a family that is not known."""
        ...

    async def ref_moves(self, family: Family, name: str) -> Sequence[RefMove]:
        """Return all moves of a name, the first one first."""
        ...

    async def move_ref(self, family: Family, name: str, move: RefMove) -> bool:
        """Add *move*, durably; return False, and change nothing, where its number is not the next one of *name*.

        Raises:
            StoreUnavailable: it is not known to be written.
        """
        ...
