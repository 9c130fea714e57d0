"""Hearing of logs that grow: a connection that listens, and wakes who waits. A hint only: the feeds poll as well.

A notice carries ids alone, one a line; an empty one means any log. It is lost while nobody listens.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import asyncpg

from loom.core.ids import ExecutionId
from loom.plugins.postgres.failures import DRIVER_ERRORS
from loom.plugins.postgres.settings import PostgresSettings
from loom.spi.feed import Wakes

CHANNEL: Final = "loom_events"
LOCK_KEY: Final = 0x48456172  # "HEar"
"""Who listens holds this lock, so that who appends knows whether a notice would be heard (`loom.is_heard`)."""
_AGAIN_S: Final = 1.0


class Ear:
    """Listens for as long as it is not stopped, on a connection of its own; one that is lost is opened again."""

    def __init__(self, settings: PostgresSettings, wakes: Wakes) -> None:
        self._settings, self._wakes = settings, wakes
        self._task: asyncio.Task[None] | None = None
        self.listens = asyncio.Event()

    def start(self) -> None:
        """Begin, unless it has begun."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._listen(), name="loom-postgres-ear")

    async def stop(self) -> None:
        """End, and close the connection."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _listen(self) -> None:
        while True:
            with contextlib.suppress(*DRIVER_ERRORS):
                await self._listen_once()
            self.listens.clear()
            await asyncio.sleep(_AGAIN_S)

    async def _listen_once(self) -> None:
        raw: asyncpg.Connection[Any] = await asyncpg.connect(**self._settings.driver_options())
        lost = asyncio.Event()
        try:
            raw.add_termination_listener(lambda *_: lost.set())
            await raw.add_listener(CHANNEL, self._heard)
            await raw.execute("SELECT pg_advisory_lock_shared($1)", LOCK_KEY)
            self.listens.set()
            await lost.wait()
        finally:
            raw.terminate()

    def _heard(self, connection: object, pid: int, channel: str, payload: object) -> None:
        if payload:
            self._wakes.wake(ExecutionId(name) for name in str(payload).split("\n"))
        else:
            self._wakes.wake_all()
