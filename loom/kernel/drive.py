"""A drive: one body run against one log, until the run ends, parks, or has to stop (kernel rules 5, 6, 9).

The body runs from its top. While it *replays*, recorded syscalls are served in the order of the log and those without a record
are held. When all is delivered and the body stands still, the *frontier* is reached: what was asked is compared with what was
recorded, and only then does the run go on. A drive ends for one of three reasons; the reason is a latch (`ending`): it is set
first, then the body is unwound with `DriveEnding`, and whatever the body then does is discarded.

Callbacks of this class run on the loop and never wait; what must wait (the store) happens in `run`.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from loom.core.envelope import NO_METADATA
from loom.core.errors import LoomError
from loom.core.state import ExecutionState
from loom.kernel import facts as f
from loom.kernel.calls import Branch, BranchCut, Call, DriveEnding, Event
from loom.kernel.delivery import Delivery
from loom.kernel.effects import EffectRuntime
from loom.kernel.failing import record_of
from loom.kernel.errors import DriveInterrupted, ReplayDivergence, UnrecordedCancellation
from loom.kernel.flights import Flights
from loom.kernel.gates import GateSyscall
from loom.kernel.identity import path_text
from loom.kernel.journal import Journal
from loom.kernel.replay import Recorded, start_of
from loom.kernel.scopes import ScopeSyscall
from loom.kernel.steps import StepSyscall
from loom.kernel.timers import Timers
from loom.kernel.unwinding import Unwinding
from loom.values import NotSerializable
from loom.spi.clock import Clock
from loom.spi.event_store import Request, RequestLane

Ending = Literal["park", "stop", "done"]

LANE_POLL_S: Final = 0.25
STRAY_WAIT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a drive is given: where it runs, and how it is to behave.

    *linger_ms* is how far ahead a wake may lie for the drive to wait for it instead of parking; *grace_s* how long an
    interrupted drive waits for what is in flight. With *write_behind* only rule 3.1's barriers hold. *before_going_on*
    is awaited at the frontier, before anything is written; an error it raises ends the drive and changes nothing.
    """

    lane: RequestLane
    clock: Clock
    effects: EffectRuntime
    resources: Mapping[str, Any]
    fingerprint: str
    same_code: bool
    encode_result: Callable[[Any], Any]
    principal: str | None = None
    linger_ms: int = 10_000
    grace_s: float = 10.0
    write_behind: bool = False
    before_going_on: Callable[[Drive], Awaitable[None]] | None = None
    on_stream: Callable[[str, str, Any], None] | None = None


