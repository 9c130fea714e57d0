"""Plain `def` steps run on daemon threads of Loom's own: bounded, and the end of the process waits for none of them."""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, Final

THREADS_MAX: Final = 32

_Job = tuple[contextvars.Context, Callable[[], Any], asyncio.Future[Any]]


class DaemonThreads:
    """A pool of up to *limit* daemon threads, started as they are needed."""

    def __init__(self, limit: int = THREADS_MAX) -> None:
        self._limit = limit
        self._begin()

    def _begin(self) -> None:
        self._process, self._jobs = os.getpid(), queue.SimpleQueue[_Job]()
        self._lock, self._threads, self._idle = threading.Lock(), 0, 0

    def submit(self, fn: Callable[[], Any], context: contextvars.Context) -> asyncio.Future[Any]:
        """Run *fn* in *context* on a thread; the future belongs to the running loop.

        Cancelling the future drops the result; the thread itself cannot be stopped.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._process != os.getpid():
            self._begin()  # a fork has none of its parent's threads
        with self._lock:
            start = self._idle == 0 and self._threads < self._limit
            self._threads += start
            self._idle -= not start and self._idle > 0
        self._jobs.put((context, fn, future))
        if start:
            threading.Thread(target=self._work, daemon=True, name="loom-step").start()
        return future

    def _work(self) -> None:
        while True:
            context, fn, future = self._jobs.get()
            try:
                result, error = context.run(fn), None
            except BaseException as raised:  # noqa: BLE001  # whatever the step raised belongs to who waits for it
                result, error = None, raised
            with self._lock:
                self._idle += 1
            _settle_soon(future, result, error)
            del context, fn, future, result, error


def settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    """Let *future* have what a function returned, or the *error* that it raised, unless it is done."""
    if future.done():
        return
    if issubclass(type(error), StopIteration):  # a future refuses it
        future.set_exception(RuntimeError("the step raised StopIteration"))
    elif error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def _settle_soon(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    try:
        future.get_loop().call_soon_threadsafe(settle, future, result, error)
    except RuntimeError:
        return  # the loop is closed: nobody waits any more
