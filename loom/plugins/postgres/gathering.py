"""Asking for many things in one statement: drivers look into their lanes several times a second, most of them at once."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from loom.core.errors import LoomError

K = TypeVar("K")
V = TypeVar("V")


class Gathering(Generic[K, V]):
    """Asks together for what is wanted in one turn of the loop, and for what is wanted while it is being answered.

    *ask* returns what it found for each that it was asked for, in order. It belongs to one loop.
    """

    def __init__(self, ask: Callable[[Sequence[K]], Awaitable[Sequence[V]]]) -> None:
        self._ask = ask
        self._waiting: list[tuple[K, asyncio.Future[V]]] = []
        self._task: asyncio.Task[None] | None = None

    async def get(self, key: K) -> V:
        """Return what is found for *key* from now on; the errors of *ask* are raised to each who asked."""
        future: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, future))
        if self._task is None or self._task.done():  # one that was cancelled may never have begun
            self._task = asyncio.get_running_loop().create_task(self._go_on(), name="loom-postgres-gathering")
        return await future

    async def _go_on(self) -> None:
        while self._waiting:
            asked = [(key, future) for key, future in self._waiting if not future.done()]
            self._waiting = []
            await self._answer(asked)

    async def _answer(self, asked: Sequence[tuple[K, asyncio.Future[V]]]) -> None:
        try:
            found = await self._ask([key for key, _ in asked])
        except LoomError as error:
            for _, future in asked:
                if not future.done():
                    future.set_exception(_like(error))
        except BaseException:  # the loop ends, and whoever waits must not wait for what will not come
            for _, future in (*asked, *self._waiting):
                future.cancel()
            raise
        else:
            for (_, future), each in zip(asked, found, strict=True):
                if not future.done():  # whoever asked may have given up
                    future.set_result(each)


def _like(error: LoomError) -> LoomError:
    """Return the same error anew: each who raises it leaves a trace in it."""
    another = copy.copy(error)
    another.__cause__ = error.__cause__
    return another
