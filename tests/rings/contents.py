"""What the tests of claimed results share: a content store that is watched, and ways to look at a log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import loom
from loom.core.ids import ContentRef, ExecutionId
from loom.spi.clock import Clock
from loom.spi.content_memory import MemoryContent
from loom.spi.content_store import Citer
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import EventRecord


class Watched(MemoryContent):
    """Contents in memory that note each call, and of which some *methods* cannot be had."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self.calls: list[str] = []
        self.broken: set[str] = set()

    def note(self, call: str) -> None:
        self.calls.append(call)
        if call in self.broken:
            raise StoreUnavailable("the contents cannot be reached", store=self.url)

    @property
    def reads(self) -> list[str]:
        return [call for call in self.calls if call in {"get_many", "stream"}]

    async def put(self, data: bytes) -> ContentRef:
        self.note("put")
        return await super().put(data)

    async def get_many(self, refs: Collection[ContentRef]) -> Mapping[ContentRef, bytes]:
        self.note("get_many")
        return await super().get_many(refs)

    async def stream(self, ref: ContentRef, *, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        self.note("stream")
        async for piece in super().stream(ref, start=start, stop=stop):
            yield piece

    async def cite(self, cited: Collection[tuple[ContentRef, Citer]]) -> None:
        self.note("cite")
        await super().cite(cited)


def app_of(*flows: Any, content: MemoryContent | None = None, **options: Any) -> loom.LoomApp:
    return loom.define_config(flows=flows, content=content, **options)


async def log_of(app: loom.LoomApp, run: str) -> list[EventRecord]:
    """Return the whole log of a run."""
    events: list[EventRecord] = []
    while page := await app.storage.read(ExecutionId(run), start=len(events)):
        events += page
    return events


async def log_bytes(app: loom.LoomApp, run: str) -> int:
    return sum(len(event.payload) + len(event.metadata) for event in await log_of(app, run))


async def all_refs(content: MemoryContent) -> list[ContentRef]:
    return [each.ref for each in await content.contents()]


async def citers(content: MemoryContent) -> dict[ContentRef, set[tuple[str, int | None]]]:
    """Return who cites each content that is there."""
    found: dict[ContentRef, set[tuple[str, int | None]]] = {ref: set() for ref in await all_refs(content)}
    for citation in await content.citations(list(found)):
        found[citation.ref].add((citation.by.execution_id, citation.by.incarnation))
    return found
