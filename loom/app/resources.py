"""Things that steps need and a process opens once: database pools, clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import MappingProxyType
from typing import Any

ResourceFactory = Callable[[], AbstractAsyncContextManager[Any]]


class Resources:
    """Opens every resource at the first drive, closes them in reverse order; one set an event loop."""

    def __init__(self, factories: Mapping[str, ResourceFactory]) -> None:
        self._factories = dict(factories)
        self._opened: tuple[asyncio.AbstractEventLoop, asyncio.Task[Mapping[str, Any]]] | None = None
        self._stack = AsyncExitStack()

    async def get(self) -> Mapping[str, Any]:
        """Return the opened resources by name, read-only.

        Raises:
            Exception: what a factory raised; nothing stays open, and the next call tries again.
        """
        if not self._factories:
            return MappingProxyType({})
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            self._stack = AsyncExitStack()
            self._opened = (loop, loop.create_task(self._open(), name="loom-resources"))
        try:
            return await asyncio.shield(self._opened[1])
        except Exception:
            self._opened = None
            raise

    async def _open(self) -> Mapping[str, Any]:
        opened: dict[str, Any] = {}
        try:
            for name, factory in self._factories.items():
                opened[name] = await self._stack.enter_async_context(factory())
        except BaseException:
            await self._stack.aclose()
            raise
        return MappingProxyType(opened)

    async def close(self) -> None:
        """Close what was opened in this loop; without effect when nothing is open."""
        opened, self._opened = self._opened, None
        if opened is not None and opened[0] is asyncio.get_running_loop():
            await self._stack.aclose()
