"""Waiting for what most often nobody waits for."""

from __future__ import annotations

import asyncio


class Latch:
    """As `asyncio.Event`, but made of nothing until somebody waits: each drive has some, and hardly ever anybody does."""

    __slots__ = ("_waited", "is_set")

    def __init__(self, *, is_set: bool = False) -> None:
        self.is_set = is_set
        self._waited: asyncio.Event | None = None

    def set(self) -> None:
        """Let everybody go on who waits, and who comes to wait."""
        self.is_set = True
        if self._waited is not None:
            self._waited.set()

    def clear(self) -> None:
        """Have wait who comes from now on."""
        self.is_set = False
        if self._waited is not None:
            self._waited.clear()

    async def wait(self) -> None:
        """Return once it is set."""
        if not self.is_set:
            if self._waited is None:
                self._waited = asyncio.Event()
            await self._waited.wait()
