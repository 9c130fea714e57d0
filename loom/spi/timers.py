"""What becomes due while a run is driven: sleeps, gate timeouts, and rests between attempts."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable

from loom.spi.clock import Clock


class Timers:
    """A heap of due times (ms since the epoch) with what to do then, in order of due time and of being added.

    Once armed they fire by themselves, those that are added later too, until they are disarmed. What is fired may raise
    *signal*: then nothing more is fired, and nothing is said.
    """

    def __init__(self, clock: Clock, *, signal: type[BaseException]) -> None:
        self._clock, self._signal = clock, signal
        self._heap: list[tuple[int, int, Callable[[], None], Callable[[], bool]]] = []
        self._count = 0
        self._task: asyncio.Task[None] | None = None
        self._armed: float | None = None

    def add(self, due_at: int, fire: Callable[[], None], is_wanted: Callable[[], bool]) -> None:
        """Call *fire* once *due_at* has come and the timers are armed, unless *is_wanted* says no by then."""
        self._count += 1
        heapq.heappush(self._heap, (due_at, self._count, fire, is_wanted))
        if self._armed is not None and due_at < self._armed:
            self.arm()

    def next_due(self) -> int | None:
        """Return the earliest due time that is still wanted, None when there is none."""
        while self._heap and not self._heap[0][3]():
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def arm(self) -> None:
        """Wait for the earliest due time in a task of its own, and fire what is due then."""
        due = self.next_due()
        if due is None:
            self.disarm()
            self._armed = math.inf
        elif due != self._armed:
            self.disarm()
            self._armed = due
            self._task = asyncio.get_running_loop().create_task(self._wait(due), name="loom-timers")

    async def _wait(self, due: int) -> None:
        await self._clock.sleep_until(due)
        self._task, self._armed = None, None
        try:
            self.fire_due()
        except self._signal:
            return
        self.arm()

    def fire_due(self) -> bool:
        """Fire what is due now; return whether anything was."""
        fired, now = False, self._clock.now_ms()
        while (due := self.next_due()) is not None and due <= now:
            heapq.heappop(self._heap)[2]()
            fired = True
        return fired

    def disarm(self) -> None:
        """Stop waiting; nothing fires by itself until armed again."""
        if self._task is not None:
            self._task.cancel()
        self._task, self._armed = None, None
