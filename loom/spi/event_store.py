"""Where logs live: the contract between the kernel and any store (kernel rules 1 and 2).

A log is the ordered events of one execution, sequence 0 upward, no gaps. A store keeps bytes: it never looks
into a payload. Beside each log stand its *request lane* (durable rows inserted by anybody, journaled by the one
driver) and its *index row* (a cache of the folded state for listings, written in the same transaction), and who holds the execution.

A *chain* is a run that goes on as another: its links have a log each and share the lane of the first. Most runs are a
chain of one link. The last link that there is stands for the chain.

All methods may be called from any task of one event loop. None holds a transaction over an await of the caller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.where import Where

EVENT_STORE_SPI_VERSION: Final = "1.0.0"

RequestKind: TypeAlias = Literal[
    "answer", "verdict", "message", "hold", "release", "cancel", "pause", "denial", "outcome"
]
"""What others may ask of an execution. A message waits in the lane until the flow receives it."""


class EventRecord(NamedTuple):
    """One event as stored. *at* is in milliseconds since the epoch, UTC; *payload* and *metadata* are JSON text.

    *metadata* is empty when there is none.
    """

    sequence: int
    type: str
    at: int
    payload: bytes
    metadata: bytes


# Nobody changes one. But a frozen dataclass takes three times as long to make, and one is made for every append (docs/adr/0001).
@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class IndexRow:
    """What listings need of an execution, as of its last event. A cache: the log is the truth.

    *gates* is the JSON text of the open gates (a list), *attributes* that of the user's search attributes
    (an object); *wake_at* is the next time (ms since the epoch) at which the run can go on by itself. *chain* is the id of
    the first link of its chain (its own for a first link), *link* its number there, from 1, *parent* the id of the run that
    spawned it, empty when nobody did: these three never change. *ended* says that the flow is not driven any more.
    """

    flow: str
    status: str
    started_at: int
    updated_at: int
    wake_at: int | None
    gates: str
    attributes: str
    chain: str
    link: int = 1
    parent: str = ""
    ended: bool = False


class LeaseChange(NamedTuple):
    """Who holds the execution once an item is written: *driver* for *ms* by the store's clock, or nobody (empty)."""

    driver: str
    ms: int = 0


NOBODY: Final = LeaseChange("")
"""The change that gives an execution up."""


class Lane(NamedTuple):
    """A request lane: that of an execution, or of the first link of its chain, in which all its links share."""

    execution_id: ExecutionId
    incarnation: Incarnation


class Send(NamedTuple):
    """A request for the lane of another chain, inserted in the transaction of an item; see `RequestLane.insert`.

    *chain* is the id of its first link, in its present life. Where that has ended, or the key is taken, nothing is inserted.
    """

    chain: ExecutionId
    kind: RequestKind
    key: str
    at: int
    body: bytes


@dataclass(slots=True, kw_only=True, unsafe_hash=True)  # not frozen, as `IndexRow`
class Append:
    """One item of a batch: events to add at the end of one log.

    *expected* is the length the log must have (0: it must not exist). *incarnation* is the life of the id the
    writer knows, None exactly when *expected* is 0. *append_id* names this very write among those
    of all writers, so that it can be repeated when its outcome is unknown.

    *lane* is the lane of this execution, None for its own; one that is not there is empty. *consumes* are numbers of
    requests of it that these events journal; they stop being pending in the same transaction. With *lane_above* the item is
    refused while a request with a greater number (other than those it consumes) is pending: one that the driver has not
    seen. With *lane_kinds*, only requests of these kinds count there.

    *lease* changes who holds the execution; None leaves it as it is. With *takes_over* the item is refused (`Leased`) while
    the lease of another driver than that of *lease* runs, unless that driver is *gone*, as the caller knows. A change of
    lease that gives the execution up also forgets that its driver was called (see `LeaseStore.claim`).

    *follows* is the first item of the next link of a chain, *sends* are requests for other lanes: written in the same
    transaction, exactly when this item is. Where *follows* does not fit, this item is refused with the `Conflict` of that log.
    """

    execution_id: ExecutionId
    incarnation: Incarnation | None
    expected: int
    append_id: str
    events: Sequence[EventRecord]
    index: IndexRow
    lane: Lane | None = None
    consumes: Sequence[int] = ()
    lane_above: int | None = None
    lane_kinds: Sequence[RequestKind] = ()
    lease: LeaseChange | None = None
    takes_over: bool = False
    gone: str = ""
    follows: Append | None = None
    sends: Sequence[Send] = ()


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
    """`lane_above` was asked for and so many requests *pending* forbid it; nothing of this item was written."""

    pending: int


class Leased(NamedTuple):
    """`takes_over` was asked for and *driver* holds the execution for another *ms*; nothing of this item was written."""

    driver: str
    ms: int


AppendResult: TypeAlias = Appended | Conflict | LaneNotEmpty | Leased


class Head(NamedTuple):
    """Where a log stands."""

    execution_id: ExecutionId
    incarnation: Incarnation
    length: int


@dataclass(slots=True, unsafe_hash=True)  # not frozen, as `IndexRow`
class ExecutionRow:
    """One line of a listing. *driver* holds the execution (empty: nobody) for another *lease_ms* by the store's clock.

    Zero: the lease has lapsed, or was *released* before the run was parked. *cancel_asked* says that its lane has taken the
    request whose key is its `cancel_key`, whatever came of that. *ended_at* is the `updated_at` of the append with which it ended
    (ms since the epoch), None while it has not.
    """

    execution_id: ExecutionId
    incarnation: Incarnation
    length: int
    index: IndexRow
    driver: str = ""
    lease_ms: int = 0
    released: bool = False
    cancel_asked: bool = False
    ended_at: int | None = None


