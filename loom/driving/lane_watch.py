"""Looking into the lanes of all runs that this process drives, several times a second, in one question to the store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from loom.core.errors import LoomError
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import RequestLane

if TYPE_CHECKING:
    from loom.kernel.drive import Drive

POLL_S: Final = 0.25
"""The lane of each run is looked into at least this often (kernel rule 1.3)."""


class LaneWatch:
    """Knocks at each drive whose lane holds something that it has not read. It belongs to one loop."""

    def __init__(self, lane: RequestLane) -> None:
        self._lane = lane
        self._drives: dict[Drive, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._look: asyncio.Task[None] | None = None

    def add(self, drive: Drive) -> None:
        """Look into the lane of *drive* until it is `left`."""
        self._drives[drive] = None
        self._rest()

    def left(self, drive: Drive) -> None:
        """*drive* is over."""
        self._drives.pop(drive, None)

    def _rest(self) -> None:
        if self._timer is None and (self._look is None or self._look.done()):
            self._timer = asyncio.get_running_loop().call_later(POLL_S, self._begin)

    def _begin(self) -> None:
        self._timer = None
        if self._drives:
            self._look = asyncio.get_running_loop().create_task(self._look_in(), name="loom-lanes")

    async def _look_in(self) -> None:
        asked = [(drive, place) for drive in self._drives if not drive.is_over and (place := drive.requests.place)]
        try:
            found = await self._lane.have_news([place for _, place in asked])
        except StoreUnavailable:
            found = [False] * len(asked)  # it is asked again; who has to write meanwhile is told
        except LoomError:
            found = [True] * len(asked)  # each drive reads its lane, and ends with what is wrong with it
        for (drive, _), has_news in zip(asked, found, strict=True):
            if has_news and not drive.is_over:
                drive.requests.knock()
        self._look = None
        self._rest()
