"""The events of all runs, each once and those of a run in their order, from the store alone.

What has been seen is a short text, which names a change of the store's feed and how far the reader is within the next one. So a
reader can stop anywhere, and another goes on from there; nothing is kept by the store for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias, cast

from loom.core.envelope import EventEnvelope
from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId, Incarnation
from loom.kernel.codec import decode_events
from loom.spi.change_feed import Change, ChangeFeed, CursorUnknown
from loom.spi.event_store import EventRecord, Storage

if TYPE_CHECKING:
    from loom.driving.runtime import WorkflowRuntime


_AHEAD_BYTES: Final = 64 << 10
"""So much of a run is read ahead, but for the event that is more."""

PagesBehind: TypeAlias = Callable[[str], AsyncIterator[Sequence[Change]]]
"""Gives the pages of changes behind a cursor."""


class Seen(NamedTuple):
    """What was seen: all changes up to the cursor *after*, and of the next one, the events of that life before *next*."""

    after: str = ""
    incarnation: int = 0
    next: int = 0

    def text(self) -> str:
        return f"{self.after}@{self.incarnation}.{self.next}" if self.next else self.after


class RunEvent(NamedTuple):
    """An event of a run, in the life *incarnation* of its id; a reader that is given *cursor* goes on behind it."""

    event: EventEnvelope[Any]
    incarnation: Incarnation
    cursor: str


def seen_of(cursor: str, *, store: str) -> Seen:
    """Return what a reader has seen that was left at *cursor*.

    Raises:
        CursorUnknown: it is no cursor.
    """
    after, at, rest = cursor.partition("@")
    incarnation, dot, following = rest.partition(".")
    if not at:
        return Seen(after)
    if not (dot and incarnation.isdecimal() and following.isdecimal() and cursor.isascii()):
        raise CursorUnknown(cursor, store=store)
    return Seen(after, int(incarnation), int(following))


def unseen(page: Sequence[Change], seen: Seen) -> Iterator[tuple[str, Change]]:
    """Yield what is left of a page of changes behind `seen.after`, each with the cursor before it."""
    before, within = seen.after, seen.next > 0
    for change in page:
        within = within and change.incarnation == seen.incarnation
        start = max(change.start, seen.next) if within else change.start
        if start < change.stop:
            within = False
            yield before, change._replace(start=start)
        before = change.cursor


class AllEvents:
    """The events of all runs behind a cursor, as an async iterator. Closing it releases everything."""

    def __init__(self, storage: Storage, pages: PagesBehind, *, after: str) -> None:
        self._storage, self._seen = storage, seen_of(after, store=storage.url)
        self._pages = pages(self._seen.after)
        self._changes: deque[tuple[str, Change]] = deque()
        self._records: deque[EventRecord] = deque()
        self._before, self._change = "", Change(ExecutionId(""), Incarnation(0), 0, 0, "")
        self._stops: dict[Incarnation, int] = {}  # up to where the changes at hand go, of each life
        self._ahead: dict[Incarnation, deque[EventRecord]] = {}

    @property
    def cursor(self) -> str:
        """The cursor behind what was given last."""
        return self._seen.text()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        """Return the next event; the one after it is next also where this one cannot be read.

        Raises:
            LogCorrupt: it cannot be read.
            StoreError: the feed is over; another reader may go on from `cursor`.
        """
        while not self._records:
            await self._go_on()
        record, change = self._records.popleft(), self._change
        following = record.sequence + 1
        whole = following >= change.stop
        self._seen = Seen(change.cursor) if whole else Seen(self._before, change.incarnation, following)
        [event] = decode_events(change.execution_id, [record])
        return RunEvent(event, change.incarnation, self.cursor)

    async def aclose(self) -> None:
        """Release what it holds."""
        await cast("AsyncGenerator[Sequence[Change]]", self._pages).aclose()

    async def _go_on(self) -> None:
        """Take the next page of events of this change, the next change, or the next page of changes."""
        change = self._change
        if change.start < change.stop and await self._take(change):
            return
        if self._changes:
            self._before, self._change = self._changes.popleft()
        else:
            page = await anext(self._pages)
            self._changes.extend(unseen(page, self._seen))
            self._stops = {change.incarnation: change.stop for _, change in self._changes}
            self._ahead = {}
            if not self._changes:  # all of it was seen
                self._seen = self._seen._replace(after=page[-1].cursor)

    async def _take(self, change: Change) -> bool:
        """Take some events of *change*; return whether there are any. One that was deleted meanwhile has none."""
        ahead = self._ahead.get(change.incarnation)
        if not ahead:
            ahead = self._ahead[change.incarnation] = await self._read(change)
        taken = list(takewhile(lambda record: record.sequence < change.stop, ahead))
        for _ in taken:
            ahead.popleft()
        self._change = change._replace(start=taken[-1].sequence + 1 if taken else change.stop)
        self._records.extend(taken)
        return bool(taken)

    async def _read(self, change: Change) -> deque[EventRecord]:
        """Read on from *change*, up to the last change at hand of this life: those of many runs alternate, and each read costs a trip."""
        name, stop = change.execution_id, self._stops[change.incarnation]
        page = await self._storage.read(name, start=change.start, stop=stop, limit_bytes=_AHEAD_BYTES)
        head = await self._storage.head(name)
        is_there = head is not None and head.incarnation == change.incarnation
        return deque(page if is_there else ())


def all_events(storage: Storage, *, after: str, follow: bool) -> AllEvents:
    """Return the events of all runs in *storage*; see `subscribe`."""
    if not isinstance(storage, ChangeFeed):
        hint = "Use loom.sqlite_storage() or loom.postgres_storage(), or implement loom.spi.ChangeFeed."
        raise InvalidDeclaration(f"the store {storage.url} does not tell what changes", hint=hint)
    return AllEvents(storage, storage.changes if follow else partial(_stored, storage), after=after)


async def _stored(feed: ChangeFeed, after: str) -> AsyncGenerator[Sequence[Change]]:
    while page := await feed.changed(after):
        yield page
        after = page[-1].cursor


def subscribe(runtime: WorkflowRuntime, /, *, after: str = "", follow: bool = True) -> AllEvents:
    """Return the events of all runs behind a cursor (empty: from the beginning), and then those to come, as an async iterator.

        async with aclosing(loom.subscribe(app.runtime, after=kept)) as events:
            async for event, _, cursor in events:
                ...
                kept = cursor

    Every event comes once, once it is on disk, whoever writes it; those of a run come in their order. A run that is deleted
    has no events any more. Keep the cursor with what you make of the events, and you go on exactly there. Unless it is to
    *follow*, it ends with what there is now.

    Raises:
        InvalidDeclaration: the store of the app does not tell what changes.
        CursorUnknown: *after* is no cursor of the store; that it has given it, is known once it is read.
    """
    return all_events(runtime.storage, after=after, follow=follow)
