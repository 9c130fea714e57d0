"""The order of changes in SQLite, which is that of the positions of events: the part of `SqliteStorage` that is a `ChangeFeed`.

Transactions that write come one after the other, so what was committed later has the greater position: the feed costs who
appends nothing. Positions come back when the last events are deleted. Whoever deletes notes that in `cuts`, and a cursor says which
was the last of them; a reader that is farther than a later one left anything goes on from there.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.sqlite.connection import SqliteSettings
from loom.plugins.sqlite.session import SqliteSession
from loom.spi.change_feed import PAGE_EVENTS, Change, CursorUnknown, joined
from loom.spi.feed import Wakes, follow_changes
from loom.spi.sessions import Sessions

P = ParamSpec("P")
T = TypeVar("T")

# One statement, which sees one moment: the cuts of which it knows are those of the events that it reads.
_PAGE: Final = """
    SELECT executions.id, events.run, events.sequence, events.position, (SELECT ifnull(max(number), 0) FROM cuts)
    FROM events CROSS JOIN executions ON executions.run = events.run
    WHERE events.position > min(:position, (SELECT ifnull(min(last), :position) FROM cuts WHERE number > :cut))
    ORDER BY events.position LIMIT :limit
"""
_LAST: Final = "SELECT (SELECT ifnull(max(number), 0) FROM cuts), (SELECT ifnull(max(position), 0) FROM events)"
_LAST_POSITION: Final = "SELECT ifnull(max(position), 0) FROM events"
_CUT: Final = "INSERT INTO cuts (last) VALUES (?)"
_SURPASSED: Final = "DELETE FROM cuts WHERE last >= ? AND number < (SELECT max(number) FROM cuts)"
_CURSOR: Final = re.compile(r"(\d{1,18})\.(\d{1,18})", re.ASCII)


class _Cursor(NamedTuple):
    """Behind a position, as positions were after the cut number *cut*."""

    cut: int
    position: int


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
        return _text(*await self._read(_last))

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


@contextlib.contextmanager
def noting_cuts(raw: sqlite3.Connection) -> Iterator[None]:
    """Delete events inside of this, in a transaction: what follows will be behind every cursor that there is."""
    [(before,)] = raw.execute(_LAST_POSITION)
    yield
    [(last,)] = raw.execute(_LAST_POSITION)
    if last < before:
        raw.execute(_CUT, (last,))
        raw.execute(_SURPASSED, (last,))  # who is held back by one of those is held back as far by this one


def _changed(raw: sqlite3.Connection, after: str, limit: int, url: str) -> list[Change]:
    cursor = _cursor(after, url)
    rows = raw.execute(_PAGE, {**cursor._asdict(), "limit": limit}).fetchall()
    last = _last(raw) if not rows else _Cursor(rows[0][4], rows[-1][3])
    if cursor.cut > last.cut or (cursor.cut == last.cut and cursor.position > last.position):
        raise CursorUnknown(after, store=url)
    return joined(
        Change(ExecutionId(name), Incarnation(run), sequence, sequence + 1, _text(cut, position))
        for name, run, sequence, position, cut in rows
    )


def _cursor(after: str, url: str) -> _Cursor:
    found = _CURSOR.fullmatch(after or "0.0")
    if found is None:
        raise CursorUnknown(after, store=url)
    return _Cursor(int(found[1]), int(found[2]))


def _last(raw: sqlite3.Connection) -> _Cursor:
    return _Cursor._make(raw.execute(_LAST).fetchone())


def _text(cut: int, position: int) -> str:
    return f"{cut}.{position}"
