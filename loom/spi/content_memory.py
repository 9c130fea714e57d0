"""Contents in memory: for tests, trials and one process."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from loom.core.ids import ContentRef, content_ref
from loom.spi.clock import Clock, SystemClock
from loom.spi.content_store import (
    PIECE_BYTES_MAX,
    Citation,
    Citer,
    Content,
    ContentMissing,
    address_of,
    checked,
    gathered,
    next_touch,
)


@dataclass(slots=True)
class _Kept:
    data: bytes
    touched_at: int
    citers: dict[Citer, int] = field(default_factory=dict)


class MemoryContent:
    """A `ContentStore` that forgets everything with the object. *clock* is the one by which touches are told."""

    spi_version: Final = "1.0.0"

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._kept: dict[ContentRef, _Kept] = {}

    @property
    def url(self) -> str:
        """The name of the store in messages."""
        return "memory:"

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    async def now_ms(self) -> int:
        """Return the time by the store's clock."""
        return self._clock.now_ms()

    async def get_many(self, refs: Collection[ContentRef]) -> Mapping[ContentRef, bytes]:
        """Return the contents that are there; see `ContentReader.get_many`."""
        return {ref: self._kept[ref].data for ref in checked(refs) if ref in self._kept}

    async def stream(self, ref: ContentRef, *, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes of a content; see `ContentReader.stream`."""
        kept = self._kept.get(content_ref(ref))
        if kept is None:
            raise ContentMissing(ref=ref, store=self.url)
        wanted = memoryview(kept.data)[start:stop]
        for begin in range(0, len(wanted), PIECE_BYTES_MAX):
            yield bytes(wanted[begin : begin + PIECE_BYTES_MAX])

    async def sizes(self, refs: Collection[ContentRef]) -> Mapping[ContentRef, int]:
        """Return how large contents are; see `ContentReader.sizes`."""
        return {ref: len(self._kept[ref].data) for ref in checked(refs) if ref in self._kept}

    async def put(self, data: bytes) -> ContentRef:
        """Keep *data* and return its address; see `ContentWriter.put`."""
        return self._keep(address_of(data), bytes(data)).ref

    async def put_stream(self, pieces: AsyncIterable[bytes]) -> Content:
        """Keep what *pieces* yields; see `ContentWriter.put_stream`. Here, all of it is in memory."""
        data, hashed = bytearray(), hashlib.sha256()
        async with aclosing(gathered(pieces)) as larger:
            async for piece in larger:
                hashed.update(piece)
                data += piece
        return self._keep(ContentRef(hashed.hexdigest()), bytes(data))

    def _keep(self, ref: ContentRef, data: bytes) -> Content:
        kept = self._kept.setdefault(ref, _Kept(data, touched_at=0))
        kept.touched_at = next_touch(self._clock.now_ms(), kept.touched_at)
        return Content(ref, len(kept.data), kept.touched_at)

    async def cite(self, cited: Collection[tuple[ContentRef, Citer]]) -> None:
        """Note who cites what; see `ContentWriter.cite`."""
        checked([ref for ref, _ in cited])
        for ref, citer in cited:
            if (kept := self._kept.get(ref)) is not None:
                kept.touched_at = next_touch(self._clock.now_ms(), kept.touched_at)
                kept.citers[citer] = kept.touched_at

    async def contents(self, *, after: str = "", limit: int = 1000) -> Sequence[Content]:
        """Return contents in the order of their addresses; see `ContentKeeper.contents`."""
        refs = sorted(ref for ref in self._kept if ref > after)[:limit]
        return [Content(ref, len(self._kept[ref].data), self._kept[ref].touched_at) for ref in refs]

    async def citations(self, refs: Collection[ContentRef]) -> Sequence[Citation]:
        """Return all citations of *refs*."""
        held = [(ref, self._kept[ref].citers) for ref in checked(refs) if ref in self._kept]
        return [Citation(ref, citer, at) for ref, citers in held for citer, at in citers.items()]

    async def remove(self, contents: Collection[Content]) -> Collection[ContentRef]:
        """Remove what was not touched since it was listed; see `ContentKeeper.remove`."""
        checked([ref for ref, _, _ in contents])
        removed = [ref for ref, _, at in contents if ref in self._kept and self._kept[ref].touched_at == at]
        for ref in removed:
            del self._kept[ref]
        return removed

    async def forget(self, citations: Collection[Citation]) -> None:
        """Drop citations that were not made again since; see `ContentKeeper.forget`."""
        checked([ref for ref, _, _ in citations])
        for ref, citer, at in citations:
            citers = self._kept[ref].citers if ref in self._kept else {}
            if citers.get(citer) == at:
                del citers[citer]

    async def tidy(self) -> int:
        """Do nothing: a put that is cut off leaves nothing."""
        return 0
