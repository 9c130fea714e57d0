"""Contents in Postgres, in pieces of a megabyte, in the database of the logs or another.

A content has its address once all of its pieces are there. Each piece is a transaction, so that nobody waits for a long one; what is
removed loses its address first. Every statement may be asked again when its connection was lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import asyncpg

from loom.core.ids import ContentRef, ExecutionId
from loom.plugins.postgres.dsn import address
from loom.plugins.postgres.session import PostgresSession, Raw
from loom.plugins.postgres.settings import PostgresSettings
from loom.spi.clock import Clock, SystemClock
from loom.spi.content_pieces import Named, Piecewise, Stored, incarnation_of, life_of
from loom.spi.content_store import LEFT_BEHIND_MS, Citation, Citer, Content, checked
from loom.spi.errors import StoreNotFound
from loom.spi.feed import Wakes
from loom.spi.sessions import Sessions

T = TypeVar("T")

_NOW: Final = "SELECT loom.clock_ms($1)"
_TOUCH: Final = """
    UPDATE loom.contents SET touched_at = greatest(loom.clock_ms($2), touched_at + 1)
    WHERE ref = $1 RETURNING id, ref, size, touched_at
"""
_BEGIN: Final = "INSERT INTO loom.contents (touched_at) VALUES (loom.clock_ms($1)) RETURNING id"
_ADD: Final = """
    WITH going_on AS (
        UPDATE loom.contents SET touched_at = loom.clock_ms($5), size = $4
        WHERE id = $1 AND ref IS NULL AND touched_at > 0 RETURNING id
    ), added AS (
        INSERT INTO loom.content_pieces (content, start, data)
        SELECT g.id, p.start, p.data FROM going_on AS g, unnest($2::bigint[], $3::bytea[]) AS p (start, data)
        ON CONFLICT (content, start) DO NOTHING
    )
    SELECT count(*) FROM going_on
"""
_NAME: Final = """
    UPDATE loom.contents SET ref = $2, touched_at = loom.clock_ms($3)
    WHERE id = $1 AND ref IS NULL AND touched_at > 0 RETURNING id, ref, size, touched_at
"""
_PUT: Final = """
    WITH kept AS (
        INSERT INTO loom.contents AS c (ref, size, touched_at) VALUES ($1, octet_length($2::bytea), loom.clock_ms($3))
        ON CONFLICT (ref) DO UPDATE SET touched_at = greatest(excluded.touched_at, c.touched_at + 1) RETURNING id
    )
    INSERT INTO loom.content_pieces (content, start, data) SELECT id, 0, $2::bytea FROM kept WHERE octet_length($2::bytea) > 0
    ON CONFLICT (content, start) DO NOTHING
"""
_GIVE_UP: Final = "UPDATE loom.contents SET touched_at = 0 WHERE id = $1 AND ref IS NULL"
_READ: Final = """
    SELECT c.ref, p.data FROM loom.contents AS c LEFT JOIN loom.content_pieces AS p ON p.content = c.id
    WHERE c.ref = ANY ($1::text[]) ORDER BY c.ref, p.start
"""
_FOUND: Final = "SELECT id, size FROM loom.contents WHERE ref = $1"
_PIECE: Final = """
    SELECT start, data FROM loom.content_pieces WHERE content = $1 AND start <= $2 ORDER BY start DESC LIMIT 1
"""
_SIZES: Final = "SELECT ref, size FROM loom.contents WHERE ref = ANY ($1::text[])"
_CITE: Final = """
    WITH touched AS (
        UPDATE loom.contents SET touched_at = greatest(loom.clock_ms($4), touched_at + 1)
        WHERE ref = ANY ($1::text[]) RETURNING ref, touched_at
    )
    INSERT INTO loom.content_citations AS c (ref, execution_id, life, at)
    SELECT t.ref, g.execution_id, g.life, t.touched_at
    FROM unnest($1::text[], $2::text[], $3::bigint[]) AS g (ref, execution_id, life) JOIN touched AS t ON t.ref = g.ref
    ON CONFLICT (ref, execution_id, life) DO UPDATE SET at = excluded.at
