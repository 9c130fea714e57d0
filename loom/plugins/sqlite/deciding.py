"""What a transaction changes, decided from where its logs and lanes stand. No SQL here: the shell is writing.py.

A transaction holds any number of writes, each an append of a batch or an insert into a lane. They are decided one
after the other, as if each were alone: what one changes, the next one sees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.event_store import (
    Append,
    Appended,
    AppendResult,
    Conflict,
    IndexRow,
    LaneClosed,
    LaneNotEmpty,
    LeaseChange,
    Leased,
    RequestKind,
    RequestTaken,
    Send,
)


class Insert(NamedTuple):
    """A request on its way into a lane, of any life when *incarnation* is None; see `RequestLane.insert`."""

    send: Send
    incarnation: Incarnation | None
    while_open: bool


Batch: TypeAlias = Sequence[Append]
Write: TypeAlias = Batch | Insert

Inserted: TypeAlias = int | RequestTaken | LaneClosed | None
WriteResult: TypeAlias = list[AppendResult] | Inserted

EventRow: TypeAlias = "tuple[Incarnation, int, str, int, bytes, bytes]"
"""An event with the incarnation of its log before it."""

RequestRow: TypeAlias = "tuple[Incarnation, int, RequestKind, str, int, bytes]"
"""A request with the incarnation of its log before it."""

AppendedAs: TypeAlias = dict[tuple[str, int], int]
"""What the last append that touched a log wrote there: append id and expected length, to the length afterwards."""


class Place(NamedTuple):
    """What listings are sorted and searched by."""

    flow: str
    started_at: int
    status: str
    wake_at: int | None
    ended: bool
    attributes: str


class Hold(NamedTuple):
    """Who holds an execution (None: nobody), until when, and for which request its driver was called, since when."""

    driver: str | None = None
    leased_until: int = 0
    released: bool = False
    called: int = 0
    called_at: int | None = None

    def changed(self, lease: LeaseChange, now: int) -> Hold:
        if not lease.driver:
            return NOT_HELD
        return Hold(lease.driver, now + lease.ms, called=self.called, called_at=self.called_at)

    def calling(self, number: int, now: int) -> Hold:
        return self._replace(called=number, called_at=now if self.called_at is None else self.called_at)


NOT_HELD: Final = Hold()


@dataclass(slots=True)
class Stand:
    """Where a log stands; *place_was*, *hold_was* and *ended_at_was* are what its row has on disk, None when it has no row yet.

    *index* is the index row to write, None when the log has not been touched. *ended_at* is when it ended, None while it has not.
    """

    execution_id: ExecutionId
    incarnation: Incarnation
    chain: str
    link: int
    place: Place
    hold: Hold = NOT_HELD
    length: int = 0
    appended: AppendedAs = field(default_factory=dict)
    place_was: Place | None = None
    hold_was: Hold | None = None
    index: IndexRow | None = None
    ended_at: int | None = None
    ended_at_was: int | None = None

    @property
    def stays(self) -> bool:
        """Whether its row keeps all that listings are sorted by, and who holds it."""
        was = self.place_was, self.hold_was, self.ended_at_was
        return (self.place, self.hold, self.ended_at) == was


@dataclass(slots=True, kw_only=True)
class LaneStand:
    """How a lane stands, as far as it was asked about.

    *pending* has pending requests with their kinds: those above what a driver has seen. For a lane that is about to grow, *last*
    is the greatest number in it, and *keys* has the numbers of the keys in question (those pending are in *pending*).
    """

    pending: dict[int, RequestKind] = field(default_factory=dict)
    last: int = 0
    keys: dict[str, int] = field(default_factory=dict)


class Stands(NamedTuple):
    """What a transaction read: logs by id, lanes by the incarnation of theirs, the last links of chains that are sent to."""

    logs: Mapping[ExecutionId, Stand]
    lanes: Mapping[Incarnation, LaneStand]
    tips: Mapping[str, ExecutionId]
    last_incarnation: int


class Decisions:
    """One transaction at the time *now*: what its writes come to, and the rows that have to be written for it."""

    def __init__(self, stands: Stands, now: int) -> None:
        self.stands, self.lanes, self._tips = dict(stands.logs), dict(stands.lanes), dict(stands.tips)
        self._last, self.now = stands.last_incarnation, now
        self.events: list[EventRow] = []
        self.requests: list[RequestRow] = []
        self.consumed: list[tuple[Incarnation, int]] = []

    def decide(self, write: Write) -> WriteResult:
        """Return the result of one write."""
        return self.insert(write) if isinstance(write, Insert) else _BatchDecision(self).decide(write)

    def insert(self, wish: Insert) -> Inserted:
        """Put a request into a lane, and call the driver of the last link of its chain."""
        send = wish.send
        stand = self.stands.get(send.chain)
        if stand is None or stand.chain != send.chain or wish.incarnation not in (None, stand.incarnation):
            return None
        lane = self.lanes.setdefault(stand.incarnation, LaneStand())
        if send.key and (taken := lane.keys.get(send.key)):
            return RequestTaken(taken, pending=taken in lane.pending)
        tip = self.stands[self._tips.get(send.chain, send.chain)]
        if wish.while_open and tip.place.ended:
            return LaneClosed(tip.place.status)
        lane.last += 1
        lane.pending[lane.last] = send.kind
        lane.keys[send.key] = lane.last
        tip.hold = tip.hold.calling(lane.last, self.now)
        self.requests.append((stand.incarnation, lane.last, *send[1:]))
        return lane.last

    def lane_of(self, stand: Stand | None, item: Append) -> Incarnation | None:
        """Return the incarnation of the log that the lane of an item is beside, None when it is not there."""
        if item.lane is not None:
            stand = self.stands.get(item.lane.execution_id)
            return item.lane.incarnation if stand and stand.incarnation == item.lane.incarnation else None
        return stand.incarnation if stand else None

    def begin(self, item: Append) -> Stand:
        """Return the stand of a new log, with the next incarnation."""
        self._last += 1
        run, index = Incarnation(self._last), item.index
        stand = self.stands[item.execution_id] = Stand(item.execution_id, run, index.chain, index.link, place_of(index))
        tip = self.stands.get(self._tips.get(index.chain, ExecutionId(index.chain)))
        if tip is None or tip.link <= index.link:
            self._tips[index.chain] = item.execution_id
        return stand


class _BatchDecision:
    """One batch: what it has appended where, and whom it has refused."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._appended: dict[ExecutionId, AppendedAs] = {}
        self._refused: set[ExecutionId] = set()

    def decide(self, batch: Batch) -> list[AppendResult]:
        return [self._decide(item) for item in batch]

    def _decide(self, item: Append) -> AppendResult:
        stand = self._decisions.stands.get(item.execution_id)
        if stand and item.execution_id not in self._refused:
            known = stand.appended.get((item.append_id, item.expected))
            if known is not None:
                return self._remember(stand, item, known)
        refusal = self._refusal(item)
        if refusal is None:
            return self._write(item)
        self._refused.update(each.execution_id for each in with_following(item))
        return refusal

    def _refusal(self, item: Append) -> Conflict | Leased | LaneNotEmpty | None:
        """Return why *item* is refused, None when it is written."""
        stand = self._decisions.stands.get(item.execution_id)
        if item.execution_id in self._refused or not _fits(stand, item):
            return Conflict(stand.length, stand.incarnation) if stand else Conflict(0, None)
        refusal: Conflict | Leased | LaneNotEmpty | None = None
        if stand and item.takes_over:
            refusal = self._leased(stand.hold, item)
        if item.lane_above is not None and refusal is None:
            refusal = self._not_empty(stand, item, item.lane_above)
        if item.follows is not None and refusal is None:
            refusal = self._refusal(item.follows)
        return refusal

    def _leased(self, hold: Hold, item: Append) -> Leased | None:
        own, left = item.lease.driver if item.lease else "", hold.leased_until - self._decisions.now
        return None if hold.driver in (None, own, item.gone) or left <= 0 else Leased(hold.driver, left)

    def _not_empty(self, stand: Stand | None, item: Append, above: int) -> LaneNotEmpty | None:
        run = self._decisions.lane_of(stand, item)
        lane = None if run is None else self._decisions.lanes.get(run)
        kinds = [
            kind
            for number, kind in (lane.pending.items() if lane else ())
            if number > above and number not in item.consumes and (not item.lane_kinds or kind in item.lane_kinds)
        ]
        return LaneNotEmpty(len(kinds)) if kinds else None

    def _write(self, item: Append) -> Appended:
        decisions = self._decisions
        stand = decisions.stands.get(item.execution_id) or decisions.begin(item)
        run = stand.incarnation
        decisions.events.extend((run, *event) for event in item.events)
        if item.consumes:
            self._consume(stand, item)
        stand.length += len(item.events)
        stand.index, stand.place = item.index, place_of(item.index)
        if item.index.ended != (stand.ended_at is not None):
            stand.ended_at = item.index.updated_at if item.index.ended else None
        if item.lease is not None:
            stand.hold = stand.hold.changed(item.lease, decisions.now)
        result = self._remember(stand, item, stand.length)
        stand.appended = self._appended[item.execution_id]
        if item.follows is not None:
            self._write(item.follows)
        for send in item.sends:
            decisions.insert(Insert(send, None, while_open=True))
        return result

    def _consume(self, stand: Stand, item: Append) -> None:
        run = self._decisions.lane_of(stand, item)
        if run is not None:
            self._decisions.consumed.extend((run, number) for number in item.consumes)
            lane = self._decisions.lanes.setdefault(run, LaneStand())
            for number in item.consumes:
                lane.pending.pop(number, None)

    def _remember(self, stand: Stand, item: Append, length: int) -> Appended:
        self._appended.setdefault(item.execution_id, {})[item.append_id, item.expected] = length
        return Appended(stand.incarnation, length)


def with_following(item: Append) -> list[Append]:
    """Return the item, and those of the next links that go with it."""
    return [item] if item.follows is None else [item, *with_following(item.follows)]


def place_of(index: IndexRow) -> Place:
    """Return what listings are sorted and searched by."""
    return Place(index.flow, index.started_at, index.status, index.wake_at, index.ended, index.attributes)


def _fits(stand: Stand | None, item: Append) -> bool:
    if stand is None:
        return item.expected == 0 and item.incarnation is None
    return (item.expected, item.incarnation) == (stand.length, stand.incarnation)
