"""Where in the author's code something stands: `file:line` for messages."""

from __future__ import annotations

import asyncio
import types
from pathlib import Path
from typing import Any, Final

_NOT_THE_AUTHORS: Final = (str(Path(__file__).resolve().parent.parent), str(Path(asyncio.__file__).parent))


def location_of(task: asyncio.Task[Any] | None) -> str:
    """Return `file:line` of the innermost frame of the author's that *task* stands at, "" when there is none."""
    found, coroutine = "", task.get_coro() if task is not None else None
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
        if frame is not None and not frame.f_code.co_filename.startswith(_NOT_THE_AUTHORS):
            found = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)
    return found


def place_of_frame(frame: types.FrameType | None) -> str:
    """Return `file:line` of the nearest frame that is not Loom's own, "" when there is none."""
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_NOT_THE_AUTHORS):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
