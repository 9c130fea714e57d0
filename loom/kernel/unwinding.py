"""Putting a body away: signals to where it stands, innermost branches first, and what to do with one that will not go."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING, Any, Final

from loom.core.errors import NoSyscallInSight, SuspensionSwallowed
from loom.kernel.calls import Branch, BranchCut, DriveEnding
from loom.kernel.scopes import is_join, is_signal
from loom.spi.letting_go import awaited_by, let_go

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

REFUSALS_MAX: Final = 100
PATIENCE_S: Final = 5.0
"""How long a body may take over its clean-up when it is put away; then it is abandoned."""


class Unwinding:
    """Unwinds the body of one drive."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._refusals = 0
        self._exhausted: asyncio.Future[None] | None = None
        self._stray: asyncio.TimerHandle | None = None
        self._swallowed: list[str] = []
        self.is_cutting = False
        """Whether branches were cut since the body stood still."""

    def refused(self) -> None:
        """A syscall was called while unwinding, and refused."""
        self._refusals += 1
        if self.is_exhausted and self._exhausted is not None and not self._exhausted.done():
            self._exhausted.set_result(None)

    @property
    def is_exhausted(self) -> bool:
        """Whether the body was refused so often that its syscalls no longer return."""
        return self._refusals >= REFUSALS_MAX

    def hush(self, task: asyncio.Task[Any] | None) -> None:
        """Keep asyncio from complaining about a signal that ended a task of the author's."""
        if task is not None:
            task.remove_done_callback(_retrieve)  # it may have been hushed before
            task.add_done_callback(_retrieve)

    def signal(self, branch: Branch, signal: BaseException) -> None:
        """Raise *signal* in *branch* where it stands; one that waits for no syscall of its own is cancelled."""
        standing = branch.standing
        for call in list(branch.waiting):
            # A join goes on once its branches have ended, which are signalled as well.
            if not (isinstance(signal, BranchCut) and is_join(call)):
                self._drive.delivery.interrupt(call, type(signal)())
        task = branch.task
        if (
            standing is None
            and task is not None
            and not task.done()
            and self._drive.delivery.branches.get(task) is branch
        ):
            branch.was_cancelled = not self._let_go(task) and task.cancel()

    def _let_go(self, task: asyncio.Task[Any]) -> bool:
        """Interrupt *task* alone where it waits, itself or by a gather, for a task of a branch which is not cut."""
        kept = {call.task for call in self._drive.delivery.waiting if not call.branch.is_cut} - {None}
        return not self._drive.is_over and not kept.isdisjoint(awaited_by(task)) and let_go(task)

    def cut_below(self, prefix: str) -> None:
        """Cut every branch at or below *prefix*, and what tasks of the author's still ask in its name."""
        self.is_cutting, drive = True, self._drive
        strands = drive.delivery.strands()
        loose = [call for call in drive.delivery.waiting if call.branch.ended]
        for branch in [*strands, *(call.branch for call in loose)]:
            if branch.prefix.startswith(prefix):
                branch.cut = max(branch.cut, prefix, key=len)
        for branch in [branch for branch in strands if branch.lies_open(prefix)]:
            self.signal(branch, BranchCut())
        for call in [call for call in loose if call.branch.lies_open(prefix)]:
            drive.delivery.move(call).cancel()
        for call, scope in [each for each in drive.closing.items() if each[0].branch.lies_open(prefix)]:
            scope.closes_no_more(call, drive)

    def cut_beside(self, branch: Branch) -> None:
        """*branch* leaves the shield that has held off its cut: cut what other tasks ask in its name, and what is below."""
        for call in list(branch.waiting):
            self._drive.delivery.interrupt(call, BranchCut())
        strands = self._drive.delivery.strands()
        for each in [each for each in strands if branch in list(each.line())[1:] and each.is_cut]:
            self.signal(each, BranchCut())

    async def unwind(self) -> None:
        """End every branch and effect of the drive; return when nothing of it runs any more."""
        drive = self._drive
        if self._stray is not None:
            self._stray.cancel()
        # A thread cannot be stopped: who was asked to stop has waited for it already.
        await drive.flights.ground(0.1 if drive.is_interrupted else PATIENCE_S)
        while drive.delivery.branches:
            branches = list(drive.delivery.branches.values())
            parents = {above for branch in branches for above in branch.line() if above is not branch}
            leaves = [branch for branch in branches if branch not in parents]
            if not await self._end(leaves):
                break
        if outliving := list(drive.delivery.waiting):  # asked by tasks that outlive their branch
            for call in outliving:
                drive.delivery.interrupt(call, DriveEnding())
            await asyncio.sleep(0)
        for where in self._swallowed:
            _warn_swallowed(where)

    async def _end(self, leaves: list[Branch]) -> bool:
        standing = {b.task: b.where() for b in leaves if b.task is not None and not b.task.done()}
        for branch in leaves:
            self.signal(branch, DriveEnding())
        await asyncio.sleep(0)
        tasks = [b.task for b in leaves if b.task is not None]
        if not any(task.done() for task in tasks):  # most end at once
            self._exhausted = asyncio.get_running_loop().create_future()
            if self.is_exhausted:
                self._exhausted.set_result(None)
            waited = {*tasks, self._exhausted}
            await asyncio.wait(waited, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0)
        ended = [task for task in tasks if task.done()]
        for task in ended:
            swallowed = self._drive.ending == "park" and not task.cancelled() and not is_signal(task.exception())
            if swallowed and task in standing:
                self._swallowed.append(standing[task])
        if not ended:
            self._swallowed += list(standing.values())[:1]
        return bool(ended)

    def watch_stray(self, root: Branch, after_s: float) -> None:
        """Warn, once, when the body still waits for something that is no syscall after *after_s*."""
        if self._stray is None:
            where = root.where()
            loop = asyncio.get_running_loop()
            self._stray = loop.call_later(after_s, _warn_stray, where, after_s)


def _retrieve(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _warn_swallowed(where: str) -> None:
    text = f"the signal that puts the flow away was swallowed near {where}; do not catch BaseException there"
    warnings.warn(SuspensionSwallowed(text), stacklevel=2)


def _warn_stray(where: str, after_s: float) -> None:
    text = f"the flow has waited {after_s:g} s at {where} for something that is no syscall; nothing is in flight"
    warnings.warn(NoSyscallInSight(text), stacklevel=2)
