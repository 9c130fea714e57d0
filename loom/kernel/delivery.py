"""Delivery: outcomes reach the body one at a time, in the order of the log (kernel rule 5.1).

The next outcome is delivered when the body stands still: every branch stands inside a syscall of its own task, or, where a
branch waits for something else (a gather, a lock), after 64 turns of the loop without progress. The same rule serves a first
run and a replay, so what the body can observe is the same in both. This file does not know where outcomes come from.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from loom.kernel.calls import Branch, Call, DriveEnding, Event

TURNS_MAX: Final = 64


class Delivery:
    """Counts who is on the move, and calls *on_still* when nobody is."""

    def __init__(self, on_still: Callable[[], object], is_busy: Callable[[], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_still, self._is_busy = on_still, is_busy
        self.queue: deque[Event] = deque()
        self.calls: dict[int, Call] = {}
        self.waiting: dict[Call, None] = {}
        self.branches: dict[asyncio.Task[object], Branch] = {}
        self.moving = 0
        self.unsettled = False
        self.unasked: dict[Call, None] = {}
        """Syscalls that were called and are not awaited yet: a task that was created for one has not begun."""
        self.closed = False
        self.progress = self._seen = self._turns = self._stood_at = 0
        self._look_due: asyncio.Handle | None = None
        self._unless_stood = False

    def enter(self, branch: Branch, task: asyncio.Task[object]) -> None:
        """A branch begins; it is on the move until it stands in a syscall or leaves."""
        branch.task = task
        self.branches[task] = branch
        self.moving += 1
        self.progress += 1
        self.stir()  # it may come to wait for no syscall at all

    def leave(self, branch: Branch) -> None:
        """A branch has ended."""
        assert branch.task is not None
        del self.branches[branch.task]
        branch.ended = True
        if branch.standing is None:
            self.moving -= 1
        self.progress += 1
        self.stir()

    def nest(self, branch: Branch, above: Branch) -> None:
        """The task of *above* goes on as *branch*, until `unnest`; it is one strand, and moves as one."""
        assert above.task is not None
        branch.task = above.task
        self.branches[above.task] = branch

    def unnest(self, branch: Branch, above: Branch) -> None:
        """The task of *branch* is that of *above* again."""
        assert above.task is not None
        branch.ended = True
        self.branches[above.task] = above

    def strands(self) -> list[Branch]:
        """Return the open branches, also those whose task goes on as another one."""
        return list(dict.fromkeys(branch for each in self.branches.values() for branch in each.line()))

    def stand(self, call: Call, own: bool) -> asyncio.Future[Event]:
        """The body waits for *call*; *own* when it is the branch's own task that waits."""
        future: asyncio.Future[Event] = self._loop.create_future()
        branch = call.branch
        call.future, call.own = future, own
        branch.waiting[call] = self.waiting[call] = None
        if own:
            branch.standing = call
            self.moving -= 1
        self.progress += 1
        if self.queue or not self._is_busy():
            self.stir()
        elif self._unless_stood and not self._is_moving and self._look_due is not None:
            self._look_due.cancel()  # it stands again already, and the landing of an effect stirs
            self._look_due = None
        return future

    def move(self, call: Call) -> asyncio.Future[Event]:
        """*call* stops waiting, because an outcome or a signal is on its way to it; return what it waited on."""
        future = call.future
        assert future is not None
        call.future = None
        branch = call.branch
        branch.waiting.pop(call, None)
        self.waiting.pop(call, None)
        if branch.standing is call:
            branch.standing = None
            if not branch.ended:
                self.moving += 1
        elif not call.own:
            self.unsettled = True
        self.progress += 1
        return future

    def interrupt(self, call: Call, signal: BaseException) -> None:
        """Raise *signal* where *call* stands."""
        future = self.move(call)
        if not future.done():
            future.set_exception(signal)

    def is_alone(self, branch: Branch) -> bool:
        """Whether nobody but *branch*, which asks just now, could see when an outcome comes."""
        return len(self.branches) == 1 and not self.waiting and not self.unasked and not self.unsettled

    def part(self) -> None:
        """Let go of the drive."""
        self.closed = True
        self._on_still = self._is_busy = lambda: False
        self.calls.clear()
        self.queue.clear()

    @property
    def still_stands(self) -> bool:
        """Whether nothing has moved and nothing waits to be delivered since the body last stood still."""
        return self.progress == self._stood_at and not self.queue

    @property
    def _is_moving(self) -> bool:
        return self.moving > 0 or self.unsettled or bool(self.unasked)

    def put(self, event: Event) -> None:
        """Queue an outcome that was just committed."""
        self.queue.append(event)
        if not self._is_moving and not self.closed and len(self.queue) == 1:
            self._stand_still()  # the body stands still already: a turn of the loop is saved
        else:
            self.stir()

    def stir(self, *, unless_stood: bool = False) -> None:
        """Something changed: look again, on the next turn, whether the body stands still.

        *unless_stood*: an outcome is on its way to the body, and there is nothing to see if it stands in a syscall again before.
        """
        self._unless_stood = unless_stood and (self._unless_stood or self._look_due is None)
        if self._look_due is None and not self.closed:
            self._look_due = self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._look_due = None
        if self.closed:
            return
        if self._is_moving:
            if self.progress != self._seen:
                self._seen, self._turns = self.progress, 0
            self._turns += 1
            if self._turns <= TURNS_MAX:
                self.stir()
                return
            self._turns = 0
        self.unsettled = False
        self._stand_still()

    def _stand_still(self) -> None:
        self._stood_at = self.progress
        try:
            self._on_still()
        except DriveEnding:
            return  # the log could not be written, and the drive knows
