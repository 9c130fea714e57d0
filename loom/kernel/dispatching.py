"""What must be so before an effect may leave: what it stands on is on disk, and the run is still this driver's (rules 3, 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

RECOVERIES_UNMARKED_MAX: Final = 2
"""Once so many drivers in a row were lost, each start is on disk before its effect, so that the next loss is counted."""


def stands_on(drive: Drive, *, everything: bool, reads: bool) -> int:
    """Return how many events have to be on disk before an effect may leave that is asked for now."""
    journal = drive.journal
    if everything or journal.state.facts.recoveries >= RECOVERIES_UNMARKED_MAX:
        return journal.state.length
    return 0 if reads or drive.around.write_behind else journal.unwritten_outcome
