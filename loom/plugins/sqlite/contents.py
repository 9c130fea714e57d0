"""Contents in SQLite, in pieces of a megabyte: in the database of the logs, or in a file of their own.

A content has its address once all of its pieces are there. One that is put piece by piece holds no transaction meanwhile, so that
others write in between; one that is removed loses its address first, and its pieces a few at a time.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

import orjson

from loom.core.ids import ContentRef, ExecutionId
from loom.plugins.sqlite.connection import SqliteSettings
from loom.plugins.sqlite.location import must_name_a_file, store_location
from loom.plugins.sqlite.session import SqliteSession
from loom.spi.clock import Clock, SystemClock
from loom.spi.content_pieces import Named, Piecewise, Stored, incarnation_of, life_of
from loom.spi.content_store import LEFT_BEHIND_MS, Citation, Citer, Content, checked
from loom.spi.sessions import Sessions

P = ParamSpec("P")
T = TypeVar("T")

_TOUCH: Final = """
    UPDATE contents SET touched_at = max(:now, touched_at + 1) WHERE ref = :ref RETURNING ref, size, touched_at
"""
_BEGIN: Final = "INSERT INTO contents (touched_at) VALUES (?) RETURNING id"
_ADD: Final = "INSERT INTO content_pieces (content, start, data) VALUES (?, ?, ?)"
_GOING_ON: Final = "UPDATE contents SET touched_at = ?, size = ? WHERE id = ? AND ref IS NULL AND touched_at > 0"
_NAME: Final = "UPDATE contents SET ref = :ref, touched_at = :now WHERE id = :id AND ref IS NULL AND touched_at > 0 RETURNING ref, size, touched_at"
_GIVE_UP: Final = "UPDATE contents SET touched_at = 0 WHERE id = ? AND ref IS NULL"
_READ: Final = """
    SELECT c.ref, p.data FROM contents AS c LEFT JOIN content_pieces AS p ON p.content = c.id
    WHERE c.ref IN (SELECT value FROM json_each(:refs)) ORDER BY c.ref, p.start
"""
_FOUND: Final = "SELECT id, size FROM contents WHERE ref = ?"
_PIECE: Final = """
    SELECT start, data FROM content_pieces WHERE content = ? AND start <= ? ORDER BY start DESC LIMIT 1
"""
_SIZES: Final = "SELECT ref, size FROM contents WHERE ref IN (SELECT value FROM json_each(:refs))"
_CITE: Final = """
    INSERT INTO content_citations (ref, execution_id, life, at) VALUES (?, ?, ?, ?)
    ON CONFLICT (ref, execution_id, life) DO UPDATE SET at = excluded.at
"""
_LISTED: Final = "SELECT ref, size, touched_at FROM contents WHERE ref > ? ORDER BY ref LIMIT ?"
_CITATIONS: Final = (
    "SELECT ref, execution_id, life, at FROM content_citations WHERE ref IN (SELECT value FROM json_each(:refs))"
)
_UNNAME: Final = """
    UPDATE contents SET ref = NULL, touched_at = 0 WHERE ref = ? AND size = ? AND touched_at = ? RETURNING id
"""
_UNCITE: Final = "DELETE FROM content_citations WHERE ref = ?"
_FORGET: Final = "DELETE FROM content_citations WHERE ref = ? AND execution_id = ? AND life = ? AND at = ?"
_LEFT: Final = "SELECT id FROM contents WHERE ref IS NULL AND touched_at < ?"
_DROP_SOME: Final = """
    DELETE FROM content_pieces
    WHERE id IN (SELECT id FROM content_pieces WHERE content = :id LIMIT 16)
      AND EXISTS (SELECT 1 FROM contents WHERE id = :id AND ref IS NULL)
