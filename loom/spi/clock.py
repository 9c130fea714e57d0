"""Time and randomness as interfaces: the kernel asks these and nothing else.

`VirtualClock` and `SeededEntropy` are the ones for tests: time moves when the test moves it.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import time
from typing import Final, Protocol

CLOCK_SPI_VERSION: Final = "1.0.0"

DIFFERENCE_MS: Final = 1000
"""Clocks that are less apart than this are the same: a network and a busy machine make as much."""


class Clock(Protocol):
    """Wall time in milliseconds since the epoch (UTC), and waiting for it."""

    def now_ms(self) -> int:
        """Return the time; it may step backward when the machine's clock is set."""
        ...

    async def sleep_until(self, at_ms: int) -> None:
        """Return once `now_ms()` has reached *at_ms*, at once when it has already."""
        ...


class Entropy(Protocol):
    """Fresh randomness for seeds and made-up ids."""

    def token(self, bytes_count: int) -> bytes:
        """Return *bytes_count* unpredictable bytes."""
        ...


class SystemClock:
    """The machine's clock, or, once it was `set`, that of somebody else as far as this machine knows it."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def set(self, now_ms: int) -> None:
        """Tell the time as somebody does who says that it is *now_ms*; less than a second is no difference."""
        ahead_ms = now_ms - time.time_ns() // 1_000_000
        self._ahead_ms = ahead_ms if abs(ahead_ms) >= DIFFERENCE_MS else 0

    async def sleep_until(self, at_ms: int) -> None:
        while (left := at_ms - self.now_ms()) > 0:
            await asyncio.sleep(min(left / 1000, 60.0))  # a stepped clock is noticed within a minute


class SystemEntropy:
    """The operating system's randomness."""

    def token(self, bytes_count: int) -> bytes:
        return os.urandom(bytes_count)


class SeededEntropy:
    """Repeatable randomness for tests and simulation."""

    def __init__(self, seed: int) -> None:
        from random import Random  # which takes time to load, and no command has a use for it

        self._random = Random(seed)

    def token(self, bytes_count: int) -> bytes:
        return self._random.randbytes(bytes_count)


class VirtualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = 0

    def now_ms(self) -> int:
        return self._now_ms

    async def sleep_until(self, at_ms: int) -> None:
        if at_ms <= self._now_ms:
            return
        future = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (at_ms, self._count, future))
        await future

    def advance(self, by_ms: int) -> None:
        """Move time forward and wake everybody who is due."""
        self._now_ms += by_ms
        while self._sleepers and self._sleepers[0][0] <= self._now_ms:
            _, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                future.set_result(None)

    @property
    def next_due_ms(self) -> int | None:
        """The earliest time somebody sleeps for, None when nobody does."""
        waiting = [at for at, _, future in self._sleepers if not future.done()]
        return min(waiting, default=None)
