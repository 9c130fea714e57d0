"""What has been appended to any log, in an order in which nothing comes too late: the contract of a store that can tell.

A reader takes pages and keeps a cursor. It sees every event once, and those of a log in their order, however long a
transaction takes and in whatever order transactions end. Notices, where a store has them, only shorten the wait.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.errors import StoreError

CHANGE_FEED_SPI_VERSION: Final = "1.0.0"

PAGE_EVENTS: Final = 1000
"""So many events a page has, unless more are asked for."""


class CursorUnknown(StoreError):
    """A cursor that the store has not given: of another one, or of a time that the store was taken back from by a restore."""

    code = "cursor-unknown"

    def __init__(self, cursor: str, *, store: str) -> None:
        self.cursor = cursor
        hint = "Begin again with an empty cursor; what was seen before is seen again."
        super().__init__(f"{cursor[:80]!r} is no cursor of its changes", store=store, hint=hint)


class Change(NamedTuple):
    """Some events that one life of an execution was given: from sequence *start* up to but not including *stop*.

    *cursor* goes on behind them. It is text of ASCII letters, digits and dots.
    """

    execution_id: ExecutionId
    incarnation: Incarnation
    start: int
    stop: int
    cursor: str


@runtime_checkable
class ChangeFeed(Protocol):
    """A store that tells what has been appended to any log."""

    async def changed(self, after: str = "", *, limit: int = PAGE_EVENTS) -> Sequence[Change]:
        """Return the changes behind the cursor *after* (empty: from the beginning), of some *limit* events; none when there are none yet.

        Every event of a log that is still there is in one change, exactly, of those that are read by going on from one cursor to the next;
        what is in none now will be in a later one. The changes of one life are in the order of its log. What was deleted is
        left out. Events that a fork copied are changes of the fork.

        Raises:
            CursorUnknown: *after* is no cursor of this store.
        """
        ...

    async def latest(self) -> str:
        """Return a cursor behind all that is read now; what is appended from now on is behind it."""
        ...

    def changes(self, after: str = "") -> AsyncIterator[Sequence[Change]]:
        """Yield the pages behind *after*, and go on for ever as more becomes durable. Closing the iterator releases everything.

        Raises:
            CursorUnknown: *after* is no cursor of this store.
        """
        ...


class Place(NamedTuple):
    """Where an event stands in the order of changes, as a table has it; *cursor* goes on behind it."""

    execution_id: ExecutionId
    incarnation: Incarnation
    sequence: int
    cursor: str


def changes_of(places: Iterable[Place]) -> list[Change]:
    """Return events in the order of changes as changes: what follows on each other in one log is one."""
    changes: list[Change] = []
    for name, incarnation, sequence, cursor in places:
        last = changes[-1] if changes else None
        if last is not None and (last.incarnation, last.stop) == (incarnation, sequence):
            changes[-1] = last._replace(stop=sequence + 1, cursor=cursor)
        else:
            changes.append(Change(name, incarnation, sequence, sequence + 1, cursor))
    return changes
