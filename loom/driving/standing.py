"""Whether a run is free to be driven, driven by somebody else, or left behind. Pure: decides by the index row and the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from loom.spi.event_store import ExecutionRow

Found: TypeAlias = Literal["lapsed", "gone", "released"]


class Standing(NamedTuple):
    """Who has a run. Without *driver* it is free: to drive it is to append to it first, and one who does wins.

    *found* is None while the driver may be driving it; else what became of it, and the run has to be taken over.
    """

    driver: str = ""
    found: Found | None = None

    @property
    def is_driven(self) -> bool:
        """Whether another driver is at work on it, as far as can be known."""
        return bool(self.driver) and self.found is None


def standing(status: str, row: ExecutionRow, *, me: str, holds: bool, is_gone: Callable[[str], bool]) -> Standing:
    """Return how a run stands that is *status* by its log, and *row* in the index.

    *me* is the driver that asks, and *holds* says whether it holds the run; *is_gone* knows who has ended for certain.
    """
    if not row.driver:
        return Standing()
    if row.driver == me:
        found: Found | None = None if holds else "released"
    elif row.released:
        found = "released"
    elif is_gone(row.driver):
        found = "gone"
    else:
        found = None if row.lease_ms > 0 else "lapsed"
    if found is not None and status != "running":
        return Standing()  # it was claimed or opened again, and then nothing came of it
    return Standing(row.driver, found)
