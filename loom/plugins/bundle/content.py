"""The contents in a bundle: a `ContentStore` that is read only."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Final, NoReturn

from loom.core.ids import ContentRef, content_ref
from loom.plugins.bundle.file import BundleFile
from loom.plugins.bundle.refusing import BundleReadOnly
from loom.spi.clock import SystemClock
from loom.spi.content_store import Citation, Citer, Content, ContentMissing, checked


class BundleContent:
    """Gives out the contents of the bundle that *opened* returns; who cites them is in its logs, and nowhere else."""

    spi_version: Final = "1.0.0"

    def __init__(self, url: str, opened: Callable[[], BundleFile]) -> None:
        self._url, self._opened = url, opened

    @property
    def url(self) -> str:
        """The name of the store in messages."""
        return self._url

    async def close(self) -> None:
        """Do nothing: the file is closed with the store of its logs."""

    async def now_ms(self) -> int:
        """Return the time by the clock of this machine."""
        return SystemClock().now_ms()

    async def get_many(self, refs: Collection[ContentRef]) -> Mapping[ContentRef, bytes]:
        """Return the contents that are there; see `ContentReader.get_many`."""
        bundle = self._opened()
        return {ref: b"".join(bundle.content(ref)) for ref in checked(refs) if ref in bundle.manifest.contents}

    async def stream(self, ref: ContentRef, *, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes of a content; see `ContentReader.stream`. All before *start* is read, too."""
        bundle = self._opened()
        if content_ref(ref) not in bundle.manifest.contents:
            raise ContentMissing(ref=ref, store=self.url)
        place = 0
        for piece in bundle.content(ref):
            wanted = piece[max(0, start - place) : None if stop is None else max(0, stop - place)]
            place += len(piece)
            if wanted:
                yield wanted
            if stop is not None and place >= stop:
                return

    async def sizes(self, refs: Collection[ContentRef]) -> Mapping[ContentRef, int]:
        """Return how large contents are; see `ContentReader.sizes`."""
        there = self._opened().manifest.contents
        return {ref: there[ref] for ref in checked(refs) if ref in there}

    async def contents(self, *, after: str = "", limit: int = 1000) -> Sequence[Content]:
        """Return contents in the order of their addresses; see `ContentKeeper.contents`."""
        there = self._opened().manifest.contents
        return [Content(ref, there[ref], 0) for ref in sorted(there) if ref > after][:limit]

    async def citations(self, refs: Collection[ContentRef]) -> Sequence[Citation]:
        """Return none: what is named is in the logs."""
        return []

    async def put(self, data: bytes) -> ContentRef:
        """Refuse to."""
        self._refuse()

    async def put_stream(self, pieces: AsyncIterable[bytes]) -> Content:
        """Refuse to."""
        self._refuse()

    async def cite(self, cited: Collection[tuple[ContentRef, Citer]]) -> None:
        """Refuse to."""
        self._refuse()

    async def remove(self, contents: Collection[Content]) -> Collection[ContentRef]:
        """Refuse to."""
        self._refuse()

    async def forget(self, citations: Collection[Citation]) -> None:
        """Refuse to."""
        self._refuse()

    async def tidy(self) -> int:
        """Do nothing: there is nothing to tidy."""
        return 0

    def _refuse(self) -> NoReturn:
        raise BundleReadOnly(store=self._url)
