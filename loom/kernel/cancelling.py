"""Cancellation (kernel rule 6.4): a recorded request, delivered like any outcome, and the grace a flow has for its clean-up.

From the request on nothing new starts, but for what is shielded. Effects in flight are told to end; what must not run twice
is waited for, for half of the grace. Then the request is delivered: every branch that stands in a syscall gets `Cancelled`
there, and again at each later syscall, unless that is called under `ctx.shield()` or where Cancelled is being handled
(docs/adr/0017). At the end of the grace no shield holds any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from loom.core import facts as f
from loom.core.errors import LoomError
from loom.core.failures import Cancelled, cancelled_in_hand
from loom.kernel.calls import Branch, Call, Event
from loom.kernel.scopes import is_join

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

GRACE_MS: Final = 30_000
PATIENCE_MS: Final = 5_000
"""So long after its grace a flow may still wait for what is no syscall; then it is abandoned."""
REQUESTED, GRACE_ENDED = "EXECUTION_CANCEL_REQUESTED", "EXECUTION_GRACE_ENDED"
_CLOSED: Final = ("GATE_OPENED", "MESSAGE_AWAITED")
LEFT_BEHIND: Final = "it was still running when the cancelled run could wait no longer"


class Cancelling:
    """How far the cancellation of the run of one drive has come."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self.is_delivered = self.is_final = self.is_abandoned = False

    def dooms(self, call: Call) -> bool:
        """Whether *call* cannot begin or go on any more: by the log, its branch gets Cancelled there."""
        facts = self._drive.state.facts
        return facts.cancel is not None and (not call.free or facts.grace_ended is not None)

    def reaches(self, call: Call) -> bool:
        """Whether Cancelled has been delivered to where *call* stands."""
        return self.is_final or (self.is_delivered and not call.free)

    def frees(self, branch: Branch) -> bool:
        """Whether what is called in *branch* now is under a shield, or part of a clean-up."""
        return branch.is_free or bool(branch.shields) or (self.is_delivered and cancelled_in_hand())

    def refuse(self, branch: Branch) -> None:
        """A syscall is called in *branch*: raise Cancelled if it was raised there before, but for a clean-up."""
        if branch.cancelled and (self.is_final or not self.frees(branch)):
            self._drive.unwinding.refused()
            raise self.raised_in(branch)

    def raised_in(self, branch: Branch) -> Cancelled:
        """Return the signal to raise in *branch*."""
        cancel = self._drive.state.facts.cancel
        assert cancel is not None
        branch.cancelled = True
        return Cancelled(cause=cancel.payload.cause, reason=cancel.payload.reason)

    # -- how it comes --------------------------------------------------------------------------------------------

    def fact_of(self, body: Mapping[str, Any]) -> f.ExecutionCancelRequested:
        """Return the fact that a request to cancel is.

        Raises:
            LoomError: the run is being cancelled already.
        """
        drive = self._drive
        if drive.state.facts.cancel is not None:
            raise LoomError("it is being cancelled already")
        waits = [call for call in drive.delivery.calls.values() if call.syscall.starts in _CLOSED and not call.free]
        closed = sorted(call.sequence for call in waits if not call.settled)
        due_at = drive.now_ms() + body.get("grace_ms", GRACE_MS)
        return f.ExecutionCancelRequested(body["cause"], due_at, body.get("reason"), closed or None)

    def requested(self, event: Event) -> None:
        """The request is on the log: what is in flight is told to end, and the body is to be told."""
        for call in self._in_flight():
            if not call.is_once:
                self._drive.flights.drop(call)
        self._drive.delivery.put(event)
        self.watch()

    def _in_flight(self) -> list[Call]:
        return [call for call in self._drive.flights if self.dooms(call)]

    def watch(self) -> None:
        """Have happen in time what the log says will: the deadline, or the end of the grace."""
        drive, facts = self._drive, self._drive.state.facts
        if facts.cancel is None and facts.due_at is not None:
            drive.timers.add(facts.due_at, self._too_late, lambda: drive.state.facts.cancel is None)
        if facts.cancel is not None and facts.grace_ended is None:
            asked_at, due_at = facts.cancel.at, facts.cancel.payload.due_at
            drive.timers.add((asked_at + due_at) // 2, self._leave_behind, lambda: not self.is_delivered)
            drive.timers.add(due_at, self._end_grace, lambda: drive.state.facts.grace_ended is None)

    def _too_late(self) -> None:
        self.requested(self._drive.commit(REQUESTED, self.fact_of({"cause": "deadline"})))

    def _leave_behind(self) -> None:
        """Wait no longer for effects; what became of those that must not run twice, a person has to find out."""
        for call in self._in_flight():
            self._drive.flights.leave_behind(call)
            if call.is_once:
                self._drive.commit("EFFECT_INDOUBT", f.EffectIndoubt(start=call.sequence, reason=LEFT_BEHIND))
        self._drive.delivery.stir()

    def _end_grace(self) -> None:
        event = self._drive.commit(GRACE_ENDED, f.ExecutionGraceEnded())
        self._leave_behind()
        self._drive.delivery.put(event)

    # -- how it is delivered -------------------------------------------------------------------------------------

    def deliver(self, event: Event) -> None:
        """Raise Cancelled in each branch that stands in a syscall, once effects have ended; a join gets it from its branches."""
        drive, recorded = self._drive, self._drive.asking.recorded
        if recorded is not None and recorded.awaits(event.sequence) and drive.may_still_come():
            return
        if recorded is None and self._in_flight():
            return
        drive.delivery.queue.popleft()
        self.is_delivered = True
        if event.type == GRACE_ENDED:
            self.is_final = True
            drive.timers.add(event.at + PATIENCE_MS, self._abandon, lambda: drive.ending is None)
        for branch in drive.delivery.strands():
            self._signal(branch, event)
        for call, scope in [each for each in drive.closing.items() if self.reaches(each[0])]:
            scope.closes_no_more(call, drive)  # its branches end by themselves
        drive.asking.held = [call for call in drive.asking.held if not call.settled]
        drive.delivery.stir()

    def _signal(self, branch: Branch, event: Event) -> None:
        goes_on = branch.task is not None and self._drive.delivery.branches.get(branch.task) is branch
        if self.is_final and not branch.waiting and branch.task is not None and goes_on:
            branch.task.cancel()
        for call in [call for call in branch.waiting if self.reaches(call) and not is_join(call)]:
            call.settled, branch.seen = True, event
            self._drive.delivery.interrupt(call, self.raised_in(branch))

    def _abandon(self) -> None:
        self.is_abandoned = True
        self._drive.wake("ended")