"""
_DROP: Final = "DELETE FROM contents WHERE id = ? AND ref IS NULL"


class SqliteContent(Piecewise):
    """A `ContentStore` in an SQLite file: that of `sqlite_storage()`, or one of its own.

    Without a *path* it is where the `loom` command looks for the logs. Reading makes no file. See `SqliteStorage` for the rest.
    """

    spi_version: Final = "1.0.0"

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, busy_timeout_s: float = 10.0, clock: Clock | None = None
    ) -> None:
        if path is not None:
            must_name_a_file(path)
        self._settings = SqliteSettings(
            path=Path(store_location().path if path is None else path).absolute(),
            readonly=False,
            busy_timeout_s=busy_timeout_s,
            checkpoint_bytes=4 << 20,
            clock=clock or SystemClock(),
        )
        self._sessions = Sessions(partial(SqliteSession, self._settings))

    @property
    def url(self) -> str:
        """The name of the store in messages."""
        return self._settings.url

    async def close(self) -> None:
        """Release every connection and thread; the store may be used again."""
        await self._sessions.close()

    async def now_ms(self) -> int:
        """Return the time by the store's clock."""
        return self._settings.clock.now_ms()

    async def get_many(self, refs: Collection[ContentRef]) -> Mapping[ContentRef, bytes]:
        """Return the contents that are there; see `ContentReader.get_many`."""
        return await self._read({}, _contents, _json(refs))

    async def sizes(self, refs: Collection[ContentRef]) -> Mapping[ContentRef, int]:
        """Return how large contents are; see `ContentReader.sizes`."""
        return await self._read({}, _sizes, _json(refs))

    async def cite(self, cited: Collection[tuple[ContentRef, Citer]]) -> None:
        """Note who cites what; see `ContentWriter.cite`."""
        checked([ref for ref, _ in cited])
        if cited:
            await self._transact(_cited, cited, self._now())

    async def contents(self, *, after: str = "", limit: int = 1000) -> Sequence[Content]:
        """Return contents in the order of their addresses; see `ContentKeeper.contents`."""
        return await self._read([], _listed, after, limit)

    async def citations(self, refs: Collection[ContentRef]) -> Sequence[Citation]:
        """Return all citations of *refs*."""
        return await self._read([], _citations, _json(refs))

    async def forget(self, citations: Collection[Citation]) -> None:
        """Drop citations that were not made again since; see `ContentKeeper.forget`."""
        checked([citation.ref for citation in citations])
        if citations:
            await self._transact(_forgotten, citations)

    async def _touch(self, ref: ContentRef) -> Content | None:
        return await self._transact(_touched, ref, self._now())

    async def _begin(self) -> int:
        return await self._transact(_begun, self._now())

    async def _add(self, draft: int, start: int, pieces: Sequence[bytes]) -> bool:
        return await self._transact(_added, draft, start, pieces=pieces, now=self._now())

    async def _name(self, draft: int, ref: ContentRef) -> Named | None:
        return await self._transact(_named, draft, ref, now=self._now())

    async def _put_whole(self, ref: ContentRef, data: bytes) -> None:
        await self._transact(_put, ref, data, now=self._now())

    async def _find(self, ref: ContentRef) -> Stored | None:
        return await self._read(None, _found, ref)

    async def _piece(self, stored: Stored, at: int) -> tuple[int, bytes] | None:
        return await self._read(None, _piece, stored.id, at)

    async def _unname(self, content: Content) -> int | None:
        return await self._transact(_unnamed, content)

    async def _give_up(self, draft: int) -> None:
        await self._transact(_given_up, draft)

    async def _drop_some(self, draft: int) -> bool:
        return await self._transact(_dropped_some, draft)

    async def _left(self) -> Sequence[int]:
        return await self._read([], _left, self._now() - LEFT_BEHIND_MS)

    def _now(self) -> int:
        return self._settings.clock.now_ms()

    async def _read(
        self, none: T, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what *work* reads; where there is no file, *none*, and none is made."""
        if not self._settings.path.exists():
            return none
        reader = await self._sessions.current().reader()
        result: T = await reader.ask(lambda raw: work(raw, *args, **kwargs), gather=True)
        return result

    async def _transact(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        writer = await self._sessions.current().writer()
        return await writer.run(lambda database: database.run(work, *args, **kwargs))


def _json(refs: Collection[str]) -> str:
    return orjson.dumps([*checked(refs)]).decode()


# Each of these is what a transaction does, or one that reads.


def _touched(raw: sqlite3.Connection, ref: str, now: int) -> Content | None:
    row = raw.execute(_TOUCH, {"ref": ref, "now": now}).fetchone()
    return None if row is None else Content._make(row)


def _begun(raw: sqlite3.Connection, now: int) -> int:
    return int(raw.execute(_BEGIN, (now,)).fetchone()[0])


def _added(raw: sqlite3.Connection, draft: int, start: int, *, pieces: Sequence[bytes], now: int) -> bool:
    size = start + sum(map(len, pieces))
    if raw.execute(_GOING_ON, (now, size, draft)).rowcount != 1:
        return False
    for piece in pieces:
        raw.execute(_ADD, (draft, start, piece))
        start += len(piece)
    return True


def _named(raw: sqlite3.Connection, draft: int, ref: str, *, now: int) -> Named | None:
    if (known := _touched(raw, ref, now)) is not None:
        return Named(known, is_kept=False)
    row = raw.execute(_NAME, {"ref": ref, "now": now, "id": draft}).fetchone()
    return None if row is None else Named(Content._make(row), is_kept=True)


def _put(raw: sqlite3.Connection, ref: str, data: bytes, *, now: int) -> None:
    if _touched(raw, ref, now) is None:
        draft = _begun(raw, now)
        _added(raw, draft, 0, pieces=[data] if data else [], now=now)
        _named(raw, draft, ref, now=now)


def _contents(raw: sqlite3.Connection, refs: str) -> dict[ContentRef, bytes]:
    found: dict[ContentRef, list[bytes]] = {}
    for ref, data in raw.execute(_READ, {"refs": refs}):
        found.setdefault(ContentRef(ref), []).append(data or b"")
    return {ref: b"".join(pieces) for ref, pieces in found.items()}


def _found(raw: sqlite3.Connection, ref: str) -> Stored | None:
    row = raw.execute(_FOUND, (ref,)).fetchone()
    return None if row is None else Stored._make(row)


def _piece(raw: sqlite3.Connection, content: int, at: int) -> tuple[int, bytes] | None:
    row: tuple[int, bytes] | None = raw.execute(_PIECE, (content, at)).fetchone()
    return row


def _sizes(raw: sqlite3.Connection, refs: str) -> dict[ContentRef, int]:
    return {ContentRef(ref): size for ref, size in raw.execute(_SIZES, {"refs": refs})}


def _cited(raw: sqlite3.Connection, cited: Collection[tuple[ContentRef, Citer]], now: int) -> None:
    touched = {ref: _touched(raw, ref, now) for ref in dict.fromkeys(ref for ref, _ in cited)}
    there = [(content, citer) for ref, citer in cited if (content := touched[ref]) is not None]
    rows = [(each.ref, citer.execution_id, life_of(citer.incarnation), each.touched_at) for each, citer in there]
    raw.executemany(_CITE, rows)


def _listed(raw: sqlite3.Connection, after: str, limit: int) -> list[Content]:
    return [Content._make(row) for row in raw.execute(_LISTED, (after, limit))]


def _citations(raw: sqlite3.Connection, refs: str) -> list[Citation]:
    return [
        Citation(ContentRef(ref), Citer(ExecutionId(run_id), incarnation_of(life)), at)
        for ref, run_id, life, at in raw.execute(_CITATIONS, {"refs": refs})
    ]


def _unnamed(raw: sqlite3.Connection, content: Content) -> int | None:
    row = raw.execute(_UNNAME, content).fetchone()
    if row is None:
        return None
    raw.execute(_UNCITE, (content.ref,))
    return int(row[0])


def _forgotten(raw: sqlite3.Connection, citations: Iterable[Citation]) -> None:
    rows = [(ref, citer.execution_id, life_of(citer.incarnation), at) for ref, citer, at in citations]
    raw.executemany(_FORGET, rows)


def _left(raw: sqlite3.Connection, before: int) -> list[int]:
    return [row[0] for row in raw.execute(_LEFT, (before,))]


def _given_up(raw: sqlite3.Connection, draft: int) -> None:
    raw.execute(_GIVE_UP, (draft,))


def _dropped_some(raw: sqlite3.Connection, draft: int) -> bool:
    if raw.execute(_DROP_SOME, {"id": draft}).rowcount > 0:
        return True
    raw.execute(_DROP, (draft,))
    return False
