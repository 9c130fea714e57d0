"""Asking: how a syscall meets the log (kernel rules 5.2, 9).

While the body *replays*, an asked syscall is compared with the record at its place: one with an outcome is served in its turn,
one with a start only is *taken up* at the frontier, one without a record is *held* until then. Live, it begins at once, or is held
while the scope it is in is closing: it begins if the scope then ends by itself, and never if it is cut.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any

from loom.core.errors import LoomError
from loom.core.origins import remember_start, start_of
from loom.core.tally import told_end
from loom.kernel.calls import Branch, BranchCut, Call, DriveEnding, Event
from loom.kernel.errors import ReplayDivergence, UnrecordedCancellation
from loom.kernel.replay import Record, Recorded
from loom.kernel.scopes import ScopeSyscall
from loom.spi.letting_go import never
from loom.spi.telling import resolve
from loom.values import RecordUnreadable
from loom.values.failing import type_name, where_of

if TYPE_CHECKING:
    from loom.kernel.drive import Drive


class Asking:
    """What the body asks of one drive, and what it has asked so far."""

    def __init__(self, drive: Drive, recorded: Recorded | None) -> None:
        self._drive = drive
        self.recorded = recorded
        self.is_paused = False
        """While a park is being written nothing begins."""
        self.held: list[Call] = []
        self.taken_up: list[Call] = []

    @property
    def is_replaying(self) -> bool:
        """Whether the recorded prefix is not used up yet."""
        return self.recorded is not None

    def enter(self, branch: Branch) -> None:
        """A syscall is called in *branch*: refuse while unwinding."""
        if self._drive.ending is not None:
            self._drive.unwinding.refused()
            raise DriveEnding
        if branch.is_cut:
            self._drive.unwinding.refused()
            raise BranchCut
        self._drive.cancelling.refuse(branch)

    async def outcome(self, call: Call) -> Any:
        """Ask *call* and return what its outcome gives the body, or raise the failure it records."""
        drive, branch, delivery = self._drive, call.branch, self._drive.delivery
        delivery.unasked.pop(call, None)
        if drive.ending is not None or (branch.cut and branch.is_cut) or drive.cancelling.reaches(call):
            await self._refuse(branch)
        if self.recorded is None:
            if drive.journal.writer.is_full:
                await drive.journal.writer.room()
            call.context = contextvars.copy_context()
            delivery.progress += 1
            self.begin(call)
        elif (event := self._replayed(call, self.recorded)) is not None:
            return self._revived(call, event)
        return self._revived(call, await self.stand(call))

    def _replayed(self, call: Call, recorded: Recorded) -> Event | None:
        """Return the outcome of *call* when it is the next of the log and only its branch can see it come."""
        try:
            record = recorded.match(call)
        except ReplayDivergence as error:
            self._drive.stop(error)
            raise DriveEnding from None
        delivery = self._drive.delivery
        delivery.progress += 1
        if record is None:
            call.context = contextvars.copy_context()
            self.held.append(call)
            return None
        call.start, outcome, queue = record.start, record.outcome, delivery.queue
        is_next = bool(queue) and outcome is queue[0] and not isinstance(call.syscall, ScopeSyscall)
        if outcome is not None and is_next and delivery.is_alone(call.branch):
            queue.popleft()
            call.settled, call.outcome, call.branch.seen = True, outcome, outcome
            return outcome
        self._take_up(call, record)
        return None

    def _take_up(self, call: Call, record: Record) -> None:
        self._drive.delivery.calls[record.start.sequence] = call
        if record.outcome is None:
            self.taken_up.append(call)
        if isinstance(call.syscall, ScopeSyscall) or record.outcome is None:
            call.context = contextvars.copy_context()

    async def served_again(self, first: Call) -> Any:
        """Return the outcome of *first* once more: the contract of a name (spec 4.3.1)."""
        self.enter(first.branch)
        if first.outcome is None:
            follower = Call(first.branch, first.syscall, first.id, first.compared, ordinal=first.ordinal)
            first.followers += (follower,)
            return self._revived(first, await self.stand(follower))
        return self._revived(first, first.outcome)

    async def stand(self, call: Call) -> Event:
        """Wait for the outcome of *call*, however it comes to it."""
        task = asyncio.current_task()
        own = task is call.branch.task
        if not own:
            call.task = task
            self._drive.unwinding.hush(task)
        try:
            return await self._drive.delivery.stand(call, own)
        except asyncio.CancelledError:
            raise self._cancelled(call) from None

    def settle(self, call: Call, event: Event) -> Event:
        """*event* is the outcome of *call*."""
        call.settled, call.outcome = True, event
        call.branch.seen = event
        self._drive.delivery.calls.pop(start_of(event), None)
        for follower in call.followers:
            self.pass_on(follower, event)
        return event

    def pass_on(self, call: Call, event: Event) -> None:
        """Let *event* be what *call* waits for, if it still waits."""
        if call.future is not None:
            resolve(self._drive.delivery.move(call), event)

    async def _refuse(self, branch: Branch) -> None:
        self._drive.unwinding.hush(asyncio.current_task() if asyncio.current_task() is not branch.task else None)
        if self._drive.unwinding.is_exhausted:
            await never()
        self.enter(branch)
        self._drive.unwinding.refused()
        raise self._drive.cancelling.raised_in(branch)

    def begin(self, call: Call) -> None:
        """Begin *call*, unless it is cut or cancelled; while a park is being written, or a scope is closing, it is held."""
        if (call.branch.cut and call.branch.is_cut) or self._drive.cancelling.dooms(call):
            return
        if self.is_paused or (self._drive.closing and self._drive.is_closing(call.branch)):
            self.held.append(call)
        else:
            self.start(call)

    def start(self, call: Call) -> None:
        """Do what *call* asks, for the first time."""
        call.syscall.begin(call, self._drive)

    def release(self) -> None:
        """Begin what was held, in the order asked."""
        self._drive.patches.record()
        held, self.held = self.held, []
        for call in held:
            self.begin(call)

    def ended_otherwise(self, call: Call, event: Event) -> ReplayDivergence:
        """Return the divergence that the recorded end of a scope is whose branches did not end so this time."""
        assert isinstance(call.syscall, ScopeSyscall)
        return ReplayDivergence(
            execution_id=self._drive.state.execution_id,
            scope=call.id,
            ordinal=call.ordinal,
            recorded={**told_end(call.id, event.type, event.payload), "sequence": event.sequence},
            asked=call.syscall.tally.side(call.id),
            likely="The branches that had ended, or failed, when this was recorded did not do so this time.",
        )

    def unasked(self) -> LoomError | None:
        """Return the divergence that a record is which nobody asked for; it names the error that the body ended with.

        Where the body could not begin, since its input cannot be revived, that is the error.
        """
        body = self._drive.body
        error = body.exception() if body is not None and body.done() and not body.cancelled() else None
        if isinstance(error, RecordUnreadable):
            return error
        divergence = self.recorded.unasked() if self.recorded is not None else None
        if divergence is None or error is None:
            return divergence
        return divergence.because(f"The flow raised {type_name(type(error))} first: {error}", where_of(error))

    def _revived(self, call: Call, event: Event) -> Any:
        try:
            return call.syscall.revive(call, event)
        except Exception as error:
            remember_start(error, event)
            if isinstance(error, RecordUnreadable):
                self._drive.stop(error)
                raise DriveEnding from None
            raise

    def _cancelled(self, call: Call) -> BaseException:
        drive = self._drive
        if call.future is not None:
            _ = drive.delivery.move(call)
        if drive.ending is None and call.branch.is_cut:
            return asyncio.CancelledError() if call.branch.ended else BranchCut()
        if drive.ending is None and drive.cancelling.reaches(call):
            return drive.cancelling.raised_in(call.branch)
        if drive.ending is None and drive.unwinding.is_cutting:  # a task that a branch which is cut waited for as well
            return asyncio.CancelledError()
        drive.stop(UnrecordedCancellation(syscall=call.id, where=call.branch.where()))
        return DriveEnding()
