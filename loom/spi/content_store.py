"""Where contents live that are too large for a log: bytes by the address that they are (ADR 0046 of the specification).

A content is kept once, under the SHA-256 of its bytes. A log that holds such an address *cites* the content; the store
knows who cites what, and when, so that a sweep can tell what nobody needs any more. A content's *touch* is the last time
that it was put or cited: what was touched after a sweep had looked is not removed by it.

The driver of a run cites before it appends, so that there is never a log that names a content and no citation of it. All times
are in milliseconds since the epoch, by the store's clock.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from loom.core.ids import ContentRef, ExecutionId, Incarnation, content_ref
from loom.spi.errors import StoreError

CONTENT_STORE_SPI_VERSION: Final = "1.0.0"

PIECE_BYTES_MAX: Final = 1 << 20
"""So large are the pieces in which a content is streamed out, at most."""

LEFT_BEHIND_MS: Final = 24 * 3_600_000
"""What a put that was cut off has left may go after so long."""


class ContentMissing(StoreError):
    """A content is not in the store: it was swept, or belongs to another store."""

    code = "content-missing"

    def __init__(self, *, ref: str, store: str) -> None:
        self.ref = ref
        hint = "Its run can be replayed all the same. Restore the content, or retry the step that made it."
        super().__init__(f"the content {ref} is not there", store=store, hint=hint)


class Content(NamedTuple):
    """A content as a store lists it: *size* in bytes, *touched_at* when it was last put or cited."""

    ref: ContentRef
    size: int
    touched_at: int


class Citer(NamedTuple):
    """Who cites: an execution. *incarnation* is None where its log is about to begin, so that its life has no number yet."""

    execution_id: ExecutionId
    incarnation: Incarnation | None


class Citation(NamedTuple):
    """*by* cites the content at *ref*, since *at* for the last time."""

    ref: ContentRef
    by: Citer
    at: int


class ContentReader(Protocol):
    """Contents out. An address that is none is refused (`InvalidId`) before anything is looked for."""

    async def get_many(self, refs: Collection[ContentRef]) -> Mapping[ContentRef, bytes]:
        """Return the contents that are there of *refs*, all in one visit to the store."""
        ...

    def stream(self, ref: ContentRef, *, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes of a content from *start* up to but not including *stop* (None: the end), in small pieces.

        No piece is larger than `PIECE_BYTES_MAX`, and none is empty. Closing the iterator releases everything.

        Raises:
            ContentMissing: it is not there, or was removed meanwhile.
        """
        ...

    async def sizes(self, refs: Collection[ContentRef]) -> Mapping[ContentRef, int]:
        """Return how large, in bytes, the contents are that are there of *refs*."""
        ...


class ContentWriter(Protocol):
    """Contents in, and who cites them. On return, what is written survives a crash of the machine."""

    async def put(self, data: bytes) -> ContentRef:
        """Keep *data* and return its address. What is there already is kept once, and touched."""
        ...

    async def put_stream(self, pieces: AsyncIterable[bytes]) -> Content:
        """Keep what *pieces* yields, of any length, with little of it in memory; it can be read once all of it is there.

        Where *pieces* raises, or the caller is cancelled, nothing is kept.
        """
        ...

    async def cite(self, cited: Collection[tuple[ContentRef, Citer]]) -> None:
        """Note for each pair that the content is cited, and touch it. What is not there cannot be cited, and is left out."""
        ...


class ContentKeeper(Protocol):
    """What a sweep needs."""

    async def now_ms(self) -> int:
        """Return the time by the store's clock."""
        ...

    async def contents(self, *, after: str = "", limit: int = 1000) -> Sequence[Content]:
        """Return up to *limit* contents whose address is greater than *after*, in the order of their addresses."""
        ...

    async def citations(self, refs: Collection[ContentRef]) -> Sequence[Citation]:
        """Return all citations of *refs*."""
        ...

    async def remove(self, contents: Collection[Content]) -> Collection[ContentRef]:
        """Remove each of *contents*, with its citations, unless it was touched after it was listed; return which were removed.

        One at a time, each whole or not at all. One that is put again later is as if it had never been there.
        """
        ...

    async def forget(self, citations: Collection[Citation]) -> None:
        """Drop each of *citations*, unless it was made again after it was listed. This touches nothing."""
        ...

    async def tidy(self) -> int:
        """Remove what puts that were cut off more than a day ago have left, and return how many there were."""
        ...


@runtime_checkable
class ContentStore(ContentReader, ContentWriter, ContentKeeper, Protocol):
    """All of it in one object, with a life of its own. It belongs to one store of logs, whose runs alone cite.

    *url* names it in messages (never with a password). Nothing is opened before first use, and reading makes nothing; `close`
    releases every connection, thread and handle, and the object may be used again afterwards.

    Raises (every method):
        StoreUnavailable: unreachable, full, or it may not be written; nothing was written in part.
        StoreCorrupt, StoreNewer: damaged, or written by a newer Loom.
    """

    @property
    def url(self) -> str: ...

    async def close(self) -> None: ...


@runtime_checkable
class HasContent(Protocol):
    """A store of logs that knows where the contents of its runs live, unless an app says otherwise."""

    def content_store(self) -> ContentStore:
        """Return that store, the same each time; it opens nothing yet."""
        ...


def address_of(data: bytes) -> ContentRef:
    """Return the address of *data*."""
    return ContentRef(hashlib.sha256(data).hexdigest())


def checked(refs: Collection[str]) -> Collection[ContentRef]:
    """Return *refs*, all of which are addresses, each once.

    Raises:
        InvalidId: one is none.
    """
    return dict.fromkeys(content_ref(ref) for ref in refs).keys()


def next_touch(now_ms: int, touched_at: int) -> int:
    """Return the touch after *touched_at*: later than that, though the clock may stand or step back."""
    return max(now_ms, touched_at + 1)


async def gathered(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """Yield *pieces* in larger ones, a megabyte each if they are small; closing it closes them."""
    held: list[bytes] = []
    size = 0
    try:
        async for piece in pieces:
            held.append(piece)
            size += len(piece)
            if size >= PIECE_BYTES_MAX:
                yield b"".join(held)
                held, size = [], 0
        if size:
            yield b"".join(held)
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
