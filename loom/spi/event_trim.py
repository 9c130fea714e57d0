"""Taking events out of a store: deleting whole logs and which may go, and removing the first part of a log.

A *family* is the links of a chain, the chains that they have spawned, the forks of them, and so on down: a run with its children and
branches, and theirs. It is deleted whole or kept whole. So no run loses a child that it may ask for again, and no branch the names
it goes by; and none that begins under the id of a deleted one finds children of that one, or is told of their end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from loom.core.ids import ExecutionId
from loom.spi.event_store import ExecutionRow, Head, Lane, Request
from loom.spi.snapshot_store import Snapshot

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


class Below(NamedTuple):
    """The last link of a chain that the chain *of* has spawned, or that is a fork of one of its links."""

    of: ExecutionId
    row: ExecutionRow


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

        Only of chains that are a child or a fork of nobody who is there: the others go with those. *after* is the (started_at,
        id) of the row to go on behind.
        """
        ...

    async def below(self, chains: Sequence[ExecutionId]) -> Sequence[Below]:
        """Return the children and the forks of *chains*, in any order; one may be the child of one and the fork of another."""
        ...

    async def links(self, chains: Sequence[ExecutionId]) -> Sequence[Link]:
        """Return every link of *chains*, in any order."""
        ...


@runtime_checkable
class EventTrim(Protocol):
    """Deleting, whole logs and parts of them. What is gone is gone; where it is to be kept, it was put into an archive before.

    To trim a log or a lane moves nothing else: its length, the numbers of what stays and what comes, the keys that are taken,
    the index row and the lease are as before, and who drives the run is not disturbed.
    """

    async def delete(self, families: Sequence[Sequence[Head]], *, dry_run: bool = False) -> Sequence[Deleted | Kept]:
        """Delete whole families in one transaction, each on its own terms; one result a family, in order.

        A family is given as the heads of all its logs, as they were seen. It is deleted with all that the store keeps by its
        runs if each log still stands there, has ended, is held by nobody and was not called since, no relative is left out, and
        no run waits whose place one of them has taken. Else nothing of it is deleted. On return, what is deleted stays so.
        A *dry_run* deletes nothing and returns what would become of each now.

        Raises:
            StoreUnavailable: of each family all is there, or nothing.
        """
        ...

    async def trim(self, checkpoint: Snapshot, *, keeping: Sequence[str]) -> int | None:
        """Remove the events of a log up to and including that of *checkpoint*, and keep that, in one transaction.

        Earlier checkpoints give their place to it. Events of the types *keeping* stay. Return how many were removed; None, and nothing was done, where the execution
        has another life, its log does not hold the event of the checkpoint, or a checkpoint stands there or later already.

        Raises:
            StoreUnavailable: all was done or nothing; asking again is safe.
        """
        ...

    async def consumed(self, lane: Lane, *, after: int = 0, limit_bytes: int = 4 << 20) -> Sequence[Request]:
        """Return the requests of a lane that an append has consumed and that are whole, with a number above *after*, in order.

        A page ends once its bodies exceed *limit_bytes*, but holds at least one when there is one.
        """
        ...

    async def trim_lane(self, lane: Lane, numbers: Sequence[int]) -> int:
        """Remove the requests *numbers* of a lane, as far as they are consumed and whole, and return how many those were.

        Their numbers are never given again, and their keys stay taken for ever.

        Raises:
            StoreUnavailable: all was done or nothing; asking again is safe.
        """
        ...
