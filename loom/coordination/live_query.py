"""Live queries: where a run stands, now and after each further event, from the store alone (spec 5.8).

Whoever drives the run, in this process or another, need not know that it is watched. Nothing is held between two steps of an
iteration: no task, no subscription, no reader. So one that is left half-way leaves nothing behind, not even until it
is collected.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId, execution_id
from loom.core.state import ExecutionState, empty_state
from loom.driving.errors import ExecutionNotFound
from loom.driving.stored_log import base_beyond
from loom.kernel.codec import decode_events
from loom.lenses.folding import states
from loom.spi.event_store import EventRecord, Storage

if TYPE_CHECKING:
    from loom.driving.runtime import WorkflowRuntime

Event = EventEnvelope[Any]


class Change(NamedTuple):
    """One durable event of a run, and the state that it leads to."""

    event: Event
    state: ExecutionState


class Changes:
    """Every change of one run, from its first event on, until the run has ended; a chain is gone through link by link.

    Where events were moved to an archive, it goes on with the first one after them.
    """

    def __init__(self, storage: Storage, run_id: ExecutionId) -> None:
        self._storage = storage
        self.state: ExecutionState | None = None
        """The state that the last change led to."""
        self._begin(run_id)

    def _begin(self, run_id: ExecutionId, base: ExecutionState | None = None) -> None:
        self._run_id = run_id
        self.before = self._last = base or empty_state(run_id)
        """The state that the last change came upon."""
        self._next = self._last.length
        self._arrived: deque[Event] = deque()
        arrived = self._arrived
        self._folded = states(iter(arrived.popleft, None), base=base)

    def __aiter__(self) -> Changes:
        return self

    async def __anext__(self) -> Change:
        while (change := await self.stored()) is None:
            if self.state is not None and self.state.is_terminal:
                if self.state.facts.next is None:
                    raise StopAsyncIteration
                self._begin(ExecutionId(self.state.facts.next))
                self.state = None
            else:
                await self._wait()
        return change

    async def stored(self) -> Change | None:
        """Return the next change that the store has, None when there is none yet.

        Raises:
            ExecutionNotFound: there is no such execution.
            LogCorrupt: an event does not fit those before it.
        """
        if not self._arrived:
            self._take(await self._storage.read(self._run_id, start=self._next))
        if not self._arrived:
            if self._next == 0:
                raise ExecutionNotFound(execution_id=self._run_id, store=self._storage.url)
            return None
        event = self._arrived[0]
        if event.sequence != self._last.length:
            base = await base_beyond(self._storage, self._run_id, self._last.length)
            if base is not None:
                self._begin(self._run_id, base)
                return await self.stored()
        self.before, self.state = self._last, next(self._folded)
        self._last = self.state
        return Change(event, self.state)

    def _take(self, page: Sequence[EventRecord]) -> None:
        self._arrived.extend(decode_events(self._run_id, page))
        self._next = page[-1].sequence + 1 if page else self._next

    async def _wait(self) -> None:
        feed: AsyncIterator[EventRecord] = self._storage.subscribe(self._run_id, start=self._next)
        async with aclosing(cast("AsyncGenerator[EventRecord]", feed)):
            self._take([await anext(feed)])


class States:
    """The states of one run: the one it is in, then one after each event, until the run has ended."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    def __aiter__(self) -> States:
        return self

    async def __anext__(self) -> ExecutionState:
        if self._changes.state is not None:
            return (await anext(self._changes)).state
        state = (await anext(self._changes)).state
        while (change := await self._changes.stored()) is not None:
            state = change.state
        return state


def watch(runtime: WorkflowRuntime, id: str, /) -> States:
    """Return where the run *id* stands, and then where it stands after each further event, as an async iterator.

        async for state in loom.watch(app.runtime, "refund-42"):
            print(state.status, state.sequence)

    It ends when the run has ended; a chain is one run. Events are seen once they are on disk, whoever drives the run. Leaving
    the loop early leaves nothing open.

    Raises, when iterated:
        ExecutionNotFound: there is no such execution.
    """
    return States(Changes(runtime.storage, execution_id(id)))
