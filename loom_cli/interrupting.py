"""Ctrl-C and SIGTERM while a run is driven: softly at first, at once when asked again.

The first signal lets what is in flight end within the grace; the second cancels it; a third, or a step that will not be
cancelled, ends the process. Nothing is ever recorded because of a signal, so the run can be resumed from where its log
stands. Python's own handlers are replaced and not the loop's, so that a flow that blocks the loop can be stopped as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

from loom_cli.streams import OutputClosed, OutputRefused

T = TypeVar("T")

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
CANCEL_S: Final = 1.0
"""How long what was cancelled may take to end."""

_REPEAT_S: Final = 0.1


class Interruption:
    """The signals that came, and what they lead to.

    *softly* is called for the first one, *heard* with the number of each, *leaving* before the process is ended hard:
    it returns the exit status.
    """

    def __init__(self, *, softly: Callable[[], None], heard: Callable[[int], None], leaving: Callable[[], int]) -> None:
        self.count = 0
        self._softly, self._heard, self._leaving = softly, heard, leaving
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    async def watch(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what *work* returns; the signals of the process, while they are handled, are about it.

        Raises:
            asyncio.CancelledError: it was cancelled by the second signal.
        """
        self._loop = asyncio.get_running_loop()
        task = self._loop.create_task(work, name="loom-command")
        self._task = task
        try:
            return await task
        finally:
            if self.count:
                await self._clear()

    async def _clear(self) -> None:
        """Cancel what is left of the work, and do not wait for what will not be cancelled, as the loop's end would."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            _, stubborn = await asyncio.wait(left, timeout=CANCEL_S)
            if stubborn:
                self.leave()

    @contextlib.contextmanager
    def handling(self) -> Iterator[None]:
        """Handle the signals of the process: from before the loop is there until it is closed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._loop is None or self._loop.is_closed():
            raise KeyboardInterrupt
        self.count += 1
        if self.count > 2:
            self.leave()
        self._loop.call_soon_threadsafe(self._act, self.count)

    def _act(self, count: int) -> None:
        assert self._loop is not None
        assert self._task is not None
        # What is cut short has nothing to complain about, neither now nor when it is collected.
        self._loop.set_exception_handler(lambda loop, context: None)
        sys.unraisablehook = lambda unraisable: None
        self._heard(count)
        if count == 1:
            self._ask_softly()
            return
        self._task.cancel()
        self._loop.call_later(CANCEL_S, self.leave)  # unless the loop has ended by then

    def _ask_softly(self) -> None:
        """Ask again and again: the drive may only be about to begin."""
        assert self._loop is not None
        assert self._task is not None
        if not self._task.done():
            self._softly()
            self._loop.call_later(_REPEAT_S, self._ask_softly)

    def leave(self) -> None:
        """End the process at once, and the processes it began; what is committed is on disk."""
        status = self._leaving()
        end_children()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, OutputClosed, OutputRefused):
                stream.flush()
        os._exit(status)


def threads_hold_the_process() -> bool:
    """Whether the end of the interpreter would wait for a thread that somebody's step began."""
    return any(t is not threading.main_thread() and not t.daemon for t in threading.enumerate())


def end_children() -> None:
    """Ask every process that descends from this one to end: a step that was cut short leaves none behind."""
    for process in descendants(os.getpid(), parents()):
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGTERM)


def descendants(root: int, parents: dict[int, int]) -> list[int]:
    """Return the processes below *root*, by the parent of each."""
    found: list[int] = []
    level = {root}
    while level:
        level = {process for process, parent in parents.items() if parent in level and process not in found}
        found += sorted(level)
    return found


def parents() -> dict[int, int]:
    """Return the parent of each process of this machine, empty where that cannot be told."""
    table = Path("/proc")
    if (table / "self" / "stat").exists():
        return dict(_from_proc(table))
    try:
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False)  # noqa: S607
    except OSError:
        return {}
    pairs = (line.split() for line in listed.stdout.splitlines())
    return {int(process): int(parent) for process, parent in pairs}


def _from_proc(table: Path) -> Iterator[tuple[int, int]]:
    for entry in table.iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # the name of the program stands in brackets and may hold anything
                yield int(entry.name), int((entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
