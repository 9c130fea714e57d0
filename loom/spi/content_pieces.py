"""What adapters share that keep contents as rows of pieces: putting piece by piece, streaming, and removing a little at a time.

A *draft* is a content without an address: one that is being put, or one that is being removed.
"""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Collection, Iterator, Sequence
from contextlib import aclosing, suppress
from typing import Final, NamedTuple

from loom.core.ids import ContentRef, Incarnation, content_ref
from loom.spi.content_store import PIECE_BYTES_MAX, Content, ContentMissing, address_of, checked, gathered
from loom.spi.errors import StoreError, StoreUnavailable

NO_LIFE: Final = -1
"""What stands in a row for the life of an execution that has no number yet."""


class Stored(NamedTuple):
    """A content in its table."""

    id: int
    size: int


class Named(NamedTuple):
    """What became of a draft that was to get an address: *is_kept* is False where the content was there already."""

    content: Content
    is_kept: bool


class Piecewise(ABC):
    """The part of a `ContentStore` that no table knows of. Each method below is one transaction."""

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    async def _touch(self, ref: ContentRef) -> Content | None:
        """Touch a content; None when it is not there."""

    @abstractmethod
    async def _begin(self) -> int:
        """Return the id of an empty draft."""

    @abstractmethod
    async def _add(self, draft: int, start: int, pieces: Sequence[bytes]) -> bool:
        """Add *pieces* to a draft from the byte *start* on, and touch it; False when it is gone."""

    @abstractmethod
    async def _name(self, draft: int, ref: ContentRef) -> Named | None:
        """Give a draft its address, or touch the content that has it; None when the draft is gone."""

    @abstractmethod
    async def _put_whole(self, ref: ContentRef, data: bytes) -> None:
        """Keep what is one piece, or touch it."""

    @abstractmethod
    async def _find(self, ref: ContentRef) -> Stored | None:
        """Return where a content is."""

    @abstractmethod
    async def _piece(self, stored: Stored, at: int) -> tuple[int, bytes] | None:
        """Return the last piece that begins at or before the byte *at*, with where it begins."""

    @abstractmethod
    async def _unname(self, content: Content) -> int | None:
        """Make a draft of a content that was not touched since it was listed, drop its citations, and return its id."""

    @abstractmethod
    async def _give_up(self, draft: int) -> None:
        """Let a draft count as old."""

    @abstractmethod
    async def _drop_some(self, draft: int) -> bool:
        """Delete some pieces of a draft, and with the last ones itself; return whether some are left."""

    @abstractmethod
    async def _left(self) -> Sequence[int]:
        """Return the drafts that were touched last more than a day ago."""

    async def put(self, data: bytes) -> ContentRef:
        """Keep *data* and return its address; see `ContentWriter.put`."""
        ref = address_of(data)
        if len(data) <= PIECE_BYTES_MAX:
            await self._put_whole(ref, data)
        elif await self._touch(ref) is None:
            await self.put_stream(_slices(data))
        return ref

    async def put_stream(self, pieces: AsyncIterable[bytes]) -> Content:
        """Keep what *pieces* yields; see `ContentWriter.put_stream`."""
        draft = await self._begin()
        try:
            hashed = hashlib.sha256()
            async with aclosing(gathered(pieces)) as larger:
                size = 0
                async for data in larger:
                    hashed.update(data)
                    self._require(await self._add(draft, size, list(_cut(data))))
                    size += len(data)
            named = await self._name(draft, ContentRef(hashed.hexdigest()))
            self._require(named is not None)
        except BaseException:
            await asyncio.shield(self._discarded(draft))
            raise
        assert named is not None
        if not named.is_kept:
            await self._discarded(draft)
        return named.content

    def _require(self, is_there: bool) -> None:
        if not is_there:
            hint = "A stream that gives nothing for a day is taken for one that was cut off. Begin again."
            raise StoreUnavailable("what was put so far has been tidied away", store=self.url, hint=hint)

    async def _discarded(self, draft: int) -> None:
        """Let go of a draft; what cannot be deleted now goes with the next tidying."""
        with suppress(StoreError):
            await self._give_up(draft)
            await self._drop(draft)

    async def _drop(self, draft: int) -> None:
        while await self._drop_some(draft):
            pass  # between two transactions others write

    async def stream(self, ref: ContentRef, *, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes of a content; see `ContentReader.stream`."""
        stored = await self._find(content_ref(ref))
        if stored is None:
            raise ContentMissing(ref=ref, store=self.url)
        end = stored.size if stop is None else min(stop, stored.size)
        while start < end:
            begins, data = await self._piece(stored, start) or (0, b"")
            part = data[start - begins : end - begins]
            if not part:
                raise ContentMissing(ref=ref, store=self.url)
            yield part
            start += len(part)

    async def remove(self, contents: Collection[Content]) -> Collection[ContentRef]:
        """Remove what was not touched since it was listed; see `ContentKeeper.remove`."""
        checked([content.ref for content in contents])
        removed = []
        for content in contents:
            if (draft := await self._unname(content)) is not None:
                removed.append(content.ref)
                await self._drop(draft)
        return removed

    async def tidy(self) -> int:
        """Remove what puts and removals that were cut off have left; see `ContentKeeper.tidy`."""
        left = await self._left()
        for draft in left:
            await self._drop(draft)
        return len(left)


def life_of(incarnation: Incarnation | None) -> int:
    """Return what stands in a row for a life."""
    return NO_LIFE if incarnation is None else incarnation


def incarnation_of(life: int) -> Incarnation | None:
    """Return the life that stands in a row."""
    return None if life == NO_LIFE else Incarnation(life)


async def _slices(data: bytes) -> AsyncGenerator[bytes]:
    for piece in _cut(data):
        yield piece


def _cut(data: bytes) -> Iterator[bytes]:
    view = memoryview(data)
    for start in range(0, len(data), PIECE_BYTES_MAX):
        yield bytes(view[start : start + PIECE_BYTES_MAX])
