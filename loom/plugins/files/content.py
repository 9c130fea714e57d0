"""Contents in a folder of plain files, shared by any number of processes of one machine."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from loom.core.errors import InvalidDeclaration
from loom.core.ids import ContentRef, content_ref
from loom.plugins.files.shelf import Draft, Shelf
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
)
from loom.spi.errors import StoreUnavailable

T = TypeVar("T")

_HINT: Final = "Check the path, its permissions and the free space; nothing was written in part."


class FileContent:
    """A `ContentStore` in a folder: a file for each content, and beside it who cites it.

    The folder is made by the first content that is put. Everything is on disk, synced, when a call returns. Nothing can be removed
    where there are no POSIX locks (Windows). *clock* is the one by which touches are told.
    """

    spi_version: Final = "1.0.0"

    def __init__(self, path: str | os.PathLike[str], *, clock: Clock | None = None) -> None:
        if not os.fspath(path):
            raise InvalidDeclaration("the path of the contents is empty", hint="Name a folder of their own.")
        if os.fspath(path).startswith((":", "file:")):
            raise InvalidDeclaration(f"{path!r} names no folder", hint="Name a folder by its path, without file:.")
        self._clock = clock or SystemClock()
        self._shelf = Shelf(Path(path).absolute(), self._clock.now_ms)

    @property
    def url(self) -> str:
        """The name of the store in messages."""
        return self._shelf.url

    async def close(self) -> None:
        """Do nothing: nothing stays open between calls."""

    async def now_ms(self) -> int:
        """Return the time by the store's clock."""
        return self._clock.now_ms()

    async def get_many(self, refs: Collection[ContentRef]) -> Mapping[ContentRef, bytes]:
        """Return the contents that are there; see `ContentReader.get_many`."""
        wanted = checked(refs)
        return await self._hop(lambda: self._shelf.read(wanted))

    async def stream(self, ref: ContentRef, *, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes of a content; see `ContentReader.stream`."""
        name = content_ref(ref)
        try:
            file = await self._hop(lambda: self._shelf.opened(name))
        except StoreUnavailable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise ContentMissing(ref=ref, store=self.url) from None
            raise
        try:
            file.seek(start)
            left = None if stop is None else stop - start
            while left is None or left > 0:
                piece = await self._hop(partial(file.read, min(PIECE_BYTES_MAX, left or PIECE_BYTES_MAX)))
                if not piece:
                    return
                left = None if left is None else left - len(piece)
                yield piece
        finally:
            file.close()

    async def sizes(self, refs: Collection[ContentRef]) -> Mapping[ContentRef, int]:
        """Return how large contents are; see `ContentReader.sizes`."""
        wanted = checked(refs)
        return await self._hop(lambda: self._shelf.sizes(wanted))

    async def put(self, data: bytes) -> ContentRef:
        """Keep *data* and return its address; see `ContentWriter.put`."""
        return await self._hop(lambda: self._put(data))

    def _put(self, data: bytes) -> ContentRef:
        ref = address_of(data)
        if self._shelf.touched(ref, len(data)) is None:  # it is not there, or what is there is something else
            draft = self._shelf.draft()
            try:
                draft.write(data)
                draft.finish()
                self._shelf.place(draft, ref)
            except BaseException:
                draft.discard()
                raise
        return ref

    async def put_stream(self, pieces: AsyncIterable[bytes]) -> Content:
        """Keep what *pieces* yields; see `ContentWriter.put_stream`."""
        draft = await self._hop(self._shelf.draft)
        try:
            hashed = hashlib.sha256()
            async with contextlib.aclosing(gathered(pieces)) as larger:
                async for data in larger:
                    await self._hop(partial(_written, draft, hashed.update, data))
            await self._hop(draft.finish)
            return await self._hop(lambda: self._shelf.place(draft, ContentRef(hashed.hexdigest())))
        except BaseException:
            draft.discard()
            raise

    async def cite(self, cited: Collection[tuple[ContentRef, Citer]]) -> None:
        """Note who cites what; see `ContentWriter.cite`."""
        checked([ref for ref, _ in cited])
        await self._hop(lambda: self._shelf.cite(cited))

    async def contents(self, *, after: str = "", limit: int = 1000) -> Sequence[Content]:
        """Return contents in the order of their addresses; see `ContentKeeper.contents`."""
        return await self._hop(lambda: self._shelf.contents(after, limit))

    async def citations(self, refs: Collection[ContentRef]) -> Sequence[Citation]:
        """Return all citations of *refs*."""
        wanted = checked(refs)
        return await self._hop(lambda: self._shelf.citations(wanted))

    async def remove(self, contents: Collection[Content]) -> Collection[ContentRef]:
        """Remove what was not touched since it was listed; see `ContentKeeper.remove`."""
        checked([content.ref for content in contents])
        return await self._hop(lambda: self._shelf.remove(contents))

    async def forget(self, citations: Collection[Citation]) -> None:
        """Drop citations that were not made again since; see `ContentKeeper.forget`."""
        checked([citation.ref for citation in citations])
        await self._hop(lambda: self._shelf.forget(citations))

    async def tidy(self) -> int:
        """Remove what puts that were cut off have left; see `ContentKeeper.tidy`."""
        return await self._hop(self._shelf.tidy)

    async def _hop(self, work: Callable[[], T]) -> T:
        """Return what *work* returns, on a thread; it is over when this returns, though the caller be cancelled."""
        running = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            while not running.done():  # it has a file in hand, which must not be closed under it
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([running])
            running.exception()  # nobody is left to hear of it
            raise
        except OSError as error:
            raise StoreUnavailable(f"the file system refused: {error}", store=self.url, hint=_HINT) from error


def _written(draft: Draft, note: Callable[[bytes], None], data: bytes) -> None:
    note(data)
    draft.write(data)


def file_content(path: str | os.PathLike[str]) -> FileContent:
    """Return a store of contents in the folder *path*, which opens and makes nothing yet.

        app = loom.define_config(flows=[...], storage=loom.sqlite_storage(), content=loom.file_content("/mnt/big/desk"))

    It belongs to one store of logs: two apps with logs of their own need a folder each.
    """
    return FileContent(path)
