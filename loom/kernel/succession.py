"""The syscall that closes one link of a chain and begins the next (kernel rule 11.2).

It writes nothing when it is asked, and never returns: once the body stands there and nothing else is left to wait for, the
last fact of this link and the first of the next are written in one transaction, and the body is put away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

from loom.core import facts as f
from loom.core.json import JsonObject
from loom.core.missing import MISSING
from loom.kernel.calls import Call, Event
from loom.kernel.errors import CannotContinue
from loom.spi.event_store import RequestKind

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

_NEWS: Final = tuple(kind for kind in get_args(RequestKind) if kind != "message")
"""What is asked of this link is journaled in it; messages are for whichever link receives them."""


class SuccessionSyscall:
    """The run is to go on as its next link, with *input*, encoded; `MISSING` where the flow has a default."""

    starts = "EXECUTION_CONTINUED"

    def __init__(self, input: Any) -> None:
        self.input = input

    def asked(self) -> JsonObject:
        return {}

    def begin(self, call: Call, drive: Drive) -> None:
        left = [other.id for other in drive.delivery.calls.values() if drive.wants(other)]
        left += [other.id for other in drive.delivery.unasked]
        if call.branch.parent is not None or left:
            where = call.branch.where()
            drive.stop(
                CannotContinue(execution_id=drive.state.execution_id, branch=call.branch.prefix, left=left, where=where)
            )
            return
        drive.succession = call

    def reopen(self, call: Call, drive: Drive) -> None:
        """It has no start that could be on the log."""

    def revive(self, call: Call, event: Event) -> Any:
        raise AssertionError("nothing comes back from it")


async def roll_over(drive: Drive, call: Call) -> bool:
    """Close this link and begin the next, unless somebody wants the run cancelled; return False: there is news either way."""
    assert isinstance(call.syscall, SuccessionSyscall)
    if drive.journal.incarnation is None:
        await drive.journal.barrier()  # the next link names the life of the first
    successor = drive.setting.successor(drive.journal, call.syscall.input)
    input = None if call.syscall.input is MISSING else call.syscall.input
    fact = f.ExecutionContinued(next=successor.execution_id, input=input)
    if await drive.leave("EXECUTION_CONTINUED", fact, _NEWS, follows=successor):
        drive.ending = drive.ending or "done"
    return False