"""
_LISTED: Final = "SELECT ref, size, touched_at FROM loom.contents WHERE ref > $1 ORDER BY ref LIMIT $2"
_CITATIONS: Final = "SELECT ref, execution_id, life, at FROM loom.content_citations WHERE ref = ANY ($1::text[])"
# Who cites touches first, so that of a citation and a removal one waits for the other at the row of the content.
_UNNAME: Final = """
    WITH gone AS (
        UPDATE loom.contents SET ref = NULL, touched_at = 0 WHERE ref = $1 AND size = $2 AND touched_at = $3 RETURNING id
    ), uncited AS (
        DELETE FROM loom.content_citations WHERE ref = $1 AND EXISTS (SELECT FROM gone)
    )
    SELECT id FROM gone
"""
_FORGET: Final = """
    DELETE FROM loom.content_citations AS c
    USING unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS g (ref, execution_id, life, at)
    WHERE (c.ref, c.execution_id, c.life, c.at) = (g.ref, g.execution_id, g.life, g.at)
"""
_LEFT: Final = "SELECT id FROM loom.contents WHERE ref IS NULL AND touched_at < loom.clock_ms($1) - $2"
_DROP_SOME: Final = """
    DELETE FROM loom.content_pieces
    WHERE content = $1 AND EXISTS (SELECT FROM loom.contents WHERE id = $1 AND ref IS NULL)
      AND start IN (SELECT start FROM loom.content_pieces WHERE content = $1 LIMIT 64)
    RETURNING 1
