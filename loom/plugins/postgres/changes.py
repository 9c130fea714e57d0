"""The order of changes in Postgres, which is that of the numbers of transactions: the part of `PostgresStorage` that is a `ChangeFeed`.

Transactions get their numbers at their first write, and end in any order. So a page ends before the oldest one under way: of
those before it, all there will ever be is there. A number is never smaller than that of an earlier event of its log. It
stands at the first event of what was appended together.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.postgres.session import PostgresSession, Raw
from loom.plugins.postgres.settings import PostgresSettings
from loom.spi.change_feed import PAGE_EVENTS, Change, CursorUnknown, joined
from loom.spi.errors import StoreCorrupt
from loom.spi.feed import Wakes, follow_changes
from loom.spi.sessions import Sessions

T = TypeVar("T")

# A change goes up to where the next one of its run begins, or to the end of the log, all as of one moment.
_PAGE: Final = """
    SELECT e.id, v.run, v.sequence, coalesce(next.sequence, e.length), v.changed::text
    FROM (
        SELECT run, sequence, changed FROM loom.events
        WHERE (changed, run, sequence) > ($1::text::xid8, $2, $3) AND changed < pg_snapshot_xmin(pg_current_snapshot())
        ORDER BY changed, run, sequence LIMIT $4
    ) AS v
    JOIN loom.executions AS e ON e.run = v.run
    LEFT JOIN LATERAL (
        SELECT sequence FROM loom.events WHERE run = v.run AND sequence > v.sequence AND changed IS NOT NULL
        ORDER BY sequence LIMIT 1
    ) AS next ON true
    ORDER BY v.changed, v.run, v.sequence
"""
_AHEAD: Final = """
    SELECT $1::text::xid8 > pg_snapshot_xmax(pg_current_snapshot()),
           (SELECT changed FROM loom.events WHERE changed IS NOT NULL ORDER BY changed DESC LIMIT 1) >= pg_snapshot_xmax(pg_current_snapshot())
"""
_LATEST: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"
_CURSOR: Final = re.compile(r"(\d{1,18})\.(\d{1,18})\.(\d{1,18})", re.ASCII)
_RESTORED: Final = "the numbers of its changes are ahead of the server: it was restored from a dump of another one"
_RENUMBER: Final = "Run SELECT loom.renumber_changes() once; who reads the changes begins anew."


class _Cursor(NamedTuple):
    """Behind the events before *next* of the life *run*, in the transaction *changed*."""

    changed: str
    run: int
    next: int


class PostgresChanges(ABC):
    """Tells what has changed; how a statement gets to the database is the storage's business."""

    _settings: PostgresSettings
    _sessions: Sessions[PostgresSession]
    _wakes: Wakes
    _poll_s: float

    @abstractmethod
    async def _read(self, work: Callable[[Raw], Awaitable[T]]) -> T: ...

    @abstractmethod
    def _hear(self) -> None: ...

    async def changed(self, after: str = "", *, limit: int = PAGE_EVENTS) -> Sequence[Change]:
        """Return the changes behind a cursor; see `ChangeFeed.changed`.

        A transaction that writes anywhere on the server holds up all that came after it; nothing is lost by that.

        Raises:
            StoreCorrupt: the database was restored from a dump of another server; what to do is told.
        """
        return await self._read(lambda raw: _changed(raw, after, limit, self._settings.url))

    async def latest(self) -> str:
        """Return a cursor behind all that is read now."""
        return f"{await self._read(lambda raw: raw.fetchval(_LATEST))}.0.0"

    def changes(self, after: str = "") -> AsyncIterator[Sequence[Change]]:
        """Yield pages of changes, for ever; see `ChangeFeed.changes`.

        Raises:
            StoreUnavailable: the store was closed meanwhile.
        """
        session, url = self._sessions.current(), self._settings.url
        self._hear()

        async def read(cursor: str) -> Sequence[Change]:
            return await session.run(lambda raw: _changed(raw, cursor, PAGE_EVENTS, url))

        return follow_changes(read, self._wakes, after=after, poll_s=self._poll_s)


async def _changed(raw: Raw, after: str, limit: int, url: str) -> Sequence[Change]:
    cursor = _cursor(after, url)
    rows = await raw.fetch(_PAGE, cursor.changed, cursor.run, cursor.next - 1, limit)
    if not rows:
        cursor_is_ahead, store_is_ahead = await raw.fetchrow(_AHEAD, cursor.changed) or (False, False)
        if store_is_ahead:
            raise StoreCorrupt(_RESTORED, store=url, hint=_RENUMBER)
        if cursor_is_ahead:
            raise CursorUnknown(after, store=url)
    return joined(map(_change, rows))


def _cursor(after: str, url: str) -> _Cursor:
    found = _CURSOR.fullmatch(after or "0.0.0")
    if found is None:
        raise CursorUnknown(after, store=url)
    return _Cursor(found[1], int(found[2]), int(found[3]))


def _change(row: Sequence[Any]) -> Change:
    name, run, start, stop, changed = row
    return Change(ExecutionId(name), Incarnation(run), start, stop, f"{changed}.{run}.{stop}")
