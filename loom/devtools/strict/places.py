"""Whose code a frame is: Loom's, the author's, a library's, or that of what is always let be."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, Literal, TypeAlias

import loom
from loom.spi import guarding

Whose: TypeAlias = Literal["loom", "author", "library", "let be"]

_LOOM: Final = str(Path(loom.__file__).parent)
_STANDARD: Final = sysconfig.get_path("stdlib")
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_LET_BE: Final = frozenset(
    {
        *("importlib", "linecache", "logging", "pkgutil", "pydantic", "tokenize", "traceback", "warnings", "zoneinfo"),
        *("_strptime", "inspect"),
    }
)
"""Libraries that read the world for themselves, and give the flow nothing of it: imports, messages, tables of zones."""


_FUTURES: Final = frozenset({"FutureIter", "Future", "Task"})
_ORDERED: Final = frozenset({"locks", "queues", "taskgroups"})
"""What of asyncio the branches of a flow may wait for each other with: who comes first is settled by the log."""


@cache
def whose(filename: str) -> Whose:
    """Return whose code stands in *filename*."""
    if filename.startswith(_LOOM):
        return "loom"
    if filename.startswith("<frozen "):
        return "let be" if "importlib" in filename else "library"
    if filename == "<string>":  # made by dataclasses, namedtuple and their like
        return "library"
    path = Path(filename)
    installed = [at for at, part in enumerate(path.parts) if part in _INSTALLED]
    if not installed and not filename.startswith(_STANDARD):
        return "author"
    inner = path.parts[installed[-1] + 1 :] if installed else path.relative_to(_STANDARD).parts
    return "let be" if inner and inner[0].removesuffix(".py") in _LET_BE else "library"


def authors_frames(frame: FrameType | None) -> list[FrameType]:
    """Return the author's frames from *frame* outwards to the body of the flow; none where they do not do it themselves.

    What Loom does when a syscall is called, or a library for itself, is none of their doing.
    """
    found: list[FrameType] = []
    for each in _outwards(frame):
        match whose(each.f_code.co_filename):
            case "let be":
                return []
            case "loom":
                return found if each.f_code is _BODY else []
            case "author":
                found.append(each)
            case _:
                pass
    return []


def waits_for_no_syscall(coroutine: Any) -> tuple[str, int] | None:
    """Return where the author's code awaits a future that is not Loom's, None where it does not, or that cannot be told."""
    stack: list[FrameType] = []
    inner = coroutine
    while (frame := _first(inner, "cr_frame", "ag_frame", "gi_frame")) is not None:
        stack.append(frame)
        inner = _first(inner, "cr_await", "ag_await", "gi_yieldfrom")
    if inner is not None and type(inner).__name__ not in _FUTURES:
        return None
    for frame in reversed(stack):
        filename = frame.f_code.co_filename
        match whose(filename):
            case "author":
                return filename, frame.f_lineno
            case "loom":
                return None
            case _ if filename.startswith(_STANDARD) and Path(filename).stem in _ORDERED:
                return None
            case _:
                pass
    return None


def _first(holder: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(holder, name, None)) is not None), None)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


_BODY: Final[CodeType] = guarding.body_running.__code__
"""What all that a body does is called by."""
