"""The writer of a process: what many journals have ready goes into one transaction (group commit, kernel rule 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from loom.core.errors import LoomError
from loom.kernel.journal import Journal
from loom.spi.citing import Citing
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Append, AppendResult, EventStore
from loom.spi.surroundings import IDLE_S, Surroundings
from loom.spi.telling import resolve

QUEUE_EVENTS_MAX: Final = 10_000
QUEUE_BYTES_MAX: Final = 16 << 20
TRIES_MAX: Final = 3
BATCH_EVENTS: Final = 512
"""So many events are written though nobody waits for them yet."""


class GroupWriter:
    """Group commit: one task that drains every journal with something to write into one append.

    Events that nobody waits for may gather for *idle_s* seconds. *citing* is told of each batch before it is written.
    """

    def __init__(self, store: EventStore, *, idle_s: float = IDLE_S, citing: Citing | None = None) -> None:
        self._store, self._idle_s, self._citing = store, idle_s, citing
        self._ready: dict[Journal, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._events = self._bytes = 0
        self._room: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._since_s = 0.0
        """Since when the oldest of what is ready has waited, by the loop's clock."""

    @classmethod
    def of(cls, around: Surroundings) -> GroupWriter:
        """Return the writer of a runtime, for the running loop."""
        return cls(around.storage, idle_s=around.idle_s, citing=around.citing)

    def enqueue(self, journal: Journal, events: int, size: int) -> None:
        """Have *journal* asked for what it has ready, with the next batch."""
        if not self._ready:
            loop = asyncio.get_running_loop()
            self._since_s = loop.time()
            if self._timer is None:
                self._timer = loop.call_later(self._idle_s, self._rested)
        self._events += events
        self._bytes += size
        self._ready[journal] = None
        if self._events >= BATCH_EVENTS:
            self.kick()

    def _rested(self) -> None:
        """Write what has waited long enough. One timer serves for all: setting one for each batch costs more than a batch."""
        self._timer = None
        if not self._ready:
            return
        loop = asyncio.get_running_loop()
        left_s = self._since_s + self._idle_s - loop.time()
        if left_s > 0:
            self._timer = loop.call_later(left_s, self._rested)
        else:
            self.kick()

    def kick(self) -> None:
        """Write now: somebody waits for it, or has waited long enough."""
        if (self._task is None or self._task.done()) and self._ready:  # it may have been cancelled before it began
            self._task = asyncio.get_running_loop().create_task(self._drain(), name="loom-writer")

    @property
    def is_full(self) -> bool:
        """Whether the queue is past its bound, so that a syscall has to wait (kernel rule 2.5)."""
        return self._events >= QUEUE_EVENTS_MAX or self._bytes >= QUEUE_BYTES_MAX

    async def room(self) -> None:
        """Return once the queue is within its bound."""
        while self.is_full:
            self.kick()
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(future)
            await future

    async def _drain(self) -> None:
        try:
            while self._ready:
                journals, self._ready = list(self._ready), {}
                self._events = self._bytes = 0  # for all of it is taken now
                await self._write(journals)
        finally:
            self._task = None
            if not self._ready:
                self._events = self._bytes = 0
            else:  # ended by cancellation: nobody waits for a writer that is gone
                for journal in list(self._ready):
                    journal.lost(StoreUnavailable("the event loop ended before the write", store="writer"))

    async def _write(self, journals: Sequence[Journal]) -> None:
        taken = [(journal, journal.take()) for journal in journals if journal.error is None]
        for future in self._room:
            resolve(future, None)
        self._room.clear()
        items = [item for _, item in taken]
        try:
            results = await self._append(items)
        except LoomError as error:
            self._lose(taken, error)
            return
        except Exception as error:  # noqa: BLE001  # a store that breaks its contract must not leave runs waiting
            broken = StoreUnavailable(f"the store raised {type(error).__name__}: {error}", store="store")
            broken.__cause__ = error
            self._lose(taken, broken)
            return
        except BaseException:  # the loop ends, and whoever waits must not wait for a writer that is gone
            self._lose(taken, StoreUnavailable("the event loop ended during the write", store="writer"))
            raise
        for (journal, item), result in zip(taken, results, strict=True):
            journal.written(item, result)

    def _lose(self, taken: Sequence[tuple[Journal, Append]], error: LoomError) -> None:
        for journal, _ in taken:
            journal.lost(error)

    async def _append(self, items: Sequence[Append]) -> Sequence[AppendResult]:
        for attempt in range(1, TRIES_MAX + 1):
            try:
                if self._citing is not None:
                    await self._citing.before_append(items)
                return await self._store.append(items)
            except StoreUnavailable:
                if attempt == TRIES_MAX:
                    raise
                await asyncio.sleep(0.05 * attempt)
        raise AssertionError("unreachable")
