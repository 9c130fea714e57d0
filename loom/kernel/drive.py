"""A drive: one body run against one log, until the run ends, parks, or has to stop (kernel rules 5, 6, 9).

The body runs from its top. While it replays, recorded syscalls are served in the order of the log (asking.py, delivery.py).
When all is delivered and the body stands still, the *frontier* is reached: what was asked is compared with what was recorded,
and only then does the run go on. A drive ends for one of three reasons; the reason is a latch (`ending`): it is set
first, then the body is unwound with `DriveEnding`, and whatever the body then does is discarded.

Callbacks of this class run on the loop and never wait; what must wait (the store) happens in `run`.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

from loom.core import facts as f
from loom.core.envelope import NO_METADATA, EventEnvelope
from loom.core.errors import LoomError
from loom.core.origins import start_of
from loom.core.state import ExecutionState
from loom.kernel.asking import Asking
from loom.kernel.calls import Branch, Call, DriveEnding, Event
from loom.kernel.cancelling import GRACE_ENDED, REQUESTED, Cancelling
from loom.kernel.closing import close
from loom.kernel.delivery import Delivery
from loom.kernel.errors import DriveInterrupted
from loom.kernel.flights import Flights
from loom.kernel.frontier import reach
from loom.kernel.journal import Journal
from loom.kernel.patches import Patches
from loom.kernel.replay import Recorded
from loom.kernel.requests import Requests
from loom.kernel.scopes import ScopeSyscall, is_signal
from loom.kernel.succession import roll_over
from loom.kernel.unwinding import Unwinding
from loom.spi.event_store import Append, RequestKind
from loom.spi.guarding import run_body
from loom.spi.latch import Latch
from loom.spi.surroundings import Surroundings
from loom.spi.telling import tell
from loom.spi.timers import Timers

Ending = Literal["park", "stop", "done"]
STRAY_WAIT_S: Final = 10.0
PATIENCE_S: Final = 5.0
"""So long a replay waits for a branch that is busy with something else to ask what it is recorded to have asked."""


class Setting(NamedTuple):
    """What one drive is given beside its surroundings.

    *about* is what the log says of who has it driven, and how. *is_lenient* lets arguments differ under the *same_code*, too (`allow`, loom/core/changes.py). *linger_ms* is how far ahead a wake may lie for the drive to wait for it instead of parking; *stays* says
    whether it waits in place for something that this process does. *before_going_on* is awaited at the frontier, before
    anything is written; an error it raises ends the drive and changes nothing. *may_dispatch* is called last before an effect leaves: what it returns, if anything, is awaited, and returns when the driver holds the run
    for sure (kernel rule 7.3). *before_cancelled* is awaited before a cancelled run ends, and *before_ended*
    before another does, unless they stop the drive.
    *encode_input* encodes an input of the flow, and *successor* returns the first item of the next link of the chain,
    started with one.
    """

    around: Surroundings
    resources: Mapping[str, Any]
    fingerprint: str
    same_code: bool
    encode_result: Callable[[Any], Any]
    encode_input: Callable[[Any], Any]
    successor: Callable[[Journal, Any], Append]
    before_cancelled: Callable[[Drive], Awaitable[None]]
    before_ended: Callable[[Drive], Awaitable[None]]
    stays: Callable[[Drive], bool]
    about: Mapping[str, Any]
    is_lenient: bool = False
    is_start: bool = False
    linger_ms: int = 10_000
    before_going_on: Callable[[Drive], Awaitable[None]] | None = None
    may_dispatch: Callable[[], Awaitable[None] | None] = lambda: None

    def recorded(self, state: ExecutionState) -> Recorded:
        """Return what *state* has recorded, to be compared with what is asked."""
        return Recorded(state, code_changed=not self.same_code, is_lenient=self.is_lenient)


class Drive:
    """One drive. Made by the runtime, run once."""

    def __init__(self, journal: Journal, setting: Setting) -> None:
        self.journal, self.setting = journal, setting
        self.around, self.effects, self.resources = setting.around, setting.around.effects, setting.resources
        self.ending: Ending | None = None
        self.error: LoomError | None = None
        self.closing: dict[Call, ScopeSyscall] = {}
        self.live, self.unpaused = Latch(), Latch(is_set=True)
        self.delivery = Delivery(self._on_still, self._is_busy)
        self.flights, self.timers = Flights(self), Timers(self.around.clock, signal=DriveEnding)
        self.unwinding = Unwinding(self)
        self.requests, self.patches = Requests(self, self.around.storage), Patches(self)
        self.cancelling: Cancelling = Cancelling(self)
        recorded = None if setting.is_start else setting.recorded(journal.state)
        self.asking = Asking(self, recorded)
        if recorded is not None:
            self.delivery.queue = recorded.outcomes
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._wake: asyncio.Future[str] | None = None
        self.is_interrupted = False
        self.succession: Call | None = None
        self._patience: tuple[int, float] | None = None
        self.body: asyncio.Task[Any] | None = None
        start = EventEnvelope(journal.state.execution_id, 0, "EXECUTION_STARTED", journal.state.facts.started_at, None)
        self._root = Branch((), "", parent=None, seen=start)
        journal.on_error = self.stop

    # -- what syscalls use ---------------------------------------------------------------------------------------

    @property
    def state(self) -> ExecutionState:
        """The folded state, as of the last commit."""
        return self.journal.state

    @property
    def is_over(self) -> bool:
        """Whether the drive has ended or is ending."""
        return self.ending is not None

    def now_ms(self) -> int:
        """Return the time for deciding what is due, ms since the epoch."""
        return max(self.around.clock.now_ms(), self.journal.state.at)

    def commit(
        self, type_: str, payload: Any, metadata: Mapping[str, Any] = NO_METADATA, *, consumes: int | None = None
    ) -> Event:
        """Append a fact. A journal that has failed ends the drive instead.

        Raises:
            EntryTooLarge: it is larger than a log takes, and did not happen.
        """
        if (error := self.journal.error) is not None:
            self.stop(error)
            raise DriveEnding from error
        return self.journal.commit(type_, payload, metadata, consumes=consumes)

    def started(self, call: Call, start: Event) -> None:
        """*call* has its start on the log."""
        call.start = start
        self.delivery.calls[start.sequence] = call

    def wants(self, call: Call) -> bool:
        """Whether *call* still waits for an outcome; one that was cut does while it is in doubt."""
        is_cut = call.branch.is_cut and call.sequence not in self.state.gates
        if self.ending is not None or call.settled or is_cut or self.cancelling.dooms(call):
            return False
        return call.sequence in self.state.open

    def wake_at(self, due_at: int, call: Call, outcome: Callable[[], Event]) -> None:
        """Have *outcome* committed for *call* once *due_at* has come."""
        self.timers.add(due_at, lambda: self.delivery.put(outcome()), lambda: self.wants(call))

    def stream(self, call_id: str, chunk: Any) -> None:
        """Pass a piece of a stream to who listens."""
        if self.around.on_stream is not None:
            tell(self.around.on_stream, self.state.execution_id, call_id, chunk)

    def is_closing(self, branch: Branch) -> bool:
        """Whether *branch* is in a scope that is closing, where nothing new is started, but for what is shielded."""
        return bool(self.closing) and any(branch.lies_open(f"{call.id}/") for call in self.closing)

    # -- moving on -----------------------------------------------------------------------------------------------

    def _is_busy(self) -> bool:
        return bool(self.flights) and not self.closing and not self.asking.is_replaying

    def _on_still(self) -> None:
        self.unwinding.is_cutting = False
        if self.ending is not None or self.is_interrupted or self.asking.is_paused:
            return
        if self.delivery.queue or (not self.asking.is_replaying and self.requests.inbox.take()):
            self._deliver_next()
        elif self.asking.is_replaying:
            self.wake("frontier")
        elif self._close_next() or self.flights:
            return
        elif self.cancelling.is_abandoned or (self.body is not None and self.body.done()):
            self.wake("ended")
        else:
            self.wake("idle")

    def _deliver_next(self) -> None:
        event = self.delivery.queue[0]
        if event.type in {REQUESTED, GRACE_ENDED}:
            self.cancelling.deliver(event)
            return
        call = self.delivery.calls.get(start_of(event))
        scope = call.syscall if call is not None and isinstance(call.syscall, ScopeSyscall) else None
        if call is not None and (scope is None or call.settled or scope.tally.agrees_with(event.payload)):
            self._deliver(call, event)
        elif self.asking.recorded is not None and self.may_still_come():
            return
        elif call is not None:
            self.stop(self.asking.ended_otherwise(call, event))
        else:
            self._deliver_to_nobody()

    def _deliver(self, call: Call, event: Event) -> None:
        self.delivery.queue.popleft()
        if not isinstance(call.syscall, ScopeSyscall):
            self.asking.pass_on(call, self.asking.settle(call, event))
            # What is in the inbox is due when the body stands still, and waits for no effect.
            self.delivery.stir(unless_stood=self.requests.inbox.mail.is_quiet and not self.requests.inbox.late)
            return
        if not call.settled:  # else all its branches had ended before the record came
            call.syscall.deliver(call, event, self)
        self.delivery.stir()

    def _deliver_to_nobody(self) -> None:
        self.delivery.queue.popleft()
        unasked = self.asking.unasked()
        if unasked is not None:
            self.stop(unasked)
        self.delivery.stir()  # otherwise its branch has ended, and nobody waits for it any more

    def may_still_come(self) -> bool:
        """Whether a branch that stands in no syscall may ask what was recorded, if it is given time."""
        if self.delivery.moving == 0:
            return False
        now = self._loop.time()
        if not self._patience or self._patience[0] != self.delivery.progress:
            self._patience = (self.delivery.progress, now + PATIENCE_S)
        if now > self._patience[1]:
            return False
        self._loop.call_later(PATIENCE_S / 1000, self.delivery.stir)
        return True

    def _close_next(self) -> bool:
        for call, scope in self.closing.items():
            if not scope.is_written and not self.flights.are_below(f"{call.id}/"):
                scope.is_written = True
                type_, fact = scope.record(call)
                self.delivery.put(self.commit(type_, fact._replace(shielded=self._shielded(f"{call.id}/"))))
                return True
        return False

    def _shielded(self, prefix: str) -> list[int] | None:
        below = [call for call in self.delivery.calls.values() if call.branch.prefix.startswith(prefix)]
        kept = {call.sequence for call in below if not call.branch.lies_open(prefix)}
        return sorted(sequence for sequence in kept if sequence in self.state.open) or None

    def wake(self, reason: str) -> None:
        """Have `run` attend to something."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(reason)

    def stop(self, error: LoomError) -> None:
        """End the drive with *error* for its caller; the body never sees it."""
        if self.ending is None:
            self.ending, self.error = "stop", error
            self.wake("stopped")

    def stop_from_anywhere(self, error: LoomError) -> None:
        """As `stop`, from any thread."""
        if threading.get_ident() == self._thread:
            self.stop(error)
        else:
            self._loop.call_soon_threadsafe(self.stop, error)

    def interrupt(self) -> None:
        """Stop soon: start nothing new, let what is in flight end within the grace, leave the run resumable."""
        self.is_interrupted = True
        self.wake("interrupted")

    def interrupted_by(self, error: BaseException) -> None:
        """An effect met a cancellation or an exit that is not the drive's own."""
        if not isinstance(error, DriveEnding):
            self.stop(getattr(error, "error", None) or DriveInterrupted(execution_id=self.state.execution_id))

    # -- the life of a drive -------------------------------------------------------------------------------------

    async def run(self, body: Callable[[], Awaitable[Any]]) -> ExecutionState:
        """Drive *body* until it ends, parks or stops, and return the state then.

        Raises:
            LoomError: the drive had to stop; what was committed is on disk unless the error says otherwise.
            asyncio.CancelledError: the caller was cancelled; what was committed is on disk.
        """
        try:
            self._open(body)
            with suppress(DriveEnding):  # a fact was to be committed after a write had failed, whose error is kept
                await self._attend()
        except asyncio.CancelledError:
            self.ending = self.ending or "stop"
            raise
        finally:
            self.timers.disarm()
            self.delivery.closed = True
            await self.unwinding.unwind()
            try:
                if self.journal.error is None:
                    await self.journal.barrier()
            finally:
                self._part()
        if self.error is not None:
            raise self.error
        return self.state

    def _part(self) -> None:
        """Cut the cycles of a drive that is over, so that its state goes at once and not by the collector."""
        self.body, self.journal.on_error = None, None
        if not self.delivery.branches:
            self.delivery.part()
            del self.asking, self.requests, self.patches, self.cancelling, self.flights, self.unwinding

    def _open(self, body: Callable[[], Awaitable[Any]]) -> None:
        running = run_body(body, self.around.guard, self.stop)
        self.body = self._loop.create_task(running, name=self.state.execution_id)
        self.delivery.enter(self._root, self.body)
        self.body.add_done_callback(self._body_done)
        if not self.asking.is_replaying:
            self.live.set()
            self.timers.arm()
            self.cancelling.watch()

    def _body_done(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and is_signal(error):
            traceback.clear_frames(error.__traceback__)  # they hold the drive, which only the collector would free
        self.delivery.leave(self._root)

    async def _attend(self) -> None:
        rests = False
        while self.ending is None:
            if self.is_interrupted:
                await self._stop_softly()
                return
            if self.requests.are_waiting and not self.asking.is_replaying:
                await self.requests.take()
                rests = False
                continue  # something may have ended the drive meanwhile
            self._wake = self._loop.create_future()
            if not rests:  # else whatever comes stirs
                self.delivery.stir()
            reason, rests = await self._wake, False
            # Since it was woken, a branch that waits for no syscall may have moved, or a timer begun an attempt.
            if reason in _TURNS and not self.is_over and self.delivery.still_stands and not self.flights:
                rests = bool(await _TURNS[reason](self))

    async def _stop_softly(self) -> None:
        self.delivery.closed = True
        self.timers.disarm()
        await self.flights.wait(max(self.around.grace_s, self.flights.once_timeout_s()))
        self.requests.apply("pause")
        if self.state.facts.is_paused:
            self.ending = self.ending or "park"
        self.stop(DriveInterrupted(execution_id=self.state.execution_id))

    async def idle(self) -> bool:
        """Wait in place, and return whether there is nothing to do until something comes; or park."""
        if self.timers.fire_due():
            return False
        if self.succession is not None and not self.succession.settled:
            return await roll_over(self, self.succession)
        due = self.timers.next_due()
        is_stray = not any(self.wants(call) for call in self.delivery.calls.values())
        if is_stray:
            self.unwinding.watch_stray(self._root, STRAY_WAIT_S)
        is_near = due is not None and due - self.around.clock.now_ms() <= self.setting.linger_ms
        if is_stray or is_near or self.setting.stays(self):
            return True
        if await self.leave("EXECUTION_SUSPENDED", f.ExecutionSuspended(wake_at=due)):
            self.ending = self.ending or "park"  # unless something stopped it meanwhile
        return False

    async def leave(
        self, type_: str, payload: Any, kinds: Sequence[RequestKind] = (), *, follows: Append | None = None
    ) -> bool:
        """Write the fact that the drive ends with, and return whether it stands: False when there is news in the lane."""
        self.timers.disarm()
        self.asking.is_paused = True
        self.unpaused.clear()
        try:
            stands = await self.journal.leave(type_, payload, seen=self.requests.seen, kinds=kinds, follows=follows)
        finally:
            self.asking.is_paused = False
            self.unpaused.set()  # also where the write failed: who waits for its end finds the drive over
        if not stands:
            self.requests.are_waiting = True
            self.timers.arm()
            self.asking.release()
        return stands


_TURNS: Final[Mapping[str, Callable[[Drive], Awaitable[Any]]]] = {"frontier": reach, "idle": Drive.idle, "ended": close}
"""What is attended to when the body stands still, by why that was asked for; True: there is nothing to do until something comes."""
