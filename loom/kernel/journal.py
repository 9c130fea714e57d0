"""The journal of one driven execution: the sole allocator of sequences and the only appender (spec D3).

`commit` folds at once and hands the event to the `Writer`, which puts what many journals have ready into one transaction
(group commit). `barrier` returns once all that was committed is on disk. A failed write is final for the journal: what
came after it is never written, and every later commit or barrier raises the error (kernel rules 2, 3).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, Protocol

from loom.core.envelope import NO_METADATA, EventEnvelope
from loom.core.errors import LoomError
from loom.core.ids import Incarnation
from loom.core.state import ExecutionState
from loom.kernel.codec import encode_event
from loom.kernel.fold import ACTED_ON, evolve
from loom.spi.clock import Clock
from loom.spi.conflicts import Fenced, SequenceConflict
from loom.spi.event_store import (
    NOBODY,
    Append,
    Appended,
    AppendResult,
    EventRecord,
    IndexRow,
    Lane,
    LaneNotEmpty,
    LeaseChange,
    RequestKind,
    Send,
)
from loom.spi.indexing import gates_text, index_row
from loom.spi.limits import ENTRY_BYTES_MAX, EntryTooLarge
from loom.spi.telling import resolve, settle, tell

Event = EventEnvelope[Any]

_GOES_ON: Final[tuple[int | None, Sequence[RequestKind], Append | None]] = (None, (), None)
"""What an item that parks nothing has in the place of `Journal._leaving`."""

_Park = tuple[Event, ExecutionState, asyncio.Future[bool]]
"""The event that parks, the state after it, and who waits to know whether it was accepted."""


class Writer(Protocol):
    """What writes what many journals have ready (loom/driving/writer.py)."""

    def enqueue(self, journal: Journal, events: int, size: int) -> None:
        """Have *journal* asked for what it has ready, with the next batch."""
        ...

    def kick(self) -> None:
        """Write now: somebody waits for it."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether the queue is past its bound, so that a syscall has to wait (kernel rule 2.5)."""
        ...

    async def room(self) -> None:
        """Return once the queue is within its bound."""
        ...


