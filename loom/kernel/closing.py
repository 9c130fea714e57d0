"""How a run ends: what its body came to becomes the last fact, unless somebody wants it cancelled (kernel rules 6.4, 8.1)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from loom.core import facts as f
from loom.core.errors import SyscallNotAwaited
from loom.core.origins import cause_of
from loom.kernel.errors import UnrecordedCancellation
from loom.kernel.scopes import is_signal
from loom.values import NotSerializable, RecordUnreadable
from loom.values.failing import record_of

if TYPE_CHECKING:
    import asyncio

    from loom.kernel.drive import Drive


async def close(drive: Drive) -> None:
    """Record the end of the run, whose body has ended, or was cancelled and will not end."""
    assert drive.body is not None
    if drive.state.facts.cancel is not None:
        await drive.setting.before_cancelled(drive)
        if not drive.is_over:
            drive.commit("EXECUTION_CANCELLED", _cancelled(drive, drive.body))
            drive.ending = "done"
        return
    if any(start.type == "STEP_STARTED" for start in drive.state.gates.values()):
        await drive.idle()  # somebody has to say first what became of the effect in doubt
        return
    if drive.body.cancelled():
        drive.stop(UnrecordedCancellation(syscall="the flow", where="its own task"))
        return
    error = drive.body.exception()
    if isinstance(error, RecordUnreadable):  # the input: its type has changed
        drive.stop(error)
    else:
        await drive.setting.before_ended(drive)
    if drive.is_over:
        return
    type_, fact = ended(drive, drive.body, error)
    if drive.journal.incarnation is None:
        drive.commit(type_, fact)  # nobody can know of it yet, and want it cancelled
    elif not await drive.leave(type_, fact, ("cancel",)):
        return
    drive.ending = drive.ending or "done"
    _tell_of_unasked(drive)


def _tell_of_unasked(drive: Drive) -> None:
    if drive.delivery.unasked:
        names = ", ".join(call.id for call in drive.delivery.unasked)
        told = f"{names} of {drive.state.execution_id} was called and never awaited, so it did not happen: write await"
        warnings.warn(SyscallNotAwaited(told), stacklevel=2)


def ended(drive: Drive, body: asyncio.Task[Any], error: BaseException | None) -> tuple[str, Any]:
    """Return the fact, with its type, that the end of *body* is."""
    if error is None:
        try:
            return "EXECUTION_COMPLETED", f.ExecutionCompleted(result=drive.setting.encode_result(body.result()))
        except NotSerializable as refused:
            error = refused
    return "EXECUTION_FAILED", f.ExecutionFailed(failure=record_of(error), cause=cause_of(error))


def _cancelled(drive: Drive, body: asyncio.Task[Any]) -> f.ExecutionCancelled:
    cancel = drive.state.facts.cancel
    assert cancel is not None
    error = body.exception() if body.done() and not body.cancelled() else None
    failure = None if error is None or is_signal(error) else record_of(error)
    return f.ExecutionCancelled(cancel.payload.cause, cancel.payload.reason, failure)
