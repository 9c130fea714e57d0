"""Ending a command whose flow takes for ever: code that never awaits cannot be interrupted from inside the event loop.

For commands that write nothing. The system's timer rings in the main thread, whatever it does; where there is none
(Windows) nothing is watched.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from loom.core.errors import LoomError
from loom_cli.app_location import is_installed

PATIENCE_S: Final = 30.0
"""So long one simulation, or one replay, may take."""

_OURS: Final = str(Path(__file__).parent)


class StandsStill(LoomError):
    """A flow took too long for a command that only looks: it loops, or waits in a way that is not recorded."""

    code = "stands-still"
    hint = "A flow waits by `ctx` alone, and what takes long belongs into a step: see `loom check`."

    def __init__(self, *, what: str, seconds: float, path: str, line: int) -> None:
        self.what, self.seconds, self.path, self.line = what, seconds, path, line
        at = f": it is at {_short(path)}:{line}" if path else ""
        super().__init__(f"{what} has not ended after {seconds:g} s{at}")


class _Rung(KeyboardInterrupt):
    """The timer has rung. A KeyboardInterrupt is what an event loop lets through."""

    def __init__(self, path: str, line: int) -> None:
        self.path, self.line = path, line
        super().__init__()


@contextmanager
def watched(what: str, seconds: float = PATIENCE_S) -> Iterator[Callable[[], None]]:
    """Yield what is to be called at each sign of life; without one for *seconds* the block is ended.

    Raises:
        StandsStill: there was none; the author's line that was being carried out is told.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    def rung(_signal: int, frame: FrameType | None) -> None:
        raise _Rung(*_place(frame))

    def again() -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before, began = signal.signal(signal.SIGALRM, rung), time.monotonic()
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield again
    except _Rung as at:
        raise StandsStill(what=what, seconds=seconds, path=at.path, line=at.line) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 0.001) if left else 0)
        signal.signal(signal.SIGALRM, before)


def _place(frame: FrameType | None) -> tuple[str, int]:
    """Return the author's own line that is being carried out, the innermost first."""
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith("<") and not path.startswith(_OURS) and not is_installed(path):
            return path, frame.f_lineno
        frame = frame.f_back
    return "", 0


def _short(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
