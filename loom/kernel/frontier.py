"""The frontier: all that is recorded was delivered and the body stands still (kernel rules 5.2, 9.2).

Only here is it known that the whole recorded prefix matched. Then the verb's request is made, the change of code is recorded,
what was cut off is taken up again, and what was held begins, in the order asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loom.core import facts as f
from loom.core.envelope import NO_METADATA
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
    if drive.state.status not in ("suspended", "in_doubt") or drive.asking.held or drive.closing or body_ended:
        return False
    horizon = drive.now_ms() + drive.setting.linger_ms
    due = drive.timers.next_due()
    if due is not None and due <= horizon:
        return False
    return not any(drive.wants(call) and _can_go_on(drive, call, horizon) for call in drive.asking.taken_up)


def _can_go_on(drive: Drive, call: Call, horizon: int) -> bool:
    assert call.start is not None
    if call.start.type == "STEP_STARTED":
        known = drive.state.attempts.get(call.sequence)
        return known is None or (known.doubt is None and known.due_at <= horizon)
    due_at = getattr(call.start.payload, "due_at", None)
    return (due_at is not None and due_at <= horizon) or drive.requests.inbox.has_for(call)


def _go_on(drive: Drive, recorded: Recorded) -> None:
    state, setting = drive.state, drive.setting
    drive.asking.recorded = None
    if state.facts.is_paused:  # somebody has cancelled it
        drive.commit("EXECUTION_UNPAUSED", f.ExecutionUnpaused())
    about = {"principal": setting.principal} if setting.principal else NO_METADATA
    cut_off = True if state.status == "running" else None
    drive.commit("EXECUTION_RESUMED", f.ExecutionResumed(cut_off=cut_off), about)
    declined = drive.patches.declined
    if recorded.differences or declined or not setting.same_code:
        before, after = state.facts.fingerprint, setting.fingerprint
        fact = f.ExecutionMigrated(before, after, recorded.differences, unpatched=declined)
        drive.commit("EXECUTION_MIGRATED", fact)
    drive.patches.record()
    drive.live.set()
    drive.timers.fire_due()  # scopes whose time is over take up nothing
    drive.timers.arm()
    drive.requests.apply("cancel")  # before anything is taken up
    if drive.is_interrupted:
        return
    taken_up, drive.asking.taken_up = drive.asking.taken_up, []
    for call in taken_up:
        if call.is_once or not (call.branch.is_cut or drive.is_closing(call.branch)):
            call.syscall.reopen(call, drive)
    drive.requests.apply()
    drive.asking.release()
