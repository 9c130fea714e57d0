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
"""So many events a page has, or appends, unless another number is asked for."""


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
        """Return the changes behind the cursor *after* (empty: from the beginning); none when there are none yet.

        Of what was appended one by one it is up to *limit* events; what was appended together may come as one. Every event of
        a log that is still there is in one change, exactly, of those that are read by going on from one cursor to the next;
        what is in none now will be in a later one. The changes of one life are in the order of its log. What was deleted or
        trimmed is left out, but between events that are there a change may name some that are not. Events that a fork copied are
        changes of the fork.

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


def joined(changes: Iterable[Change]) -> list[Change]:
    """Return *changes* with what follows on each other in one log as one."""
    kept: list[Change] = []
    for change in changes:
        last = kept[-1] if kept else None
        if last is not None and (last.incarnation, last.stop) == (change.incarnation, change.start):
            kept[-1] = change._replace(start=last.start)
        else:
            kept.append(change)
    return kept
