"""Things that steps need and a process opens once: database pools, clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import MappingProxyType
from typing import Any

from loom.core.errors import LoomError
from loom.fingerprint import is_of_a_project
from loom.fingerprint.places import traced_frames
from loom.values.failing import told

ResourceFactory = Callable[[], AbstractAsyncContextManager[Any]]


class ResourceNotOpened(LoomError):
    """The factory of a resource raised, so nothing could be driven; what it raised is the cause.

    *where* is `file:line` in the author's code, empty where the error passed none of it.
    """

    code = "resource-not-opened"
    hint = "Mend what it needs, or its factory in define_config(resources=...), and try again: nothing was driven."

    def __init__(self, *, name: str, error: str, where: str = "") -> None:
        self.name, self.error, self.where = name, error, where
        super().__init__(f"the resource {name!r} cannot be opened: {error}" + (f" ({where})" if where else ""))


class Resources:
    """Opens every resource at the first drive, closes them in reverse order; one set an event loop."""

    def __init__(self, factories: Mapping[str, ResourceFactory]) -> None:
        self._factories = dict(factories)
        self._opened: tuple[asyncio.AbstractEventLoop, asyncio.Task[Mapping[str, Any]]] | None = None
        self._stack = AsyncExitStack()

    async def get(self) -> Mapping[str, Any]:
        """Return the opened resources by name, read-only.

        Raises:
            ResourceNotOpened: a factory raised; nothing stays open, and the next call tries again.
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
                opened[name] = await self._entered(name, factory)
        except BaseException:
            await self._stack.aclose()
            raise
        return MappingProxyType(opened)

    async def _entered(self, name: str, factory: ResourceFactory) -> Any:
        try:
            return await self._stack.enter_async_context(factory())
        except LoomError:
            raise
        except Exception as error:  # what a factory does is the author's
            raise ResourceNotOpened(name=name, error=told(error), where=_where(error)) from error

    async def close(self) -> None:
        """Close what was opened in this loop; without effect when nothing is open."""
        opened, self._opened = self._opened, None
        if opened is not None and opened[0] is asyncio.get_running_loop():
            await self._stack.aclose()


def _where(error: Exception) -> str:
    """Return the innermost place in the author's own files that *error* passed, and not in what he has installed."""
    own = [each for each in traced_frames(error) if is_of_a_project(str(each[0].f_globals.get("__name__")))]
    return f"{own[-1][0].f_code.co_filename}:{own[-1][1]}" if own else ""
