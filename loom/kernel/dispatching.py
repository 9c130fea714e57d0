"""What must be so before an effect may leave: what it stands on is on disk, and the run is still this driver's (rules 3, 7)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

RECOVERIES_UNMARKED_MAX: Final = 2
"""Once so many drivers in a row were lost, each start is on disk before its effect, so that the next loss is counted."""


def before_effect(drive: Drive, *, everything: bool, reads: bool) -> Awaitable[None] | None:
    """Return what to wait for before an effect may leave, None: nothing."""
    journal = drive.journal
    if everything or journal.state.facts.recoveries >= RECOVERIES_UNMARKED_MAX:
        return _once_on_disk(drive, journal.state.length)
    upto = 0 if reads or drive.around.write_behind else journal.unwritten_outcome
    return _once_on_disk(drive, upto) if upto else drive.setting.may_dispatch()


async def _once_on_disk(drive: Drive, upto: int) -> None:
    await drive.journal.barrier(upto)
    if (waits := drive.setting.may_dispatch()) is not None:
        await waits