"""
_DROP: Final = "DELETE FROM loom.contents WHERE id = $1 AND ref IS NULL"


class PostgresContent(Piecewise):
    """A `ContentStore` in the schema `loom` of a Postgres database: that of `postgres_storage()`, or another.

    It has up to *connections* connections of its own, so that no append waits for a large content. Reading makes no schema. See
    `PostgresStorage` for the rest.
    """

    spi_version: Final = "1.0.0"

    def __init__(self, dsn: str, *, connections: int = 4, timeout_s: float = 30.0, clock: Clock | None = None) -> None:
        about = {"address": address(dsn), "connections": connections, "timeout_s": timeout_s, "clock": clock}
        self._settings = PostgresSettings(readonly=False, **about)  # type: ignore[arg-type]  # the same for both
        reading = PostgresSettings(readonly=True, **about)  # type: ignore[arg-type]
        self._writers = Sessions(partial(PostgresSession, self._settings, Wakes()))
        self._readers = Sessions(partial(PostgresSession, reading, Wakes()))

    @property
    def url(self) -> str:
        """The name of the store in messages, with no secret in it."""
        return self._settings.url

    async def close(self) -> None:
        """Release every connection; the store may be used again."""
        await self._readers.close()
        await self._writers.close()

    async def now_ms(self) -> int:
        """Return the time by the store's clock, which is the server's unless one was given."""
        if self._settings.clock is not None:
            return self._settings.clock.now_ms()
        rows = await self._rows(_NOW, None)
        return int(rows[0][0]) if rows else SystemClock().now_ms()

    async def get_many(self, refs: Collection[ContentRef]) -> Mapping[ContentRef, bytes]:
        """Return the contents that are there; see `ContentReader.get_many`."""
        wanted = [*checked(refs)]
        found: dict[ContentRef, list[bytes]] = {}
        for ref, data in await self._rows(_READ, wanted):
            found.setdefault(ContentRef(ref), []).append(data or b"")
        return {ref: b"".join(pieces) for ref, pieces in found.items()}

    async def sizes(self, refs: Collection[ContentRef]) -> Mapping[ContentRef, int]:
        """Return how large contents are; see `ContentReader.sizes`."""
        wanted = [*checked(refs)]
        return {ContentRef(ref): size for ref, size in await self._rows(_SIZES, wanted)}

    async def cite(self, cited: Collection[tuple[ContentRef, Citer]]) -> None:
        """Note who cites what; see `ContentWriter.cite`."""
        checked([ref for ref, _ in cited])
        if not cited:
            return
        pairs = sorted({(ref, citer.execution_id, life_of(citer.incarnation)) for ref, citer in cited})
        columns = [list(column) for column in zip(*pairs, strict=True)]
        await self._change(lambda raw: raw.execute(_CITE, *columns, self._settings.now_ms))

    async def contents(self, *, after: str = "", limit: int = 1000) -> Sequence[Content]:
        """Return contents in the order of their addresses; see `ContentKeeper.contents`."""
        return [Content(*row) for row in await self._rows(_LISTED, after, limit)]

    async def citations(self, refs: Collection[ContentRef]) -> Sequence[Citation]:
        """Return all citations of *refs*."""
        wanted = [*checked(refs)]
        return [
            Citation(ContentRef(ref), Citer(ExecutionId(run_id), incarnation_of(life)), at)
            for ref, run_id, life, at in await self._rows(_CITATIONS, wanted)
        ]

    async def forget(self, citations: Collection[Citation]) -> None:
        """Drop citations that were not made again since; see `ContentKeeper.forget`."""
        checked([citation.ref for citation in citations])
        rows = [(ref, citer.execution_id, life_of(citer.incarnation), at) for ref, citer, at in citations]
        columns = [list(column) for column in zip(*rows, strict=True)]
        if columns:
            await self._change(lambda raw: raw.execute(_FORGET, *columns))

    async def _touch(self, ref: ContentRef) -> Content | None:
        row = await self._change(lambda raw: raw.fetchrow(_TOUCH, ref, self._settings.now_ms))
        return None if row is None else Content(*row[1:])

    async def _begin(self) -> int:
        return int(await self._change(lambda raw: raw.fetchval(_BEGIN, self._settings.now_ms)))

    async def _add(self, draft: int, start: int, pieces: Sequence[bytes]) -> bool:
        starts = []
        for piece in pieces:
            starts.append(start)
            start += len(piece)
        given = (draft, starts, list(pieces), start)
        return bool(await self._change(lambda raw: raw.fetchval(_ADD, *given, self._settings.now_ms)))

    async def _name(self, draft: int, ref: ContentRef) -> Named | None:
        async def work(raw: Raw) -> Named | None:
            now = self._settings.now_ms
            if (known := await raw.fetchrow(_TOUCH, ref, now)) is None:
                try:
                    async with raw.transaction():
                        known = await raw.fetchrow(_NAME, draft, ref, now)
                except asyncpg.UniqueViolationError:  # somebody else was first just now
                    known = await raw.fetchrow(_TOUCH, ref, now)
            return None if known is None else Named(Content(*known[1:]), is_kept=known[0] == draft)

        return await self._change(work)

    async def _put_whole(self, ref: ContentRef, data: bytes) -> None:
        if await self._touch(ref) is None:
            await self._change(lambda raw: raw.execute(_PUT, ref, data, self._settings.now_ms))

    async def _find(self, ref: ContentRef) -> Stored | None:
        return next((Stored(*row) for row in await self._rows(_FOUND, ref)), None)

    async def _piece(self, stored: Stored, at: int) -> tuple[int, bytes] | None:
        return next(((row[0], row[1]) for row in await self._rows(_PIECE, stored.id, at)), None)

    async def _unname(self, content: Content) -> int | None:
        draft: int | None = await self._change(lambda raw: raw.fetchval(_UNNAME, *content))
        return draft

    async def _give_up(self, draft: int) -> None:
        await self._change(lambda raw: raw.execute(_GIVE_UP, draft))

    async def _drop_some(self, draft: int) -> bool:
        if await self._change(lambda raw: raw.fetch(_DROP_SOME, draft)):
            return True
        await self._change(lambda raw: raw.execute(_DROP, draft))
        return False

    async def _left(self) -> Sequence[int]:
        return [row[0] for row in await self._rows(_LEFT, self._settings.now_ms, LEFT_BEHIND_MS)]

    async def _rows(self, statement: str, *given: object) -> list[Any]:
        """Return the rows that a statement reads; where there is no store there are none, and none is made."""
        try:
            rows: list[Any] = await self._readers.current().run(lambda raw: raw.fetch(statement, *given))
        except StoreNotFound:
            return []
        return rows

    async def _change(self, work: Callable[[Raw], Awaitable[T]]) -> T:
        return await self._writers.current().run(work)
