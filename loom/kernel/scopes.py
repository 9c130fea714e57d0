"""The syscall that opens branches: `parallel`, `map`, `select`, `first`, `any`, and the block of `scope`.

Each branch runs in a task of its own. A scope that is to end before its branches have (a tally says when: core/tally.py) is
*closing*: nothing new is started in it, and what is in flight in it is waited for, or, where the scope does not fail and the
effect is idempotent, cancelled without a record. Then one record says why the scope ends. It is delivered like any outcome:
every branch still open is unwound where it stands, innermost first. Since the record has its place in the log, a replay
cuts at the same instant. No task of a branch outlives the scope.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from loom.core import facts as f
from loom.core.branching import Opening
from loom.core.failures import Cancelled, ScopeTimedOut
from loom.core.identity import escape
from loom.core.json import JsonObject
from loom.core.tally import Tally
from loom.kernel.calls import Branch, BranchCut, Call, DriveEnding, Event
from loom.spi.guarding import run_body
from loom.values.failing import told

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

Body = Callable[[], Awaitable[Any]]


class ScopeSyscall:
    """Runs the *bodies* of the branches of an *opening* until its tally ends it; delivers the shape that it wants."""

    starts = "SCOPE_OPENED"

    def __init__(self, opening: Opening, bodies: Sequence[Body]) -> None:
        self.opening, self.about, self.bodies = opening, opening.about, bodies
        self.tally = opening.tally or Tally()
        self.limit = opening.limit or len(bodies)
        self.next = 0
        self.open: set[Branch] = set()
        self.results: dict[str, Any] = {}
        self.is_written = self.is_cut = False
        """Whether the record that ends the scope is on the log, and whether it was delivered."""
        self.is_late = self.is_cancelled = False
        self.raised: BaseException | None = None
        self.untold: tuple[Call, ...] = ()
        """Who waits in the scope for a branch that has failed."""

    def asked(self) -> JsonObject:
        return self.about

    def begin(self, call: Call, drive: Drive) -> None:
        timeout_ms = self.about.get("timeout_ms")
        due_at = None if timeout_ms is None else drive.now_ms() + timeout_ms
        generation = drive.state.facts.generation or None
        kind, branches = self.about["kind"], self.about.get("branches")
        opened = f.ScopeOpened(call.id, call.ordinal, call.digest, kind, branches, generation, due_at)
        event = drive.commit("SCOPE_OPENED", opened)
        drive.started(call, event)
        drive.delivery.put(event)

    def reopen(self, call: Call, drive: Drive) -> None:
        """The opening of a scope is its own outcome: there is nothing to take up."""

    def open_branches(self, call: Call, drive: Drive) -> None:
        """Begin as many branches as the limit allows."""
        while self.next < len(self.bodies) and len(self.open) < self.limit and self.tally.verdict is None:
            self.begin_branch(call, drive, self.opening.names[self.next], self.bodies[self.next])
            self.next += 1

    def branch(self, call: Call, name: str) -> Branch:
        """Return a new branch of the scope, open from now on."""
        above = call.branch
        # The opener's own id text is one step of the path: below it, everything starts with "id/branch/".
        path = (*above.path, (call.id[len(above.prefix) :], name))
        branch = Branch(path, f"{call.id}/{escape(name)}/", parent=above, seen=above.seen)
        branch.is_free = call.free
        self.open.add(branch)
        return branch

    def begin_branch(self, call: Call, drive: Drive, name: str, body: Body) -> Branch:
        """Run *body* as a branch of the scope, in a task of its own."""
        branch = self.branch(call, name)
        context = call.context or contextvars.copy_context()
        running = run_body(body, drive.around.guard, drive.stop)
        task = asyncio.get_running_loop().create_task(running, name=branch.prefix, context=context.copy())
        drive.delivery.enter(branch, task)
        task.add_done_callback(lambda done: self._done(call, drive, branch, done))
        return branch

    def _done(self, call: Call, drive: Drive, branch: Branch, task: asyncio.Task[Any]) -> None:
        error: BaseException | None = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self.results[branch.name] = task.result()
        drive.delivery.leave(branch)
        self.ended(call, drive, branch, error)

    def ended(self, call: Call, drive: Drive, branch: Branch, error: BaseException | None) -> None:
        """*branch* has ended: count it, and see whether the scope ends."""
        assert call.start is not None
        reached = drive.cancelling.reaches(call)
        self.open.discard(branch)
        for waiter in branch.awaited:
            # Who waits inside the scope for what gave no result is cut with it, or told then, if a shield holds that off.
            is_inside = not self.is_cut and waiter.branch.prefix.startswith(f"{call.id}/")
            if is_inside and not (branch.name in self.results or reached or branch.is_cut):
                self.untold += (waiter,)
            else:
                drive.asking.pass_on(waiter, call.start)
        if drive.ending is not None:
            return
        if reached and (isinstance(error, asyncio.CancelledError) or is_signal(error)):
            self.is_cancelled = True
        elif not branch.is_cut or isinstance(error, Exception):
            self._count(branch, error)
        if self.tally.verdict is None and not call.branch.is_cut and not reached:
            self.open_branches(call, drive)
        if not self.open and (self.is_cut or call.branch.is_cut or reached or self.tally.verdict != "closed"):
            self.joined(call, drive)
        elif self.tally.verdict is not None and not (self.is_written or call.branch.is_cut or reached):
            self.close(call, drive)

    def _count(self, branch: Branch, error: BaseException | None) -> None:
        if error is None:
            self.tally.succeeded(branch.name)
        elif not isinstance(error, DriveEnding):
            self.tally.failed(branch.name, error)
            if branch.is_cut:  # it is no part of what was counted, and must not go unseen
                self.raised = self.raised or error

    def close(self, call: Call, drive: Drive) -> None:
        """Start nothing new below the scope, and have the reason recorded once nothing is in flight there."""
        if call not in drive.closing:
            drive.closing[call] = self
            if self.is_late or self.tally.verdict != "failed":
                drive.flights.drop_below(f"{call.id}/")
        drive.delivery.stir()

    def closes_no_more(self, call: Call, drive: Drive) -> None:
        """The scope was cut, by its own record or by what ends it from outside: tell who a shield keeps waiting in it."""
        drive.closing.pop(call, None)
        for waiter in self.untold:
            drive.asking.pass_on(waiter, waiter.branch.seen)

    def record(self, call: Call) -> tuple[str, Any]:
        """Return the record, type and fact, of why the scope ends."""
        late = "SCOPE_TIMED_OUT", f.ScopeTimedOut(call.sequence)
        return late if self.is_late else self.tally.record(call.sequence)

    def joined(self, call: Call, drive: Drive) -> None:
        """No branch of the scope is open any more: let who waits for that go on."""
        if call.settled:
            return
        call.settled = True
        drive.closing.pop(call, None)
        if (self.is_cancelled or self.next < len(self.bodies)) and drive.cancelling.reaches(call):
            self.raised = drive.cancelling.raised_in(call.branch)
        assert call.start is not None
        if self.is_cut or call.sequence not in drive.state.cuts:  # else its record is still to be delivered
            drive.delivery.calls.pop(call.sequence, None)
        if call.future is not None:
            if call.branch.is_cut:
                drive.delivery.interrupt(call, BranchCut())
            drive.asking.pass_on(call, call.start)
            drive.delivery.stir()
        if not drive.asking.is_replaying:
            drive.asking.release()  # what was called there and is not awaited, if the scope has ended by itself

    def deliver(self, call: Call, event: Event, drive: Drive) -> None:
        """Open the branches, in the order of the log like any outcome; or cut those that are open."""
        if event.type != "SCOPE_CUT":
            call.branch.seen = event
        if event.type == self.starts:
            self._opened(call, event, drive)
            return
        self.is_written = self.is_cut = True
        if event.type == "SCOPE_TIMED_OUT":
            self.tally.time_is_over()
        drive.unwinding.cut_below(f"{call.id}/")
        self.closes_no_more(call, drive)
        if not self.open:
            self.joined(call, drive)
        drive.delivery.stir()

    def _opened(self, call: Call, event: Event, drive: Drive) -> None:
        if (due_at := event.payload.due_at) is not None:
            drive.timers.add(due_at, lambda: self.time_is_over(call, drive), lambda: self._has_time(call, drive))
        if self.about["kind"] == "scope":
            call.context = None  # each task gets that of where it is started
            drive.asking.pass_on(call, event)
            return
        self.open_branches(call, drive)
        if not self.bodies:
            drive.asking.pass_on(call, drive.asking.settle(call, event))
            drive.delivery.stir()

    def _has_time(self, call: Call, drive: Drive) -> bool:
        is_ending = call.settled or call.branch.is_cut or self.is_late or self.tally.verdict is not None
        return drive.ending is None and not is_ending and not drive.cancelling.dooms(call)

    def time_is_over(self, call: Call, drive: Drive) -> None:
        """End the scope, whose time is over."""
        self.is_late = True
        self.close(call, drive)

    def revive(self, call: Call, event: Event) -> Any:
        if (error := self.failure(call)) is not None:
            raise error
        names = self.tally.counted if self.tally.wanted is not None else self.opening.names
        return self.opening.shape(names, [self.results[name] for name in names])

    def failure(self, call: Call) -> BaseException | None:
        """Return what the scope raises: the first failure, or that its time was over, with what failed later as notes."""
        failures = self.tally.failures
        if self.tally.verdict in {None, "closed"}:
            return self.raised
        error = ScopeTimedOut(scope=call.id) if self.tally.verdict == "timed_out" else failures[0][1]
        for name, later in failures:
            note = f"{call.id}/{name} failed as well: {told(later)}"
            if later is not error and note not in getattr(error, "__notes__", ()):
                error.add_note(note)
        return error


def is_join(call: Call) -> bool:
    """Whether *call* waits for the branches of a scope; who waits for one task of it has no start."""
    return call.start is not None and isinstance(call.syscall, ScopeSyscall) and bool(call.syscall.open)


def is_signal(error: BaseException | None) -> bool:
    """Whether *error* is one of the kernel's signals, alone or in a group."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_signal(each) for each in error.exceptions)
    return isinstance(error, (DriveEnding, BranchCut, Cancelled))
