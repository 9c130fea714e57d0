"""The request lane of a driven run: what others asked for takes effect where the driver journals it (kernel rule 1).

Each request is read once. A message then waits in the inbox, in memory, until a receive takes it (receiving.py); any other
is journaled in the order of the lane, as its row of `KINDS` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from loom.core import facts as f
from loom.core.errors import LoomError
from loom.kernel.calls import Call, Event
from loom.kernel.cancelling import REQUESTED
from loom.kernel.gates import GateSyscall
from loom.kernel.receiving import Inbox
from loom.kernel.steps import StepSyscall
from loom.spi.event_store import LanePlace, Request, RequestLane

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

Body: TypeAlias = Mapping[str, Any]
FactOf: TypeAlias = "Callable[[Drive, Body], tuple[str, Any]]"


class Requests:
    """Reads the lane of one drive and journals what it holds. *seen* is the greatest number that it has read."""

    def __init__(self, drive: Drive, lane: RequestLane) -> None:
        self._drive, self._lane = drive, lane
        self.are_waiting = False
        self.seen = 0
        self.inbox = Inbox(drive)
        self.fresh: list[Request] = []

    def knock(self) -> None:
        """There is a new request, or may be."""
        self.are_waiting = True
        if not self._drive.asking.is_replaying:
            self._drive.wake("requests")

    @property
    def place(self) -> LanePlace | None:
        """The lane, and up to where it was read; None while the run is not on disk."""
        journal = self._drive.journal
        if journal.incarnation is None:
            return None
        return LanePlace(*(journal.state.facts.chain or (journal.state.execution_id, journal.incarnation)), self.seen)

    async def read(self) -> None:
        """Read what is new in the lane: messages into the inbox, others into `fresh`, which is to be applied at once."""
        place = self.place
        if place is None:
            return
        for request in await self._lane.pending(place.execution_id, place.incarnation, above=place.above):
            self.seen = request.number
            if request.kind == "message":
                self.inbox.put(request)
            else:
                self.fresh.append(request)

    async def take(self) -> None:
        """Read the lane and journal what is new in it."""
        self.are_waiting = False
        await self.read()
        if not self._drive.is_over:
            self.apply()

    def apply(self, *kinds: str) -> None:
        """Journal what was read, of *kinds* or all: each as the fact it asks for, or as dropped when it came too late.

        A pause is journaled when what is in flight has ended.
        """
        fresh = [request for request in self.fresh if (request.kind in kinds if kinds else request.kind != "pause")]
        self.fresh = [request for request in self.fresh if request not in fresh]
        for request in fresh:
            body = orjson.loads(request.body)
            try:
                type_, fact = self.fact_of(request.kind, body)
                event = self._drive.commit(type_, fact, self.about(request, body), consumes=request.number)
            except LoomError as error:
                self.drop(request, body, str(error))
                continue
            KINDS[request.kind][1](self._drive, event)
        if self.fresh and self.fresh[0].kind == "pause":
            self._drive.interrupt()
        self._drive.delivery.stir()  # a message may have come, or a topic was released

    def fact_of(self, kind: str, body: Body) -> tuple[str, Any]:
        """Return the type and the fact that a request adds, refuse by raising.

        Raises:
            LoomError: what it is for is not there any more, or its value is not what is expected.
        """
        if kind not in KINDS:
            raise LoomError(f"this version knows no {kind}")
        return KINDS[kind][0](self._drive, body)

    def drop(self, request: Request, body: Body, reason: str) -> None:
        """Journal that *request* comes to nothing."""
        dropped = f.RequestDropped(request.kind, request.key, reason)
        self._drive.commit("REQUEST_DROPPED", dropped, self.about(request, body), consumes=request.number)

    def about(self, request: Request, body: Body) -> Mapping[str, Any]:
        """Return the metadata of what journals *request*: its number, and who made it."""
        return {"request": request.number} | ({"principal": body["principal"]} if body.get("principal") else {})


def _settles(type_: str, syscall: type[Any], fact: Callable[[Any, Call, Body], Any]) -> FactOf:
    """Return what makes the fact by which a person settles a call of *syscall*."""

    def fact_of(drive: Drive, body: Body) -> tuple[str, Any]:
        call = drive.delivery.calls.get(body["start"])
        if call is None or call.outcome is not None or call.sequence not in drive.state.gates:
            raise LoomError("what it answers is not open any more")
        if not isinstance(call.syscall, syscall):
            raise LoomError(f"{call.id} is not settled so")
        return type_, fact(call.syscall, call, body)

    return fact_of


def _given(type_: str, fact: type[Any]) -> FactOf:
    """Return what makes the fact that a request holds as it is."""
    return lambda _, body: (type_, fact(**{name: body[name] for name in fact._fields if name in body}))


def _paused(drive: Drive, body: Body) -> tuple[str, Any]:
    if drive.state.facts.is_paused:
        raise LoomError("it is paused already")
    return "EXECUTION_PAUSED", f.ExecutionPaused(body.get("reason"))


def _delivered(drive: Drive, event: Event) -> None:
    drive.delivery.put(event)


def _resolved(drive: Drive, event: Event) -> None:
    call = drive.delivery.calls[event.payload.start]
    if event.payload.verdict == "retry" and isinstance(call.syscall, StepSyscall):
        call.syscall.again(call, drive)
    else:
        drive.delivery.put(event)


def _noted(drive: Drive, event: Event) -> None: ...


KINDS: Final[Mapping[str, tuple[FactOf, Callable[[Drive, Event], None]]]] = {
    "answer": (_settles("GATE_ANSWERED", GateSyscall, GateSyscall.answer), _delivered),
    "verdict": (_settles("EFFECT_RESOLVED", StepSyscall, StepSyscall.verdict), _resolved),
    "cancel": (lambda drive, body: (REQUESTED, drive.cancelling.fact_of(body)), lambda d, e: d.cancelling.requested(e)),
    "pause": (_paused, _noted),
    "hold": (_given("TOPIC_HELD", f.TopicHeld), _noted),
    "release": (_given("TOPIC_RELEASED", f.TopicReleased), _noted),
    "denial": (_given("EXECUTION_DENIED", f.ExecutionDenied), _noted),
    "outcome": (_given("OUTCOME_ATTACHED", f.OutcomeAttached), _noted),
}
"""How a request is journaled: the type and the fact it comes to (or its refusal, raised), and what follows from the event.

A message is not among them: it waits in the inbox.
"""