class Drive:
    """One drive. Made by the runtime, run once."""

    def __init__(self, journal: Journal, setting: Setting) -> None:
        self.journal, self.setting = journal, setting
        self._loop = asyncio.get_running_loop()
        self.effects, self.resources = setting.effects, setting.resources
        self.delivery = Delivery(self._on_still)
        self.flights, self.timers = Flights(), Timers(setting.clock)
        self.ending: Ending | None = None
        self.error: LoomError | None = None
        self.failing: dict[Call, ScopeSyscall] = {}
        self.live = asyncio.Event()
        self.replaying = journal.state.length > 1
        self.unwinding = Unwinding(self)
        self._recorded = Recorded(journal.state, code_changed=not setting.same_code) if self.replaying else None
        if self._recorded is not None:
            self.delivery.queue = self._recorded.outcomes
        self._held: list[Call] = []
        self._taken_up: list[Call] = []
        self._wake: asyncio.Future[str] | None = None
        self._knocked = self._interrupted = self._parking = False
        self._body: asyncio.Task[Any] | None = None
        self._root = Branch((), "", parent=None, at=journal.state.facts.started_at)
        journal.on_error = self.stop

    # -- what syscalls use ---------------------------------------------------------------------------------------

    @property
    def state(self) -> ExecutionState:
        """The folded state, as of the last commit."""
        return self.journal.state

    def now_ms(self) -> int:
        """Return the time for deciding what is due, ms since the epoch."""
        return max(self.setting.clock.now_ms(), self.journal.state.at)

    def commit(self, type_: str, payload: Any, metadata: Mapping[str, Any] = NO_METADATA) -> Event:
        """Append a fact. A journal that has failed ends the drive instead."""
        try:
            return self.journal.commit(type_, payload, metadata)
        except LoomError as error:
            self.stop(error)
            raise DriveEnding from error

    def started(self, call: Call, start: Event) -> None:
        """*call* has its start on the log."""
        call.start = start
        self.delivery.calls[start.sequence] = call

    def settled(self, call: Call, outcome: Event) -> None:
        """The outcome of *call* was committed: it is delivered in its turn."""
        self.delivery.put(outcome)

    def hand_over(self, call: Call, event: Event) -> None:
        """Let *event* be what *call* waits for."""
        self._settle(call, event)
        if call.future is not None:
            future = self.delivery.move(call)
            if not future.done():
                future.set_result(event)
        self.delivery.stir()

    def made(self, call: Call) -> None:
        """*call* needed nothing but to be written: its body goes on."""
        call.settled = True
        if call.future is not None:
            assert call.start is not None
            future = self.delivery.move(call)
            if not future.done():
                future.set_result(call.start)
            self.delivery.stir()

    def wants(self, call: Call) -> bool:
        """Whether *call* still waits for an outcome."""
        return self.ending is None and not call.settled and not call.branch.cut and call.sequence in self.state.open

    def wake_at(self, due_at: int, call: Call, outcome: Callable[[], Event]) -> None:
        """Have *outcome* committed for *call* once *due_at* has come."""
        self.timers.add(due_at, lambda: self.settled(call, outcome()), lambda: self.wants(call))

    async def before_effect(self, *, everything: bool, reads: bool) -> None:
        """Wait for what must be on disk before an effect may leave (kernel rule 3)."""
        if everything:
            await self.journal.barrier()
        elif not reads and not self.setting.write_behind and (upto := self.journal.unwritten_outcome):
            await self.journal.barrier(upto)

    def stream(self, call_id: str, chunk: Any) -> None:
        """Pass a piece of a stream to who listens."""
        if self.setting.on_stream is not None:
            self.setting.on_stream(self.state.execution_id, call_id, chunk)

    def left(self, branch: Branch) -> None:
        """A branch has ended."""
        self.delivery.leave(branch)

    def prefix_of(self, path: tuple[tuple[str, str], ...]) -> str:
        """Return the path text of *path*."""
        return path_text(path)

    def cut_when_landed(self, call: Call, scope: ScopeSyscall) -> None:
        """A branch of *scope* failed: cut the others once nothing is in flight in it."""
        self.failing[call] = scope

    def unwind_branch(self, branch: Branch) -> None:
        """Cut *branch* and what is below it."""
        for each in list(self.delivery.branches.values()):
            if each.is_below(branch.prefix):
                each.cut = True
                self.unwinding.signal(each, BranchCut())

    # -- asking --------------------------------------------------------------------------------------------------

    def entered(self, branch: Branch) -> None:
        """A syscall is called in *branch*: refuse while unwinding."""
        if self.ending is not None:
            self.unwinding.refused()
            raise DriveEnding
        if branch.cut:
            raise BranchCut

    async def outcome(self, call: Call) -> Any:
        """Ask *call* and return what its outcome gives the body, or raise the failure it records."""
        if self.ending is not None or call.branch.cut:
            if self.unwinding.is_exhausted:
                await asyncio.get_running_loop().create_future()
            self.entered(call.branch)
        if self._recorded is None and self.journal.is_backed_up:
            await self.journal.room()
        self._ask(call)
        if self.delivery.can_serve_at_once(call):
            return self._served(call)
        if call.settled and call.start is not None:
            return call.syscall.revive(call, call.start)
        own = asyncio.current_task() is call.branch.task
        future = self.delivery.stand(call, own)
        if not own:
            self.unwinding.hush(asyncio.current_task())
        try:
            event = await future
        except asyncio.CancelledError:
            raise self._cancelled(call) from None
        return self._revived(call, event)

    def _served(self, call: Call) -> Any:
        event = self.delivery.queue.popleft()
        self._settle(call, event)
        return self._revived(call, event)

    def _settle(self, call: Call, event: Event) -> None:
        call.settled, call.outcome = True, event
        call.branch.at = event.at
        self.delivery.calls.pop(start_of(event), None)
        for follower in call.followers:
            if not follower.done():
                follower.set_result(event)

    async def served_again(self, first: Call) -> Any:
        """Return the outcome of *first* once more: the contract of a name (spec 4.3.1)."""
        self.entered(first.branch)
        if first.outcome is None:
            follower: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
            first.followers.append(follower)
            await follower
        assert first.outcome is not None
        return self._revived(first, first.outcome)

    def _revived(self, call: Call, event: Event) -> Any:
        try:
            return call.syscall.revive(call, event)
        except Exception as error:
            if isinstance(error, LoomError) and error.code == "record-unreadable":
                self.stop(error)
                raise DriveEnding from None
            remember_start(error, event)
            raise

    def _ask(self, call: Call) -> None:
        call.context = contextvars.copy_context()
        record = None
        if self._recorded is not None:
            try:
                record = self._recorded.match(call)
            except ReplayDivergence as error:
                self.stop(error)
                raise DriveEnding from None
        if record is None:
            self._begin_or_hold(call)
            return
        call.start = record.start
        if record.outcome is None:
            self._taken_up.append(call)
        elif not isinstance(call.syscall, ScopeSyscall) and record.start.type.startswith("user."):
            call.settled = True
            return
        self.delivery.calls[record.start.sequence] = call
        if isinstance(call.syscall, ScopeSyscall):
            call.syscall.open_branches(call, self)

    def _begin_or_hold(self, call: Call) -> None:
        if self.replaying or self._parking:
            self._held.append(call)
        elif not self._is_failing(call):
            call.syscall.begin(call, self)

    def _is_failing(self, call: Call) -> bool:
        return any(call.branch.is_below(f"{scope.id}/") for scope in self.failing)

    def _cancelled(self, call: Call) -> BaseException:
        if call.future is not None:
            self.delivery.move(call)
        if self.ending is not None:
            return DriveEnding()
        if call.branch.cut:
            return BranchCut()
        self.stop(UnrecordedCancellation(syscall=call.id, where=call.branch.where()))
        return DriveEnding()

    # -- moving on -----------------------------------------------------------------------------------------------

    def _on_still(self) -> None:
        if self.ending is not None or self._interrupted:
            return
        if self.delivery.queue:
            self._deliver_next()
        elif self.replaying:
            self.wake("frontier")
        elif self._cut_next() or self.flights:
            return
        elif self._body is not None and self._body.done():
            self.wake("ended")
        else:
            self.wake("idle")

    def _deliver_next(self) -> None:
        event = self.delivery.queue.popleft()
        call = self.delivery.calls.get(start_of(event))
        if call is None:
            unasked = self._recorded.unasked() if self._recorded is not None else None
            if unasked is not None:
                self.stop(unasked)
            else:  # its branch has ended and nobody waits for it any more
                self.delivery.stir()
            return
        call.syscall.deliver(call, event, self)

    def _cut_next(self) -> bool:
        for call, scope in list(self.failing.items()):
            if not scope.cutting and not self.flights.are_below(f"{call.id}/"):
                scope.cutting = True
                self.delivery.put(self.commit("SCOPE_CUT", scope.cut_fact(call)))
                return True
        return False

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
        self._loop.call_soon_threadsafe(self.stop, error)

    @property
    def is_over(self) -> bool:
        """Whether the drive has ended or is ending."""
        return self.ending is not None

    def knock(self) -> None:
        """There is a new request in the lane."""
        self._knocked = True
        if not self.replaying:
            self.wake("knock")

    def interrupt(self) -> None:
        """Stop soon: start nothing new, let what is in flight end within the grace, leave the run resumable."""
        self._interrupted = True
        self.wake("interrupt")

    def interrupted_by(self, error: BaseException) -> None:
        """An effect met a cancellation or an exit that is not the drive's own."""
        self.stop(DriveInterrupted(execution_id=self.state.execution_id))

    async def run(self, body: Callable[[], Awaitable[Any]]) -> ExecutionState:
        """Drive *body* until it ends, parks or stops, and return the state then.

        Raises:
            LoomError: the drive had to stop; what was committed is on disk unless the error says otherwise.
            asyncio.CancelledError: the caller was cancelled; what was committed is on disk.
        """
        poll = asyncio.get_running_loop().create_task(self._poll_lane(), name="loom-lane")
        try:
            self._open(body)
            await self._attend()
        except asyncio.CancelledError:
            self.ending = self.ending or "stop"
            raise
        finally:
            poll.cancel()
            self.timers.disarm()
            self.delivery.closed = True
            await self.unwinding.unwind(self._root)
            if self.journal.error is None:
                await self.journal.barrier()
        if self.error is not None:
            raise self.error
        return self.state

    def _open(self, body: Callable[[], Awaitable[Any]]) -> None:
        async def run_body() -> Any:
            return await body()

        self._body = asyncio.get_running_loop().create_task(run_body(), name=self.state.execution_id)
        self.delivery.enter(self._root, self._body)
        self._body.add_done_callback(self._body_done)
        if not self.replaying:
            self.live.set()

    def _body_done(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()
        self.left(self._root)

    async def _attend(self) -> None:
        turns = {"frontier": self._frontier, "idle": self._idle, "ended": self._ended}
        while self.ending is None:
            if self._interrupted:
                await self._stop_softly()
                return
            if self._knocked and not self.replaying:
                self._knocked = False
                await self._take_requests()
                continue
            self._wake = asyncio.get_running_loop().create_future()
            self.delivery.stir()
            reason = await self._wake
            if reason in turns and self.ending is None and not self._knocked:
                await turns[reason]()

    async def _poll_lane(self) -> None:
        while True:
            await asyncio.sleep(LANE_POLL_S)
            if self.live.is_set() and self.journal.incarnation is not None:
                lane = self.setting.lane
                if await lane.pending(self.state.execution_id, self.journal.incarnation):
                    self.knock()

    async def _stop_softly(self) -> None:
        self.delivery.closed = True
        self.timers.disarm()
        await self.flights.wait(self.setting.grace_s)
        self.stop(DriveInterrupted(execution_id=self.state.execution_id))

    # -- the frontier --------------------------------------------------------------------------------------------

    async def _frontier(self) -> None:
        assert self._recorded is not None
        unasked = self._recorded.unasked()
        if unasked is not None:
            self.stop(unasked)
            return
        if self.setting.before_going_on is not None:
            try:
                await self.setting.before_going_on(self)
            except LoomError as error:
                self.stop(error)
                return
        requests = await self._pending()
        if not requests and self._has_nothing_to_do():
            self.ending = "park"
            return
        self._go_on(requests)

    def _has_nothing_to_do(self) -> bool:
        if self.state.status not in ("suspended", "in_doubt") or self._held or (self._body and self._body.done()):
            return False
        horizon = self.now_ms() + self.setting.linger_ms
        for call in self._taken_up:
            assert call.start is not None
            if call.start.type == "STEP_STARTED" and not self._rests(call, horizon):
                return False
            if (getattr(call.start.payload, "due_at", None) or horizon + 1) <= horizon:
                return False
        return True

    def _rests(self, call: Call, horizon: int) -> bool:
        known = self.state.attempts.get(call.sequence)
        return known is not None and (known.doubt is not None or known.due_at > horizon)

    def _go_on(self, requests: Sequence[Request]) -> None:
        assert self._recorded is not None
        state, recorded, setting = self.state, self._recorded, self.setting
        self.replaying, self._recorded = False, None
        about = {"principal": setting.principal} if setting.principal else NO_METADATA
        cut_off = True if state.status == "running" else None
        self.commit("EXECUTION_RESUMED", f.ExecutionResumed(cut_off=cut_off), about)
        if not setting.same_code:
            before = state.facts.fingerprint
            self.commit("EXECUTION_MIGRATED", f.ExecutionMigrated(before, setting.fingerprint, recorded.differences))
        self.live.set()
        for request in requests:
            self._apply(request)
        for call in self._taken_up:
            if self.wants(call):
                call.syscall.reopen(call, self)
        held, self._held = self._held, []
        for call in held:
            if not call.branch.cut and not self._is_failing(call):
                call.syscall.begin(call, self)
        self._taken_up = []

    # -- requests ------------------------------------------------------------------------------------------------

    async def _pending(self) -> Sequence[Request]:
        if self.journal.incarnation is None:
            return ()
        return await self.setting.lane.pending(self.state.execution_id, self.journal.incarnation)

    async def _take_requests(self) -> None:
        for request in await self._pending():
            if request.number not in self.journal.consumed:
                self._apply(request)

    def _apply(self, request: Request) -> None:
        body = orjson.loads(request.body)
        about = {"request": request.number}
        if body.get("principal"):
            about["principal"] = body["principal"]
        call = self.delivery.calls.get(body["start"])
        try:
            fact = self.fact_of(request.kind, call, body)
        except LoomError as error:
            dropped = f.RequestDropped(request.kind, request.key, str(error))
            self.journal.commit("REQUEST_DROPPED", dropped, about, consumes=request.number)
            return
        type_ = "GATE_ANSWERED" if request.kind == "answer" else "EFFECT_RESOLVED"
        event = self.journal.commit(type_, fact, about, consumes=request.number)
        assert call is not None
        if isinstance(fact, f.EffectResolved) and fact.verdict == "retry":
            assert isinstance(call.syscall, StepSyscall)
            call.syscall.again(call, self)
        else:
            self.settled(call, event)

    def fact_of(self, kind: str, call: Call | None, body: Mapping[str, Any]) -> f.GateAnswered | f.EffectResolved:
        """Return the fact that a request adds, refuse by raising.

        Raises:
            LoomError: the gate or doubt it is for is gone, or the value is not what is expected.
        """
        if call is None or call.settled or call.sequence not in self.state.gates:
            raise LoomError("what it answers is not open any more")
        if kind == "answer" and isinstance(call.syscall, GateSyscall):
            return call.syscall.answer(call, body)
        if kind == "verdict" and isinstance(call.syscall, StepSyscall):
            return call.syscall.verdict(call, body)
        raise LoomError(f"a {kind} cannot settle {call.id}")

    # -- ends ----------------------------------------------------------------------------------------------------

    async def _idle(self) -> None:
        if self.timers.fire_due():
            return
        due = self.timers.next_due()
        if due is not None and due - self.now_ms() <= self.setting.linger_ms:
            self.timers.arm()
            return
        if not self.state.open:
            self.unwinding.watch_stray(self._root, STRAY_WAIT_S)
            return
        self._parking = True
        parked = await self.journal.park(f.ExecutionSuspended(wake_at=due))
        self._parking = False
        if parked:
            self.ending = "park"
            return
        held, self._held = self._held, []
        for call in held:
            self._begin_or_hold(call)
        self._knocked = True

    async def _ended(self) -> None:
        assert self._body is not None
        if self._body.cancelled():
            self.stop(UnrecordedCancellation(syscall="the flow", where="its own task"))
            return
        error = self._body.exception()
        if error is None:
            try:
                fact = f.ExecutionCompleted(result=self.setting.encode_result(self._body.result()))
                self.commit("EXECUTION_COMPLETED", fact)
            except NotSerializable as refused:
                error = refused
        if error is not None:
            cause = cause_of(error)
            self.commit("EXECUTION_FAILED", f.ExecutionFailed(failure=record_of(error), cause=cause))
        self.ending = "done"


def cause_of(error: BaseException | None) -> int | None:
    """Return the start of the syscall whose recorded failure *error* is, or was raised from; None for neither."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        start: int | None = getattr(error, "__loom_start__", None)
        if start is not None:
            return start
        error = error.__cause__ or error.__context__
    return None


def remember_start(error: BaseException, event: Event) -> None:
    """Note on *error* which start it is the outcome of, so that a failed run names it."""
    try:
        error.__loom_start__ = start_of(event)  # type: ignore[attr-defined]  # ours, on an exception of anybody's
    except AttributeError:
        return  # an author's exception with slots: the run then fails without naming a step
