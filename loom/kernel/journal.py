"""The journal of one driven execution: the sole allocator of sequences and the only appender (spec D3).

`commit` folds at once and hands the event to the `Writer`, which puts what many journals have ready into one transaction
(group commit). `barrier` returns once all that was committed is on disk. A failed write is final for the journal: what
came after it is never written, and every later commit or barrier raises the error (kernel rules 2, 3).
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final

import orjson

from loom.core.envelope import NO_METADATA, EventEnvelope
from loom.core.errors import LoomError
from loom.core.ids import Incarnation
from loom.core.state import ExecutionState
from loom.core.views import gate_rows
from loom.kernel.codec import encode_event
from loom.kernel.errors import SequenceConflict
from loom.kernel.fold import ACTED_ON, evolve
from loom.spi.clock import Clock
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Append, Appended, AppendResult, Conflict, EventRecord, EventStore, IndexRow, Lane

Event = EventEnvelope[Any]

_log = logging.getLogger("loom.kernel")

QUEUE_EVENTS_MAX: Final = 10_000
QUEUE_BYTES_MAX: Final = 16 << 20
TRIES_MAX: Final = 3
BATCH_EVENTS: Final = 512
"""So many events are written though nobody waits for them yet."""
IDLE_S: Final = 0.002
"""So long the writer lets events gather that nobody waits for."""

_Park = tuple[Event, ExecutionState, asyncio.Future[bool]]
"""The event that parks, the state after it, and who waits to know whether it was accepted."""


class Writer:
    """Group commit: one task that drains every journal with something to write into one append."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._ready: dict[Journal, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._events = self._bytes = 0
        self._room: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    def enqueue(self, journal: Journal, events: int, size: int) -> None:
        """Have *journal* asked for what it has ready, with the next batch."""
        self._events += events
        self._bytes += size
        self._ready[journal] = None
        if (self._task is None or self._task.done()) and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_S, self.kick)
        if self._events >= BATCH_EVENTS:
            self.kick()

    def kick(self) -> None:
        """Write now: somebody waits for it, or has waited long enough."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
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
        self._events -= min(self._events, sum(len(item.events) for _, item in taken))
        self._bytes -= min(self._bytes, sum(len(record.payload) for _, item in taken for record in item.events))
        for future in self._room:
            _resolve(future, None)
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
                return await self._store.append(items)
            except StoreUnavailable:
                if attempt == TRIES_MAX:
                    raise
                await asyncio.sleep(0.05 * attempt)
        raise AssertionError("unreachable")


class Journal:
    """The log of one execution while it is driven. *state* is always the fold of all that was committed."""

    def __init__(
        self,
        state: ExecutionState,
        *,
        writer: Writer,
        clock: Clock,
        token: str,
        incarnation: Incarnation | None = None,
        on_event: Callable[[Event], None] | None = None,
        listeners: Sequence[Callable[[Event], None]] = (),
    ) -> None:
        self.state, self.incarnation = state, incarnation
        self.durable = state.length
        self.error: LoomError | None = None
        self.on_error: Callable[[LoomError], None] | None = None
        self.writer, self._clock, self._token = writer, clock, token
        self._on_event, self._listeners = on_event, listeners
        self._ready: list[tuple[EventRecord, Event]] = []
        self._taken: list[tuple[EventRecord, Event]] = []
        self._consumes: list[int] = []
        self._appends = 0
        self._count = count()  # who waits for the same length is woken in the order in which they came
        self._acted_on = state.length
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._park: _Park | None = None
        self._park_taken: _Park | None = None
        self._seen = 0
        self._gates: tuple[Any, str] = (None, "[]")

    def commit(
        self, type_: str, payload: Any, metadata: Mapping[str, Any] = NO_METADATA, *, consumes: int | None = None
    ) -> Event:
        """Append a fact: fold it now, write it with the next batch. *consumes* is the lane request it journals.

        Raises:
            LoomError: an earlier write failed; nothing after it is written.
        """
        if self.error is not None:
            raise self.error
        assert not self._park, "nothing is committed while a park is being written"
        assert not self._park_taken, "nothing is committed while a park is being written"
        event = self._event(type_, payload, metadata)
        record = encode_event(event)  # first: what cannot be written has not happened
        self.state = evolve(self.state, event)
        self._ready.append((record, event))
        if consumes is not None:
            self._consumes.append(consumes)
        if type_ in ACTED_ON:
            self._acted_on = event.sequence + 1
        self.writer.enqueue(self, 1, len(record.payload))
        if self._on_event is not None:
            tell(self._on_event, event)
        return event

    def _event(self, type_: str, payload: Any, metadata: Mapping[str, Any]) -> Event:
        state = self.state
        at = max(self._clock.now_ms(), state.at)
        return EventEnvelope(state.execution_id, state.sequence + 1, type_, at, payload, metadata)

    async def barrier(self, length: int | None = None) -> None:
        """Return once the first *length* events (all committed so far) are on disk.

        Raises:
            LoomError: the write failed.
        """
        upto = self.state.length if length is None else length
        if self.error is not None:
            raise self.error
        if upto > self.durable:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiters, (upto, next(self._count), future))
            self.writer.kick()
            await future

    @property
    def unwritten_outcome(self) -> int:
        """The length of the log up to the last outcome the flow may have acted on; 0 when that is on disk."""
        return self._acted_on if self._acted_on > self.durable else 0

    async def park(self, payload: Any, *, seen: int = 0) -> bool:
        """Append `EXECUTION_SUSPENDED` and all that is unwritten in one transaction, unless the lane holds news.

        Requests up to the number *seen* are none. Returns whether the run is parked; False: requests wait, and only the
        unwritten events were written.

        Raises:
            LoomError: the write failed.
        """
        if self.error is not None:
            raise self.error
        event = self._event("EXECUTION_SUSPENDED", payload, NO_METADATA)
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._park, self._seen = (event, evolve(self.state, event), future), seen
        self.writer.enqueue(self, 1, 0)
        self.writer.kick()
        return await future

    def take(self) -> Append:
        """Return what is ready as one item of a batch. Only the writer calls this, and answers before the next."""
        expected = self.durable
        state = self.state
        self._taken, self._ready = self._ready, []
        consumes, self._consumes = self._consumes, []
        records = [record for record, _ in self._taken]
        self._park_taken, self._park = self._park, None
        if self._park_taken is not None:
            state = self._park_taken[1]
            records.append(encode_event(self._park_taken[0]))
        self._appends += 1
        facts = state.facts
        return Append(
            execution_id=state.execution_id,
            incarnation=self.incarnation,
            expected=expected,
            append_id=f"{self._token}{self._appends}",
            events=records,
            index=self._index(state),
            consumes=consumes,
            lane=Lane(*facts.chain) if facts.chain else None,
            lane_above=None if self._park_taken is None else self._seen,
        )

    def written(self, item: Append, result: AppendResult) -> None:
        """Take the store's answer to the item last taken."""
        if isinstance(result, Conflict):
            self.lost(SequenceConflict(execution_id=item.execution_id, expected=item.expected, actual=result.length))
            return
        if not isinstance(result, Appended):
            self._refused(item)
            return
        self.incarnation = result.incarnation
        self.durable = result.length
        events = [event for _, event in self._taken] if self._listeners else []
        if self._park_taken is not None:
            event, self.state, future = self._park_taken
            self._park_taken = None
            events.append(event)
            _resolve(future, True)
        self._taken = []
        self._tell(events)
        while self._waiters and self._waiters[0][0] <= self.durable:
            _resolve(heapq.heappop(self._waiters)[2], None)

    def _refused(self, item: Append) -> None:
        assert self._park_taken is not None
        future = self._park_taken[2]
        self._park_taken = None
        _resolve(future, False)
        self._ready = self._taken + self._ready
        self._consumes = [*item.consumes, *self._consumes]
        self._taken = []
        if self._ready:
            self.writer.enqueue(self, len(self._ready), 0)

    def _tell(self, events: Sequence[Event]) -> None:
        for listener in self._listeners:
            for event in events:
                tell(listener, event)

    def lost(self, error: LoomError) -> None:
        """Make *error* final: nothing after the failed write is ever written."""
        if self.error is not None:
            return
        self.error = error
        self._ready, self._taken = [], []
        waiting = [future for _, _, future in self._waiters]
        self._waiters = []
        for park in (self._park, self._park_taken):
            if park is not None and not park[2].done():
                park[2].set_exception(error)
        self._park = self._park_taken = None
        for future in waiting:
            if not future.done():
                future.set_exception(error)
        if self.on_error is not None:
            self.on_error(error)

    def _index(self, state: ExecutionState) -> IndexRow:
        if self._gates[0] is not state.gates:
            self._gates = (state.gates, orjson.dumps(gate_rows(state)).decode() if state.gates else "[]")
        facts = state.facts
        return IndexRow(
            flow=facts.flow,
            status=state.status,
            started_at=facts.started_at,
            updated_at=state.at,
            wake_at=facts.wake_at,
            gates=self._gates[1],
            attributes=orjson.dumps(facts.attributes).decode() if facts.attributes else "{}",
            chain=facts.chain[0] if facts.chain else state.execution_id,
            link=facts.link,
            parent=facts.parent["execution_id"] if facts.parent else "",
            ended=state.is_terminal,
        )


def tell(listener: Callable[..., None], *what: Any) -> None:
    """Call *listener*, who is arbitrary code and must not be able to stop a run."""
    try:
        listener(*what)
    except Exception:  # noqa: BLE001  # see above
        _log.exception("a listener failed at %s", what)


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():  # its waiter may have been cancelled
        future.set_result(value)
