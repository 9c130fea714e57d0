"""The frontier: all that is recorded was delivered and the body stands still (kernel rules 5.2, 9.2).

Only here is it known that the whole recorded prefix matched. Then the verb's request is made, the change of code is recorded,
what was cut off is taken up again, and what was held begins, in the order asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loom.core import facts as f
from loom.core.errors import LoomError
from loom.kernel.calls import Call
from loom.kernel.replay import Recorded

if TYPE_CHECKING:
    from loom.kernel.drive import Drive


async def reach(drive: Drive) -> None:
    """Compare, let the verb make its request, and go on, unless nothing can; called when the body stands there."""
    assert drive.asking.recorded is not None
    unasked = drive.asking.unasked()
    if unasked is not None:
        if not drive.may_still_come():
            drive.stop(unasked)
        return
    if drive.setting.before_going_on is not None:
        try:
            await drive.setting.before_going_on(drive)
        except LoomError as error:
            drive.stop(error)
            return
    await drive.requests.read()
    if drive.is_over:
        return
    drive.cancelling.watch()
    if drive.state.facts.is_paused and not any(request.kind == "cancel" for request in drive.requests.fresh):
        drive.ending = "park"
        return
    if not drive.requests.fresh and not drive.setting.stays(drive) and _has_nothing_to_do(drive):
        drive.ending = "park"
        return
    _go_on(drive, drive.asking.recorded)


def _has_nothing_to_do(drive: Drive) -> bool:
    body_ended = drive.body is not None and drive.body.done()
    if drive.state.status not in ("suspended", "in_doubt") or drive.closing or body_ended:
        return False
    if not all(call.branch.is_cut for call in drive.asking.held):
        return False
    dues = [_due(drive, call) for call in drive.asking.taken_up if drive.wants(call)]
    due = min((each for each in (drive.timers.next_due(), *dues) if each is not None), default=None)
    if due is not None and drive.state.facts.wake_at is None:
        return False  # nobody would wake it, as after a retry
    return due is None or due > drive.now_ms() + drive.setting.linger_ms


def _due(drive: Drive, call: Call) -> int | None:
    """Return when *call*, which is taken up, goes on: 0 for at once, None for not by itself."""
    assert call.start is not None
    if call.start.type == "STEP_STARTED":
        known = drive.state.attempts.get(call.sequence)
        return 0 if known is None else known.due_at if known.doubt is None else None
    due_at: int | None = getattr(call.start.payload, "due_at", None)
    return 0 if drive.requests.inbox.has_for(call) else due_at


def _go_on(drive: Drive, recorded: Recorded) -> None:
    state, setting = drive.state, drive.setting
    drive.asking.recorded = None
    if state.facts.is_paused:  # somebody has cancelled it
        drive.commit("EXECUTION_UNPAUSED", f.ExecutionUnpaused())
    cut_off = True if state.status == "running" else None
    drive.commit("EXECUTION_RESUMED", f.ExecutionResumed(cut_off=cut_off), setting.about)
    declined = drive.patches.declined
    if recorded.differences or declined or not setting.same_code:
        before, after = state.facts.fingerprint, setting.fingerprint
        fact = f.ExecutionMigrated(before, after, recorded.differences, unpatched=declined)
        drive.commit("EXECUTION_MIGRATED", fact)
    drive.patches.record()
    drive.live.set()
    drive.timers.fire_due()  # scopes whose time is over take up nothing
    drive.requests.apply("cancel")  # before anything is taken up
    if drive.is_interrupted:
        return
    taken_up, drive.asking.taken_up = drive.asking.taken_up, []
    for call in taken_up:
        if call.is_once or not (call.branch.is_cut or drive.is_closing(call.branch)):
            call.syscall.reopen(call, drive)
    drive.requests.apply()
    drive.asking.release()
    drive.timers.fire_due()  # what was taken up may be due
    drive.timers.arm()
