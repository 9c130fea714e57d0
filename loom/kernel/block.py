"""The block of `ctx.scope`: tasks that are started one by one, and end before the block is left.

The body of the block is a branch like its tasks, so that it is cut like them; it has no task of its own, but that of the
branch that opened the block, which does nothing else meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any

from loom.core.block import BODY, ScopeTask, TaskNames
from loom.core.branching import branch_of
from loom.core.failures import BranchWasCut, Cancelled
from loom.core.origins import remember_start
from loom.kernel.calls import Branch, BranchCut, Call
from loom.kernel.scopes import ScopeSyscall

if TYPE_CHECKING:
    from loom.kernel.drive import Drive


class Block:
    """One block: what `loom.core.block.Scope` promises."""

    def __init__(self, context: Any, drive: Drive, call: Call, *, enter: Callable[[str], Branch]) -> None:
        assert isinstance(call.syscall, ScopeSyscall)
        self._context, self._drive, self._call, self._syscall, self._enter = context, drive, call, call.syscall, enter
        self._body: Branch | None = None
        self._names = TaskNames()

    async def __aenter__(self) -> Block:
        await self._drive.asking.outcome(self._call)
        self._body = self._syscall.branch(self._call, BODY)
        self._drive.delivery.nest(self._body, self._call.branch)
        return self

    def start(self, fn: Any, /, *args: Any, **kwargs: Any) -> ScopeTask[Any]:
        self._enter("scope.start")
        if self._body is None or self._call.settled or not self._syscall.open:
            raise RuntimeError(f"the scope {self._call.id} is not open")
        name = self._names.take(kwargs.pop("name", None))
        body = partial(branch_of(fn, *args, **kwargs), self._context)
        branch = self._syscall.begin_branch(self._call, self._drive, name, body)
        has_ended: Callable[[], bool] = lambda: branch.ended  # noqa: E731  # it is read later
        return ScopeTask(name, result=partial(self._result, branch), has_ended=has_ended)

    async def _result(self, branch: Branch) -> Any:
        waiter, text = self._enter("scope"), branch.prefix.rstrip("/")
        if not branch.ended:
            call = Call(waiter, self._syscall, text, None, ordinal=-1)
            call.free = self._drive.cancelling.frees(waiter)
            branch.awaited += (call,)
            await self._drive.asking.stand(call)
        if branch.name in self._syscall.results:
            return self._syscall.results[branch.name]
        raise dict(self._syscall.tally.failures).get(branch.name, BranchWasCut(branch=text))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        drive, call, body = self._drive, self._call, self._body
        assert body is not None
        task = asyncio.current_task()
        if not drive.is_over and (task is None or drive.delivery.branches.get(task) is not body):
            self._enter("scope")
            raise RuntimeError(f"{call.id} is left while a block that was entered after it is still open")
        drive.delivery.unnest(body, call.branch)
        if body.was_cancelled and body.task is not None:
            body.task.uncancel()  # it was the cut of this block, which ends here
        if drive.is_over:
            return  # its tasks are unwound as well
        call.branch.seen = max(call.branch.seen, body.seen, key=attrgetter("sequence"))
        self._syscall.ended(call, drive, body, error)
        if not call.settled:
            await drive.asking.stand(call)
        if call.branch.is_cut:
            raise BranchCut
        self._fail(error)

    def _fail(self, error: BaseException | None) -> None:
        """Raise what the scope fails with, as it is, unless it is the *error* that leaves the block anyway."""
        failure = self._syscall.failure(self._call)
        if failure is None or (isinstance(failure, Cancelled) and isinstance(error, Cancelled)):
            return
        assert self._call.start is not None
        remember_start(failure, self._call.start)
        before = failure.__context__
        try:
            if failure is not error:
                raise failure
        finally:
            failure.__context__ = before  # and not the signal by which the body was cut