def cancel_key(link: int) -> str:
    """Return the key of the request to cancel link number *link* of a chain: each is asked once."""
    return "cancel" if link == 1 else f"{link}:cancel"


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


class LaneClosed(NamedTuple):
    """`while_open` was asked for, and the last link of the chain has ended; nothing was inserted."""

    status: str


class LanePlace(NamedTuple):
    """A place in the lane of the chain that began with *execution_id*: after the request with the number *above*."""

    execution_id: ExecutionId
    incarnation: Incarnation
    above: int


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
        while_open: bool = False,
    ) -> int | RequestTaken | LaneClosed | None:
        """Add a request durably and return its number; None when there is no first link of a chain with that id and life.

        A key that is not empty is unique within the lane for ever, across processes: a taken one is told whether or not the
        chain has ended. With *while_open* nothing is inserted once the last link of the chain has ended. The driver of the
        last link is called in the same transaction (see `LeaseStore.claim`).
        """
        ...

    async def pending(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, above: int = 0
    ) -> Sequence[Request]:
        """Return the requests that no append has consumed, in order; only those whose number is greater than *above*."""
        ...

    async def have_news(self, places: Sequence[LanePlace]) -> Sequence[bool]:
        """Tell for each place whether a request after it is pending: drivers ask for all their runs at once, several times a second."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionQuery:
    """Which executions a listing shows. Empty sequences mean "any". Newest first, by (started_at, id).

    *due_before* (ms since the epoch) shows those whose `wake_at` is smaller; *with_gates* those with an open gate; *chain*
    the links of one chain, *parent* what one run has spawned; *tips* leaves out links that go on as another. *ended* shows
    only those that have ended, or have not; *where* those that are so.
    """

    statuses: Sequence[str] = ()
    flows: Sequence[str] = ()
    with_gates: bool = False
    due_before: int | None = None
    chain: str = ""
    parent: str = ""
    tips: bool = False
    ended: bool | None = None
    where: Where | None = None
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


class Claim(NamedTuple):
    """An execution that a driver has taken up to drive, and why it can go on.

    *found*: `due` (its time has come, or somebody called), or what became of the driver it had: `released` when it let go,
    else `gone` when the caller knew it, else `lapsed`. *row* is as it is now, held by the caller.
    *calls* is the number of the last request for which its driver was called, 0 for none; *taken_from* is the driver it had.
    """

    row: ExecutionRow
    found: Literal["due", "lapsed", "gone", "released"]
    calls: int
    taken_from: str = ""


class LeaseStore(Protocol):
    """Who holds which execution (kernel rule 7). A lease lies beside the log and is judged by the store's clock alone.

    An execution that somebody holds has a driver; parking and ending give it up (`Append.lease`). A lease keeps others from
    taking an execution up; what keeps a late driver from writing is the length of the log. A driver goes on holding what
    its lapsed lease was for until another takes it.
    """

    async def now_ms(self) -> int:
        """Return the time by the store's clock, ms since the epoch."""
        ...

    async def claim(
        self,
        driver: str,
        *,
        lease_ms: int,
        limit: int,
        flows: Sequence[str] | None = None,
        gone: Sequence[str] = (),
        skip: Sequence[ExecutionId] = (),
        driving: Sequence[ExecutionId] = (),
    ) -> Sequence[Claim]:
        """Take up to *limit* open executions that can go on and that nobody holds, in one transaction, longest due first.

        These are: the parked ones whose `wake_at` has come or whose driver was called, those whose driver's lease has
        lapsed or was released, and those of the drivers *gone*. *flows* (None: all) are those that the caller can drive,
        *skip* are executions that it cannot drive now. Where a lease of its own has lapsed, those it is *driving* are left out:
        what it holds beside them it was given by a claim whose answer was lost, or it has let go. What is claimed was called
        until it is given up.
        """
        ...

    async def renew(self, driver: str, executions: Sequence[ExecutionId], *, lease_ms: int) -> Sequence[ExecutionId]:
        """Hold *executions* for another *lease_ms* from now; return those that *driver* does not hold any more."""
        ...

    async def leave(self, driver: str, seen: Mapping[ExecutionId, int]) -> None:
        """Give up parked executions that *driver* claimed and did not move; those it does not hold stay as they are.

        Calls up to the number that was *seen* (of `Claim.calls`) are forgotten; after a later one, or when its `wake_at` has
        come, an execution can be claimed at once.
        """
        ...

    async def release(self, driver: str, executions: Sequence[ExecutionId]) -> None:
        """Let the leases of executions lapse that *driver* holds and did not park: the next claim takes them over."""
        ...

    async def drivers(self) -> Sequence[str]:
        """Return the drivers that hold something, each once."""
        ...


class EventFeed(Protocol):
    """Following one log as it grows."""

    def subscribe(self, execution_id: ExecutionId, *, start: int = 0) -> AsyncIterator[EventRecord]:
        """Yield the events from *start* on, each once and in order, and go on for ever as more become durable.

        An execution that does not exist yet is waited for. Closing the iterator releases everything.
        """
        ...


@runtime_checkable
class Storage(EventStore, RequestLane, ExecutionIndex, LeaseStore, EventFeed, Protocol):
    """All that the kernel needs of a store, in one object, with a life of its own.

    *url* names it in messages (never with a password). `open` may be called again (it then does nothing);
    `close` releases every connection, thread and handle, and the object may be opened again afterwards.
    """

    @property
    def url(self) -> str: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...
