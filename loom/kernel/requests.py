"""The request lane of a driven run: what others asked for takes effect where the driver journals it (kernel rule 1)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from loom.core import facts as f
from loom.core.errors import LoomError
from loom.kernel.calls import Call
from loom.kernel.gates import GateSyscall
from loom.kernel.steps import StepSyscall
from loom.spi.event_store import Request, RequestLane

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

POLL_S: Final = 0.25
"""The driver reads the lane at least this often."""


class Requests:
    """Reads the lane of one drive and journals what it holds."""

    def __init__(self, drive: Drive, lane: RequestLane) -> None:
        self._drive, self._lane = drive, lane
        self._timer: asyncio.TimerHandle | None = None
        self._poll: asyncio.Task[None] | None = None
        self.are_waiting = False

    def knock(self) -> None:
        """There is a new request, or may be."""
        self.are_waiting = True
        if not self._drive.asking.is_replaying:
            self._drive.wake("requests")

    def watch(self) -> None:
        """Look into the lane every 250 ms from now on."""
        self._timer = asyncio.get_running_loop().call_later(POLL_S, self._look)

    def unwatch(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._poll is not None:
            self._poll.cancel()

    def _look(self) -> None:
        self._poll = asyncio.get_running_loop().create_task(self._look_in(), name="loom-lane")

    async def _look_in(self) -> None:
        if not self._drive.asking.is_replaying and await self.pending():
            self.knock()
        self.watch()

    async def pending(self) -> Sequence[Request]:
        """Return the requests that no event journals yet."""
        journal = self._drive.journal
        if journal.incarnation is None:
            return ()
        pending = await self._lane.pending(journal.state.execution_id, journal.incarnation)
        return [request for request in pending if request.number not in journal.consumed]

    async def take(self) -> None:
        """Journal what is pending."""
        self.are_waiting = False
        for request in await self.pending():
            self.apply(request)

    def apply(self, request: Request) -> None:
        """Journal one request: as the fact it asks for, or as dropped when it came too late."""
        drive = self._drive
        body = orjson.loads(request.body)
        about = {"request": request.number} | ({"principal": body["principal"]} if body.get("principal") else {})
        call = drive.delivery.calls.get(body["start"])
        try:
            fact = self.fact_of(request.kind, call, body)
        except LoomError as error:
            dropped = f.RequestDropped(request.kind, request.key, str(error))
            drive.commit("REQUEST_DROPPED", dropped, about, consumes=request.number)
            return
        assert call is not None
        type_ = "GATE_ANSWERED" if request.kind == "answer" else "EFFECT_RESOLVED"
        event = drive.commit(type_, fact, about, consumes=request.number)
        if isinstance(fact, f.EffectResolved) and fact.verdict == "retry":
            assert isinstance(call.syscall, StepSyscall)
            call.syscall.again(call, drive)
        else:
            drive.delivery.put(event)

    def fact_of(self, kind: str, call: Call | None, body: Mapping[str, Any]) -> f.GateAnswered | f.EffectResolved:
        """Return the fact that a request adds, refuse by raising.

        Raises:
            LoomError: the gate or doubt it is for is gone, or the value is not what is expected.
        """
        if call is None or call.settled or call.sequence not in self._drive.state.gates:
            raise LoomError("what it answers is not open any more")
        if kind == "answer" and isinstance(call.syscall, GateSyscall):
            return call.syscall.answer(call, body)
        if kind == "verdict" and isinstance(call.syscall, StepSyscall):
            return call.syscall.verdict(call, body)
        raise LoomError(f"a {kind} cannot settle {call.id}")
