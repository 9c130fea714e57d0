"""Where in the author's code something stands: `file:line` for messages, frames for a debugger."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_NOT_THE_AUTHORS: Final = (str(Path(__file__).resolve().parent.parent), str(Path(asyncio.__file__).parent))

_LOOP_RUNS: Final = asyncio.Handle._run.__code__  # noqa: SLF001  # no public name for where a loop calls what runs in it


def location_of(task: asyncio.Task[Any] | None) -> str:
    """Return `file:line` of the innermost frame of the author's that *task* stands at, "" when there is none."""
    frames = standing_frames(task)
    return f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else ""


def standing_frames(task: asyncio.Task[Any] | None) -> list[types.FrameType]:
    """Return the author's frames that *task*, which does not run now, stands in, the outermost first."""
    return [frame for frame in _awaiting(task.get_coro() if task is not None else None) if is_authors(frame)]


def running_frames(frame: types.FrameType | None) -> list[types.FrameType]:
    """Return the author's frames that *frame* was called from, the outermost first, up to what Loom, or the loop, had called."""
    while frame is not None and not is_authors(frame):
        if frame.f_code is _LOOP_RUNS:  # what lies above has started the loop, and not what runs in it
            return []
        frame = frame.f_back
    frames: list[types.FrameType] = []
    while frame is not None and is_authors(frame):
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def traced_frames(error: BaseException) -> list[tuple[types.FrameType, int]]:
    """Return the author's frames that *error* passed, each with its line there, the outermost first."""
    found, traceback = [], error.__traceback__
    while traceback is not None:
        if is_authors(traceback.tb_frame):
            found.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return found


def place_of_frame(frame: types.FrameType | None) -> str:
    """Return `file:line` of the nearest frame that is not Loom's own, "" when there is none."""
    while frame is not None:
        if is_authors(frame):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _awaiting(coroutine: Any) -> Iterator[types.FrameType]:
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
        if frame is not None:
            yield frame
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)


def is_authors(frame: types.FrameType) -> bool:
    """Whether *frame* is neither Loom's nor that of the loop that runs it."""
    return not frame.f_code.co_filename.startswith(_NOT_THE_AUTHORS)
