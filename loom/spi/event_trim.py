"""Taking logs out of a store: which may go, and deleting them.

A *family* is the links of a chain, the chains that one of them has spawned, and so on down: a run with its children and theirs.
It is deleted whole or kept whole. So no run loses a child that it may ask for again; and none that begins under the id of a
deleted one finds children of that one, or is told of their end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from loom.core.ids import ExecutionId
from loom.spi.event_store import ExecutionRow, Head

EVENT_TRIM_SPI_VERSION: Final = "1.0.0"

WhyKept: TypeAlias = Literal["gone", "changed", "open", "held", "asked", "kin", "place"]
"""Why a family was kept: a log of it is not there any more; has another life or length; has not ended; somebody holds it; something was
asked of it since it ended; a relative of it was left out; or it has taken the place of a run, in a line, that has not ended.
"""


class Deleted(NamedTuple):
    """A family is gone, with all that the store kept by its runs: so many *logs* and *events*."""

    logs: int
    events: int


class Kept(NamedTuple):
    """Nothing of a family was deleted, because of what *execution_id* is like."""

    why: WhyKept
    execution_id: ExecutionId


class Link(NamedTuple):
    """A link of a *chain*, which is named by the id of its first, and where its log stands."""

    chain: ExecutionId
    head: Head


@runtime_checkable
class EndedIndex(Protocol):
    """Which families have ended. All times are ms since the epoch."""

    async def ended(
        self, *, before: int, after: tuple[int, str] = (0, ""), limit: int = 1000
    ) -> Sequence[ExecutionRow]:
        """Return the first links of chains that have ended and were not touched since *before*, the longest begun first.

        Only of chains that nobody has spawned, or whose parent is gone: the others go with their parent. *after* is the
        (started_at, id) of the row to go on behind.
        """
        ...

    async def children(self, chains: Sequence[ExecutionId]) -> Sequence[ExecutionRow]:
        """Return the last link of every chain that one of *chains* has spawned."""
        ...

    async def links(self, chains: Sequence[ExecutionId]) -> Sequence[Link]:
        """Return every link of *chains*, in any order."""
        ...


@runtime_checkable
class EventTrim(Protocol):
    """Deleting. What is gone is gone: an id that is used again has another life."""

    async def delete(self, families: Sequence[Sequence[Head]]) -> Sequence[Deleted | Kept]:
        """Delete whole families in one transaction, each on its own terms; one result a family, in order.

        A family is given as the heads of all its logs, as they were seen. It is deleted with all that the store keeps by its
        runs if each log still stands there, has ended, is held by nobody and was not called since, no relative is left out, and
        no run waits whose place one of them has taken. Else nothing of it is deleted. On return, what is deleted stays so.

        Raises:
            StoreUnavailable: of each family all is there, or nothing.
        """
        ...
