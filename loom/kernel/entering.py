"""Taking a place: how a syscall finds the branch it is called in, and mints its place there (kernel rules 4.3, 4.4)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from loom.core.failures import Cancelled
from loom.fingerprint.places import place_of_frame
from loom.kernel.calls import Branch, BranchCut, Call, DriveEnding, Syscall
from loom.kernel.errors import ForeignTask
from loom.spi.letting_go import never

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

F = TypeVar("F", bound=Callable[..., Any])


def syscall(function: F) -> F:
    """Let a body that swallows the signal for ever stand still at last, where its syscalls raise otherwise."""

    @wraps(function)
    def called(self: Entering, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(self, *args, **kwargs)
        except (DriveEnding, BranchCut, Cancelled):
            if self._drive.unwinding.is_exhausted:
                return never()
            raise

    return called  # type: ignore[return-value]  # it takes and returns what *function* does


class Entering:
    """What every part of a context does first: it finds the branch that calls, by its task, and takes a place in it."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive

    def _enter(self, syscall: str) -> Branch:
        branch, drive = self._branch(syscall), self._drive
        if drive.ending is not None or branch.cut or branch.cancelled:
            drive.asking.enter(branch)
        return branch

    def _branch(self, syscall: str) -> Branch:
        drive = self._drive
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        branch = drive.delivery.branches.get(task) if task is not None else None
        if branch is None:
            drive.unwinding.hush(task)
            where = place_of_frame(inspect.currentframe())
            about = task.get_name() if task is not None else "a thread"
            if drive.ending is not None:
                raise DriveEnding
            drive.stop_from_anywhere(ForeignTask(syscall=syscall, task=about, where=where))
            raise DriveEnding
        return branch

    def _call(self, branch: Branch, syscall: Syscall, text: str, compared: Any) -> Call:
        branch.last_id, branch.draws = text, 0
        call = Call(branch, syscall, text, compared)
        if self._drive.cancelling.frees(branch):
            call.free = True
        self._drive.delivery.unasked[call] = None
        return call
