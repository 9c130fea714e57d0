"""The order of changes in SQLite, which is that of the positions of events: the part of `SqliteStorage` that is a `ChangeFeed`.

Transactions that write come one after the other, so what was committed later has the greater position.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Concatenate, Final, ParamSpec, TypeVar

from loom.plugins.sqlite.connection import SqliteSettings
from loom.plugins.sqlite.session import SqliteSession
from loom.spi.change_feed import PAGE_EVENTS, Change, CursorUnknown, Place, changes_of
from loom.spi.feed import Wakes, follow_changes
from loom.spi.sessions import Sessions

P = ParamSpec("P")
T = TypeVar("T")

# What was deleted at the end has left a row of no run, which is joined with none.
_PAGE: Final = """
    SELECT executions.id, events.run, events.sequence, CAST(events.position AS TEXT)
    FROM events CROSS JOIN executions ON executions.run = events.run
    WHERE events.position > ? ORDER BY events.position LIMIT ?
"""
_LAST: Final = "SELECT ifnull(max(position), 0) FROM events"
_DIGITS_MAX: Final = 18


class SqliteChanges(ABC):
    """Tells what has changed; how a statement gets to the database is the storage's business."""

    _settings: SqliteSettings
    _sessions: Sessions[SqliteSession]
    _wakes: Wakes
    _poll_s: float

    @abstractmethod
    async def _read(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def changed(self, after: str = "", *, limit: int = PAGE_EVENTS) -> Sequence[Change]:
        """Return the changes behind a cursor; see `ChangeFeed.changed`."""
        return await self._read(_changed, after, limit, self._settings.url)

    async def latest(self) -> str:
        """Return a cursor behind all there is."""
        return str(await self._read(_last))

    def changes(self, after: str = "") -> AsyncIterator[Sequence[Change]]:
        """Yield pages of changes, for ever; see `ChangeFeed.changes`.

        Raises:
            StoreUnavailable: the store was closed meanwhile.
        """
        session, url = self._sessions.current(), self._settings.url

        async def read(cursor: str) -> Sequence[Change]:
            reader = await session.reader()
            page: Sequence[Change] = await reader.ask(lambda raw: _changed(raw, cursor, PAGE_EVENTS, url))
            return page

        return follow_changes(read, self._wakes, after=after, poll_s=self._poll_s)


def _changed(raw: sqlite3.Connection, after: str, limit: int, url: str) -> list[Change]:
    if after and not (after.isascii() and after.isdigit() and len(after) <= _DIGITS_MAX):
        raise CursorUnknown(after, store=url)
    position = int(after or 0)
    changes = changes_of(map(Place._make, raw.execute(_PAGE, (position, limit))))
    if not changes and position > _last(raw):
        raise CursorUnknown(after, store=url)
    return changes


def _last(raw: sqlite3.Connection) -> int:
    [(last,)] = raw.execute(_LAST)
    return int(last)