class Journal:
    """The log of one execution while it is driven. *state* is always the fold of all that was committed.

    With *lease* the first write makes its driver the one who holds the run, and the one that parks or ends it gives it up
    (kernel rule 7). With *gone* that first write takes the run over: it is refused while the lease of another driver than *gone* runs.
    """

    def __init__(
        self,
        state: ExecutionState,
        *,
        writer: Writer,
        clock: Clock,
        token: str,
        incarnation: Incarnation | None = None,
        lease: LeaseChange | None = None,
        gone: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        listeners: Sequence[Callable[[Event], None]] = (),
        sends: Callable[[ExecutionState], Sequence[Send]] = lambda _: (),
    ) -> None:
        self.state, self.incarnation, self.durable = state, incarnation, state.length
        self.error: LoomError | None = None
        self.on_error: Callable[[LoomError], None] | None = None
        self.writer, self._clock, self._token = writer, clock, token
        self._on_event, self._listeners, self._sends = on_event, listeners, sends
        self._ready: list[EventRecord] = []
        self._untold: list[Event] = []
        self._consumes: list[int] = []
        self._appends, self.acted_on = 0, state.length  # up to there are outcomes that the flow may have acted on
        self._count = count()  # who waits for the same length is woken in the order in which they came
        self._waiters: list[tuple[int, int, Callable[[LoomError | None], None]]] = []
        self._park: _Park | None = None
        self._park_taken: _Park | None = None
        self._lease, self._gone, self.is_held = lease, gone, False
        self._leaving: tuple[int, Sequence[RequestKind], Append | None] = (0, (), None)
        self._gates: tuple[Any, str] = (None, "[]")

    def commit(
        self, type_: str, payload: Any, metadata: Mapping[str, Any] = NO_METADATA, *, consumes: int | None = None
    ) -> Event:
        """Append a fact: fold it now, write it with the next batch. *consumes* is the lane request it journals.

        Raises:
            EntryTooLarge: it is larger than a log takes, and did not happen.
            LoomError: an earlier write failed; nothing after it is written.
        """
        if self.error is not None:
            raise self.error
        assert self._park is self._park_taken is None, "nothing is committed while a park is being written"
        event = self._event(type_, payload, metadata)
        record = encode_event(event)  # first: what cannot be written has not happened
        if len(record.payload) > ENTRY_BYTES_MAX:
            raise EntryTooLarge(what=f"{type_} of {self.state.execution_id}", size=len(record.payload))
        self.state = evolve(self.state, event)
        self._ready.append(record)
        if self._listeners:
            self._untold.append(event)
        if consumes is not None:
            self._consumes.append(consumes)
        if type_ in ACTED_ON:
            self.acted_on = event.sequence + 1
        self.writer.enqueue(self, 1, len(record.payload))
        if self._on_event is not None:
            tell(self._on_event, event)
        return event

    def _event(self, type_: str, payload: Any, metadata: Mapping[str, Any]) -> Event:
        state, now = self.state, self._clock.now_ms()
        at = max(state.at, now)
        return tuple.__new__(EventEnvelope, (state.execution_id, state.sequence + 1, type_, at, payload, metadata))

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
            self.when_written(upto, partial(settle, future))
            await future

    def when_written(self, upto: int, told: Callable[[LoomError | None], None]) -> None:
        """Call *told* once the first *upto* events are on disk, or with the error that keeps them off it."""
        heapq.heappush(self._waiters, (upto, next(self._count), told))
        self.writer.kick()

    async def leave(
        self, type_: str, payload: Any, *, seen: int, kinds: Sequence[RequestKind] = (), follows: Append | None = None
    ) -> bool:
        """Append the fact that the drive ends with, and all that is unwritten, in one transaction, unless the lane holds news.

        Requests up to the number *seen* are none, nor are those of other *kinds* where some are given. *follows* begins the
        next link of the chain. Returns whether it is written; False: requests wait, and only the unwritten events were written.

        Raises:
            LoomError: the write failed.
        """
        if self.error is not None:
            raise self.error
        event = self._event(type_, payload, NO_METADATA)
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._park, self._leaving = (event, evolve(self.state, event), future), (seen, kinds, follows)
        self.writer.enqueue(self, 1, 0)
        self.writer.kick()
        return await future

    def take(self) -> Append:
        """Return what is ready as one item of a batch. Only the writer calls this, and answers before the next."""
        state, park = self.state, self._park
        records, consumes = self._ready, self._consumes
        self._ready, self._consumes, self._park_taken, self._park = [], [], park, None
        seen, kinds, follows = _GOES_ON
        if park is not None:
            state = park[1]
            records.append(encode_event(park[0]))
            seen, kinds, follows = self._leaving
        self._appends += 1
        chain, lease = state.facts.chain, self._lease_change(state)
        takes_over = self._gone is not None and lease is not None and not self.is_held
        return Append(
            execution_id=state.execution_id,
            incarnation=self.incarnation,
            expected=self.durable,
            append_id=f"{self._token}{self._appends}",
            events=records,
            index=self._index(state),
            consumes=consumes,
            lane=Lane(*chain) if chain else None,
            lane_above=seen,
            lane_kinds=kinds,
            follows=follows,
            lease=lease,
            takes_over=takes_over,
            gone=self._gone or "" if takes_over else "",
            sends=self._sends(state),
        )

    def _lease_change(self, state: ExecutionState) -> LeaseChange | None:
        if self._park_taken is not None or state.is_terminal or state.status in {"diverged", "paused"}:
            return NOBODY
        return None if self.is_held else self._lease

    def written(self, item: Append, result: AppendResult) -> None:
        """Take the store's answer to the item last taken."""
        if isinstance(result, LaneNotEmpty):
            self._refused(item)
            return
        if not isinstance(result, Appended):
            error, actual = Fenced if self.is_held else SequenceConflict, getattr(result, "length", item.expected)
            self.lost(error(execution_id=item.execution_id, expected=item.expected, actual=actual))
            return
        self.incarnation, self.durable = result.incarnation, result.length
        if item.lease is not None:
            self.is_held = item.lease is not NOBODY
        if self._park_taken is not None:
            event, self.state, future = self._park_taken
            self._park_taken = None
            self._untold.append(event)
            resolve(future, True)
            if self._on_event is not None:
                tell(self._on_event, event)
        if self._untold:
            self._tell()
        while self._waiters and self._waiters[0][0] <= self.durable:
            heapq.heappop(self._waiters)[2](None)

    def _refused(self, item: Append) -> None:
        assert self._park_taken is not None
        future = self._park_taken[2]
        self._park_taken = None
        resolve(future, False)
        self._ready = [*item.events[:-1], *self._ready]  # but for what would have parked it
        self._consumes = [*item.consumes, *self._consumes]
        if self._ready:
            self.writer.enqueue(self, len(self._ready), 0)

    def _tell(self) -> None:
        events = [event for event in self._untold if event.sequence < self.durable]
        self._untold = self._untold[len(events) :]
        for listener in self._listeners:
            for event in events:
                tell(listener, event)

    def lost(self, error: LoomError) -> None:
        """Make *error* final: nothing after the failed write is ever written."""
        if self.error is not None:
            return
        self.error = error
        self._ready, self._untold = [], []
        waiters, self._waiters = self._waiters, []
        for park in (self._park, self._park_taken):
            if park is not None:
                settle(park[2], error)
        self._park = self._park_taken = None
        for _, _, told in waiters:
            told(error)
        if self.on_error is not None:
            self.on_error(error)

    def _index(self, state: ExecutionState) -> IndexRow:
        if self._gates[0] is not state.gates:
            self._gates = (state.gates, gates_text(state))
        return index_row(state, self._gates[1])
