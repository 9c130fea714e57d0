"""The syscall that opens branches: `parallel` and `map`.

Branches begin in the order given and each runs in a task of its own. When one fails, the scope is *failing*: nothing new is
started in it, what is in flight in it ends and is recorded (so it is never paid for twice), then `SCOPE_CUT` is recorded and
delivered like any outcome: every other branch is unwound where it stands. The scope then raises what the first branch
raised. Since the cut has its place in the log, a replay cuts at the same instant.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from loom.core import facts as f
from loom.core.failures import Cancelled
from loom.core.identity import escape
from loom.core.inside import INSIDE
from loom.kernel.calls import Branch, BranchCut, Call, DriveEnding, Event

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

Body = Callable[[], Awaitable[Any]]
Shape = Callable[[list[Any]], Any]


class ExitInFlow(RuntimeError):
    """A flow called `sys.exit`: it fails, and the process goes on."""


class ScopeSyscall:
    """Runs *bodies*, named by *names*, at most *limit* at once; delivers their results in order, in the *shape* wanted."""

    starts = "SCOPE_OPENED"

    def __init__(
        self, kind: str, names: Sequence[str], bodies: Sequence[Body], *, limit: int | None, shape: Shape = list
    ) -> None:
        self.kind, self.names, self.bodies, self.shape = kind, names, bodies, shape
        self.limit = limit or len(bodies)
        self.next = 0
        self.open: set[Branch] = set()
        self.branches: list[Branch] = []
        self.results: list[Any] = [None] * len(bodies)
        self.failed: tuple[Branch, BaseException] | None = None
        self.cutting = self.is_cancelled = False
        self.cancelled: BaseException | None = None

    def asked(self) -> Any:
        numbered = all(name == str(i) for i, name in enumerate(self.names))
        return {"kind": self.kind, "branches": len(self.names) if numbered else list(self.names)}

    def begin(self, call: Call, drive: Drive) -> None:
        opened = f.ScopeOpened(
            call.id,
            call.ordinal,
            call.digest,
            self.kind,
            self.asked()["branches"],
            drive.state.facts.generation or None,
        )
        event = drive.commit("SCOPE_OPENED", opened)
        drive.started(call, event)
        drive.delivery.put(event)

    def reopen(self, call: Call, drive: Drive) -> None:
        """The opening of a scope is its own outcome: there is nothing to take up."""

    def open_branches(self, call: Call, drive: Drive) -> None:
        """Begin as many branches as the limit allows."""
        while self.next < len(self.bodies) and len(self.open) < self.limit and self.failed is None:
            self._begin(call, drive, self.next)
            self.next += 1

    def _begin(self, call: Call, drive: Drive, index: int) -> None:
        above = call.branch
        # The opener's own id text is one step of the path: below it, everything starts with "id/branch/".
        name = call.id[len(above.prefix) :]
        path = (*above.path, (name, self.names[index]))
        branch = Branch(path, f"{call.id}/{escape(self.names[index])}/", parent=above, at=above.at)
        branch.shields = int(call.free)
        self.open.add(branch)
        self.branches.append(branch)
        context = call.context or contextvars.copy_context()
        coroutine = run_body(self.bodies[index])
        task = asyncio.get_running_loop().create_task(coroutine, name=branch.prefix, context=context.copy())
        drive.delivery.enter(branch, task)
        task.add_done_callback(lambda done: self._ended(call, drive, index, done))

    def _ended(self, call: Call, drive: Drive, index: int, task: asyncio.Task[Any]) -> None:
        branch = self.branches[index]
        error: BaseException | None = asyncio.CancelledError() if task.cancelled() else task.exception()
        self.open.discard(branch)
        if error is None:
            self.results[index] = task.result()
        elif drive.cancelling.reaches(call) and (task.cancelled() or is_signal(error)):
            self.is_cancelled = True
        elif drive.ending is None and not branch.cut and self.failed is None and not isinstance(error, DriveEnding):
            self.failed = (branch, error)
        drive.delivery.leave(branch)
        if drive.ending is not None:
            return
        if self.failed is None and not call.branch.cut and not drive.cancelling.reaches(call):
            self.open_branches(call, drive)
        if not self.open:
            self._joined(call, drive)
        elif self.failed is not None and not self.cutting and not drive.cancelling.reaches(call):
            drive.failing[call] = self

    def _joined(self, call: Call, drive: Drive) -> None:
        if call.settled:
            return
        call.settled = True
        drive.failing.pop(call, None)
        if call.future is None:
            return
        if self.is_cancelled or self.next < len(self.bodies):
            self.cancelled = drive.cancelling.raised_in(call.branch) if drive.cancelling.reaches(call) else None
        assert call.start is not None
        drive.delivery.calls.pop(call.sequence, None)
        future = drive.delivery.move(call)
        if not future.done():
            future.set_result(call.start)
        drive.delivery.stir()

    def deliver(self, call: Call, event: Event, drive: Drive) -> None:
        """Open the branches, in the order of the log like any outcome; or cut those that are open."""
        if event.type == self.starts:
            call.branch.at = event.at
            self.open_branches(call, drive)
            if not self.bodies:
                drive.hand_over(call, event)
            return
        assert self.failed is not None
        if self.failed[0].path[-1][1] != event.payload.branch:
            drive.stop(drive.asking.cut_without_failure(call, event))
            return
        self.cutting = True
        drive.cut_below(f"{call.id}/")
        drive.delivery.stir()

    def revive(self, call: Call, event: Event) -> Any:
        if self.failed is not None:
            raise self.failed[1]
        if self.cancelled is not None:
            raise self.cancelled
        return self.shape(self.results)

    def cut_fact(self, call: Call) -> f.ScopeCut:
        """Return the fact that the first failure cuts the others."""
        assert self.failed is not None
        return f.ScopeCut(start=call.sequence, branch=self.failed[0].path[-1][1])


async def run_body(body: Body) -> Any:
    """Run the body of a branch, or of the flow; an exit that it asks for is a failure of its own."""
    INSIDE.set("flow")
    try:
        return await body()
    except SystemExit as exit_:  # asyncio would end the loop with it
        raise ExitInFlow(f"sys.exit({exit_.code!r}) was called in the flow") from exit_


def is_signal(error: BaseException | None) -> bool:
    """Whether *error* is one of the kernel's signals, alone or in a group."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_signal(each) for each in error.exceptions)
    return isinstance(error, (DriveEnding, BranchCut, Cancelled))
