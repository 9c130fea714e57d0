"""An archive in SQLite: the part of `SqliteStorage` that is an `ArchiveStore`."""

from __future__ import annotations

import contextlib
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.archive_store import ArchivedLife, refuse_others
from loom.spi.event_store import EventRecord, Request
from loom.spi.paging import first_page
from loom.spi.tables import AFTER_EVERY_ID, SEQUENCE_END

P = ParamSpec("P")
T = TypeVar("T")

Whose: TypeAlias = tuple[ExecutionId, Incarnation]
"""A life: the id and the incarnation."""

_LIFE: Final = "SELECT life FROM archived_lives WHERE id = ? AND run = ?"
_BEGIN: Final = "INSERT OR IGNORE INTO archived_lives (id, run) VALUES (?, ?)"
_EVENTS: Final = """
    SELECT sequence, type, at, payload, ifnull(metadata, x'') FROM archived_events
    WHERE life = (SELECT life FROM archived_lives WHERE id = ? AND run = ?) AND sequence BETWEEN ? AND ? ORDER BY sequence
"""
_ADD_EVENT: Final = """
    INSERT INTO archived_events (life, sequence, type, at, payload, metadata) VALUES (?, ?, ?, ?, ?, nullif(?, x''))
"""
_REQUESTS: Final = """
    SELECT number, kind, key, at, body FROM archived_requests
    WHERE life = (SELECT life FROM archived_lives WHERE id = ? AND run = ?) AND number BETWEEN ? AND ? ORDER BY number
"""
_ADD_REQUEST: Final = "INSERT INTO archived_requests (life, number, kind, key, at, body) VALUES (?, ?, ?, ?, ?, ?)"
_COUNTED: Final = """
    UPDATE archived_lives SET events = events + ?, last = max(last, ?), requests = requests + ? WHERE life = ?
"""
_LIVES: Final = """
    SELECT id, run, events, last, requests FROM archived_lives
    WHERE (id, run) > (?, ?) AND id >= ? AND id < ? ORDER BY id, run LIMIT ?
"""


class SqliteArchive(ABC):
    """Keeps copies; how a statement gets to the database is the storage's business."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The name of the store in messages."""

    @abstractmethod
    async def _read(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @abstractmethod
    async def _transact(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def archive(self, execution_id: ExecutionId, incarnation: Incarnation, events: Sequence[EventRecord]) -> None:
        """Keep events; see `ArchiveStore.archive`."""
        await self._transact(
            _keep_events, (execution_id, incarnation), {each.sequence: each for each in events}, self.url
        )

    async def archive_requests(
        self, execution_id: ExecutionId, incarnation: Incarnation, requests: Sequence[Request]
    ) -> None:
        """Keep requests; see `ArchiveStore.archive_requests`."""
        await self._transact(
            _keep_requests, (execution_id, incarnation), {each.number: each for each in requests}, self.url
        )

    async def read_archived(
        self,
        execution_id: ExecutionId,
        incarnation: Incarnation,
        *,
        start: int = 0,
        stop: int | None = None,
        limit_bytes: int = 4 << 20,
    ) -> Sequence[EventRecord]:
        """Return a page of the events kept; see `ArchiveStore.read_archived`."""
        last = SEQUENCE_END if stop is None else stop - 1
        return await self._read(_events, (execution_id, incarnation), start, last, limit_bytes=limit_bytes)

    async def archived_requests(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, after: int = 0, limit_bytes: int = 4 << 20
    ) -> Sequence[Request]:
        """Return a page of the requests kept; see `ArchiveStore.archived_requests`."""
        return await self._read(
            _requests, (execution_id, incarnation), after + 1, SEQUENCE_END, limit_bytes=limit_bytes
        )

    async def archived_lives(
        self, *, prefix: str = "", after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> Sequence[ArchivedLife]:
        """Return the lives of which something is kept; see `ArchiveStore.archived_lives`."""
        return await self._read(_lives, (*after, prefix, prefix + AFTER_EVERY_ID, limit))


def _events(
    raw: sqlite3.Connection, whose: Whose, first: int, last: int, *, limit_bytes: int = SEQUENCE_END
) -> list[EventRecord]:
    with contextlib.closing(
        raw.execute(_EVENTS, (*whose, first, last))
    ) as rows:  # closing it ends the read transaction
        return first_page(map(EventRecord._make, rows), lambda event: len(event.payload), limit_bytes)


def _requests(
    raw: sqlite3.Connection, whose: Whose, first: int, last: int, *, limit_bytes: int = SEQUENCE_END
) -> list[Request]:
    with contextlib.closing(raw.execute(_REQUESTS, (*whose, first, last))) as rows:
        return first_page(map(_request, rows), lambda request: len(request.body), limit_bytes)


def _request(row: Sequence[Any]) -> Request:
    number, kind, key, at, body = row
    return Request(number, kind, key.decode("utf-8", "surrogatepass"), at, body)


def _keep_events(raw: sqlite3.Connection, whose: Whose, given: dict[int, EventRecord], url: str) -> None:
    """Add the events that are not there yet: the inside of a transaction."""
    if not given:
        return
    kept = {each.sequence: each for each in _events(raw, whose, min(given), max(given))}
    refuse_others(kept, given, url, (*whose, "event"))
    new = [each for sequence, each in given.items() if sequence not in kept]
    life = _begun(raw, whose)
    raw.executemany(_ADD_EVENT, [(life, *each) for each in new])
    raw.execute(_COUNTED, (len(new), max(given), 0, life))


def _keep_requests(raw: sqlite3.Connection, whose: Whose, given: dict[int, Request], url: str) -> None:
    """Add the requests that are not there yet: the inside of a transaction."""
    if not given:
        return
    kept = {each.number: each for each in _requests(raw, whose, min(given), max(given))}
    refuse_others(kept, given, url, (*whose, "request"))
    new = [each for number, each in given.items() if number not in kept]
    life = _begun(raw, whose)
    rows = [(life, number, kind, key.encode("utf-8", "surrogatepass"), at, body) for number, kind, key, at, body in new]
    raw.executemany(_ADD_REQUEST, rows)
    raw.execute(_COUNTED, (0, -1, len(new), life))


def _begun(raw: sqlite3.Connection, whose: Whose) -> int:
    """Return the number by which the archive knows a life, from now on."""
    raw.execute(_BEGIN, whose)
    [life] = raw.execute(_LIFE, whose).fetchone()
    return int(life)


def _lives(raw: sqlite3.Connection, given: tuple[Any, ...]) -> list[ArchivedLife]:
    return [ArchivedLife._make(row) for row in raw.execute(_LIVES, given)]
