"""Where logs live: the contract between the kernel and any store (kernel rules 1 and 2).

A log is the ordered events of one execution, sequence 0 upward, no gaps. A store keeps bytes: it never looks
into a payload. Beside each log stand its *request lane* (durable rows inserted by anybody, journaled by the one
driver) and its *index row* (a cache of the folded state for listings, written in the same transaction).

All methods may be called from any task of one event loop. None holds a transaction over an await of the caller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from loom.core.ids import ExecutionId, Incarnation

EVENT_STORE_SPI_VERSION: Final = "1.0.0"


class EventRecord(NamedTuple):
    """One event as stored. *at* is in milliseconds since the epoch, UTC; *payload* and *metadata* are JSON text.

    *metadata* is empty when there is none.
    """

    sequence: int
    type: str
    at: int
    payload: bytes
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """What listings need of an execution, as of its last event. A cache: the log is the truth.

    *gates* is the JSON text of the open gates (a list), *attributes* that of the user's search attributes
    (an object); *wake_at* is the next time (ms since the epoch) at which the run can go on by itself.
    """

    flow: str
    status: str
    started_at: int
    updated_at: int
    wake_at: int | None
    gates: str
    attributes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """One item of a batch: events to add at the end of one log.

    *expected* is the length the log must have (0: it must not exist). *incarnation* is the life of the id the
    writer knows, None exactly when *expected* is 0. *append_id* names this very write among those
    of all writers, so that it can be repeated when its outcome is unknown. *consumes* are numbers of lane requests that these events journal;
    they stop being pending in the same transaction. With *lane_empty* the item is refused while any request
    (other than those it consumes) is pending.
    """

    execution_id: ExecutionId
    incarnation: Incarnation | None
    expected: int
    append_id: str
    events: Sequence[EventRecord]
    index: IndexRow
    consumes: Sequence[int] = ()
    lane_empty: bool = False


class Appended(NamedTuple):
    """The item is on disk, now or since an earlier try with the same append id."""

    incarnation: Incarnation
    length: int


class Conflict(NamedTuple):
    """The log is not as the writer thought; nothing of this item was written.

    *length* is what it is now, 0 when there is no such execution; *incarnation* its life, None when there is none.
    """

    length: int
    incarnation: Incarnation | None


class LaneNotEmpty(NamedTuple):
    """`lane_empty` was asked for and requests are pending; nothing of this item was written."""

    pending: int


AppendResult: TypeAlias = Appended | Conflict | LaneNotEmpty


class Head(NamedTuple):
    """Where a log stands."""

    execution_id: ExecutionId
    incarnation: Incarnation
    length: int


@dataclass(frozen=True, slots=True)
class ExecutionRow:
    """One line of a listing."""

    execution_id: ExecutionId
    incarnation: Incarnation
    length: int
    index: IndexRow


class EventStore(Protocol):
    """Where the logs live. Any number of processes may share one."""

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        """Apply each item whole or not at all, on its own, in one transaction; one result an item, in order.

        A refused item leaves the others of the batch alone, but the later items of its own execution are
        refused too. An item whose *append_id* already stands at its place (the last transaction that touched
        the execution wrote it, at the same *expected*) is `Appended` again and writes nothing. The store gives a
        new execution its incarnation. On return, everything `Appended` survives a crash of the machine.

        Raises:
            StoreUnavailable: nothing of the batch is known to be written; asking again with the same append
                ids is safe.
        """
        ...

    async def read(
        self, execution_id: ExecutionId, *, start: int = 0, stop: int | None = None, limit_bytes: int = 4 << 20
    ) -> Sequence[EventRecord]:
        """Return the events from sequence *start* up to but not including *stop* (None: the end), in order.

        A page ends early once its payloads exceed *limit_bytes*, but holds at least one event when there is one:
        read on from the last sequence plus one until a page comes back empty. An unknown id has no events.
        """
        ...

    async def head(self, execution_id: ExecutionId) -> Head | None:
        """Return where the log stands, None when there is no such execution."""
        ...

    async def ids(self, *, after: str = "", prefix: str = "", limit: int = 1000) -> Sequence[ExecutionId]:
        """Return up to *limit* execution ids greater than *after* that start with *prefix*, by code point order."""
        ...


RequestKind: TypeAlias = Literal["answer", "verdict"]


class Request(NamedTuple):
    """A durable wish of somebody who does not drive the execution, in the order of its lane (*number* from 1).

    *body* is JSON text. *key* is the name of what may happen only once ("gate:17"), empty when it may repeat.
    """

    number: int
    kind: RequestKind
    key: str
    at: int
    body: bytes


class RequestTaken(NamedTuple):
    """A request with the same key stands in the lane already (pending or consumed); nothing was inserted."""

    number: int
    pending: bool


class RequestLane(Protocol):
    """The requests beside each log (kernel rule 1.2): anybody inserts, only the driver consumes, by appending."""

    async def insert(
        self,
        execution_id: ExecutionId,
        incarnation: Incarnation,
        *,
        kind: RequestKind,
        key: str,
        at: int,
        body: bytes,
    ) -> int | RequestTaken | None:
        """Add a request durably and return its number; None when that life of the execution does not exist.

        A key that is not empty is unique within the incarnation for ever, across processes.
        """
        ...

    async def pending(self, execution_id: ExecutionId, incarnation: Incarnation) -> Sequence[Request]:
        """Return the requests that no append has consumed, in order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionQuery:
    """Which executions a listing shows. Empty sequences mean "any". Newest first, by (started_at, id).

    *due_before* (ms since the epoch) shows those whose `wake_at` is smaller; *with_gates* those with an open gate.
    """

    statuses: Sequence[str] = ()
    flows: Sequence[str] = ()
    with_gates: bool = False
    due_before: int | None = None
    limit: int = 100
    before: tuple[int, str] | None = None
    """Cursor: only rows whose (started_at, execution id) is smaller."""


class ExecutionIndex(Protocol):
    """Listings over the index rows."""

    async def find(self, query: ExecutionQuery) -> Sequence[ExecutionRow]:
        """Return the matching rows, newest first (started_at descending, then id descending)."""
        ...

    async def row(self, execution_id: ExecutionId) -> ExecutionRow | None:
        """Return the index row of one execution, None when there is no such execution."""
        ...


class EventFeed(Protocol):
    """Following one log as it grows."""

    def subscribe(self, execution_id: ExecutionId, *, start: int = 0) -> AsyncIterator[EventRecord]:
        """Yield the events from *start* on, each once and in order, and go on for ever as more become durable.

        An execution that does not exist yet is waited for. Closing the iterator releases everything.
        """
        ...


@runtime_checkable
class Storage(EventStore, RequestLane, ExecutionIndex, EventFeed, Protocol):
    """All that the kernel needs of a store, in one object, with a life of its own.

    *url* names it in messages (never with a password). `open` may be called again (it then does nothing);
    `close` releases every connection, thread and handle, and the object may be opened again afterwards.
    """

    @property
    def url(self) -> str: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...
