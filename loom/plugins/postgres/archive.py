"""An archive in Postgres: the part of `PostgresStorage` that is an `ArchiveStore`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from loom.core.ids import ExecutionId, Incarnation
from loom.plugins.postgres.session import Raw
from loom.plugins.postgres.writing import key_bytes, key_text
from loom.spi.archive_store import ArchivedLife, refuse_others
from loom.spi.event_store import EventRecord, Request
from loom.spi.tables import AFTER_EVERY_ID, SEQUENCE_END

T = TypeVar("T")

Whose: TypeAlias = tuple[ExecutionId, Incarnation]
"""A life: the id and the incarnation."""

# To write its row, even as it was, holds the life until the transaction ends: of two that archive it, one waits.
_BEGIN: Final = """
    INSERT INTO loom.archived_lives (id, run) VALUES ($1, $2)
    ON CONFLICT (id, run) DO UPDATE SET events = archived_lives.events RETURNING life
"""
_OF_LIFE: Final = {
    "life": "(SELECT life FROM loom.archived_lives WHERE id = $1 AND run = $2)",
    "rows": 10_000,  # so many a page looks at, at most: see reading.py
}
_PAGE: Final = """
    SELECT {columns} FROM (
        SELECT *, sum(octet_length({body})) OVER (ORDER BY {number} ROWS UNBOUNDED PRECEDING) - octet_length({body}) AS before
        FROM (
            SELECT * FROM loom.{table} WHERE life = {life} AND {number} >= $3 AND {number} <= $4
            ORDER BY {number} LIMIT {rows}
        ) AS next
    ) AS sized
    WHERE before <= $5 ORDER BY {number}
"""
_COUNTED: Final = """
    UPDATE loom.archived_lives SET events = events + $2, last = greatest(last, $3), requests = requests + $4 WHERE life = $1
"""
_LIVES: Final = """
    SELECT id, run, events, last, requests FROM loom.archived_lives
    WHERE (id, run) > ($1, $2) AND id >= $3 AND id < $4 ORDER BY id, run LIMIT $5
"""


class _Table(NamedTuple):
    """Where one kind of thing is kept: statements that add one, read some and a page; what a row is, and a thing as a row."""

    what: str
    add: str
    kept: str
    page: str
    read: Callable[[Sequence[Any]], Any]
    row: Callable[[Any], tuple[object, ...]]


_EVENT_COLUMNS: Final = "sequence, type, at, payload, coalesce(metadata, '')"
_EVENTS: Final = _Table(
    "event",
    """
    INSERT INTO loom.archived_events (life, sequence, type, at, payload, metadata)
    VALUES ($1, $2, $3, $4, $5, nullif($6, ''::bytea))
    """,
    f"SELECT {_EVENT_COLUMNS} FROM loom.archived_events WHERE life = $1 AND sequence = ANY ($2)",  # noqa: S608  # our own text
    _PAGE.format(columns=_EVENT_COLUMNS, body="payload", number="sequence", table="archived_events", **_OF_LIFE),
    EventRecord._make,
    tuple,
)
_REQUEST_COLUMNS: Final = "number, kind, key, at, body"
_REQUESTS: Final = _Table(
    "request",
    "INSERT INTO loom.archived_requests (life, number, kind, key, at, body) VALUES ($1, $2, $3, $4, $5, $6)",
    f"SELECT {_REQUEST_COLUMNS} FROM loom.archived_requests WHERE life = $1 AND number = ANY ($2)",  # noqa: S608  # our own text
    _PAGE.format(columns=_REQUEST_COLUMNS, body="body", number="number", table="archived_requests", **_OF_LIFE),
    lambda row: Request(row[0], row[1], key_text(row[2]), row[3], row[4]),
    lambda request: (request.number, request.kind, key_bytes(request.key), request.at, request.body),
)


class PostgresArchive(ABC):
    """Keeps copies; how a statement gets to the database is the storage's business."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The name of the store in messages."""

    @abstractmethod
    async def _read(self, work: Callable[[Raw], Awaitable[T]]) -> T: ...

    @abstractmethod
    async def _change(self, work: Callable[[Raw], Awaitable[T]], *, repeatable: bool = True) -> T: ...

    async def archive(self, execution_id: ExecutionId, incarnation: Incarnation, events: Sequence[EventRecord]) -> None:
        """Keep events; see `ArchiveStore.archive`."""
        await self._keep(_EVENTS, (execution_id, incarnation), {each.sequence: each for each in events})

    async def archive_requests(
        self, execution_id: ExecutionId, incarnation: Incarnation, requests: Sequence[Request]
    ) -> None:
        """Keep requests; see `ArchiveStore.archive_requests`."""
        await self._keep(_REQUESTS, (execution_id, incarnation), {each.number: each for each in requests})

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
        last, whose = SEQUENCE_END if stop is None else stop - 1, (execution_id, incarnation)
        return await self._read(lambda raw: _page(raw, _EVENTS, whose, (start, last, limit_bytes)))

    async def archived_requests(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, after: int = 0, limit_bytes: int = 4 << 20
    ) -> Sequence[Request]:
        """Return a page of the requests kept; see `ArchiveStore.archived_requests`."""
        whose = (execution_id, incarnation)
        return await self._read(lambda raw: _page(raw, _REQUESTS, whose, (after + 1, SEQUENCE_END, limit_bytes)))

    async def archived_lives(
        self, *, prefix: str = "", after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> Sequence[ArchivedLife]:
        """Return the lives of which something is kept; see `ArchiveStore.archived_lives`."""
        given = (*after, prefix, prefix + AFTER_EVERY_ID, limit)
        return [ArchivedLife(*row) for row in await self._read(lambda raw: raw.fetch(_LIVES, *given))]

    async def _keep(self, table: _Table, whose: Whose, given: Mapping[int, Any]) -> None:
        async def work(raw: Raw) -> None:
            async with raw.transaction():
                life = await raw.fetchval(_BEGIN, *whose)
                kept = {row[0]: table.read(row) for row in await raw.fetch(table.kept, life, list(given))}
                refuse_others(kept, given, self.url, (*whose, table.what))
                new = [table.row(each) for number, each in given.items() if number not in kept]
                await raw.executemany(table.add, [(life, *row) for row in new])
                events, last = (len(new), max(given)) if table is _EVENTS else (0, -1)
                await raw.execute(_COUNTED, life, events, last, len(new) - events)

        if given:
            await self._change(work)


async def _page(raw: Raw, table: _Table, whose: Whose, page: tuple[int, int, int]) -> list[Any]:
    """Return a page: from one number to another, up to so many bytes."""
    return [table.read(row) for row in await raw.fetch(table.page, *whose, *page)]
