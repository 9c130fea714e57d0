"""Noticing that runs of a flow pile up: more are due than a worker gets to. Said once, until they have gone down again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

PILE: Final = 2_000
"""More runs of one flow than this that are due, and that nobody drives, are told of."""
LOOKS_EVERY_S: Final = 30.0

Due = Callable[[str, int], Awaitable[int]]
"""Returns how many runs of a flow are parked and due, counted up to a number."""


class Piling:
    """Counts, now and then, what is due of *flows*."""

    def __init__(self, due: Due, flows: Sequence[str]) -> None:
        self._due, self._flows = due, flows
        self._told: set[str] = set()
        self._looks_at_s = 0.0

    async def grown(self) -> list[str]:
        """Return the flows of which more than `PILE` runs are due, and were not when it was looked last."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._looks_at_s:
            return []
        self._looks_at_s = now_s + LOOKS_EVERY_S
        grown: list[str] = []
        for flow in self._flows:
            due = await self._due(flow, PILE + 1)
            if due > PILE and flow not in self._told:
                grown.append(flow)
                self._told.add(flow)
            elif due <= PILE // 2:
                self._told.discard(flow)
        return grown
