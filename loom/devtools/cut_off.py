"""Cutting this process off from the world while a flow is replayed: no sockets, no names looked up, no processes begun.

Before the frontier a replay dispatches no effect, so nothing of Loom's reaches out. What does is the flow's own doing, in its
body, and would happen again at every replay. It is refused where it is asked for, by an audit hook, and noted.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from loom.core.errors import LoomError
from loom.fingerprint.places import place_of_frame

WORLD: Final = {
    "socket.connect": "a connection",
    "socket.bind": "a socket",
    "socket.sendto": "a socket",
    "socket.sendmsg": "a socket",
    "socket.getaddrinfo": "a name on the network",
    "socket.gethostbyname": "a name on the network",
    "socket.gethostbyaddr": "a name on the network",
    "subprocess.Popen": "a process",
    "os.system": "a process",
    "os.exec": "a process",
    "os.posix_spawn": "a process",
    "os.spawn": "a process",
}
"""The audit events of Python that reach out, and what they reach for."""


_STANDARD: Final = str(Path(contextlib.__file__).parent)


class Reach(NamedTuple):
    """Something that was refused: *what* was reached for, and *where* in the author's code, as `file:line`."""

    what: str
    where: str


class CutOff(LoomError):
    """The body of a flow reached for the world while it was replayed."""

    code = "cut-off"
    hint = "Do it in a step: ctx.run records what came of it, and a replay is served the record."

    def __init__(self, *, what: str, where: str) -> None:
        self.what, self.where = what, where
        super().__init__(f"the flow itself asked for {what} ({where})")


@contextmanager
def cut_off() -> Iterator[list[Reach]]:
    """Refuse the world to this process in the block; what is asked for raises `CutOff` there, and is noted in the list."""
    watch = _watch()
    before, watch.reached = watch.reached, []
    try:
        yield watch.reached
    finally:
        watch.reached = before


class _Watch:
    """The hook, which Python keeps for as long as the process lives; it does nothing outside a block."""

    def __init__(self) -> None:
        self.reached: list[Reach] | None = None

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.reached is None or event not in WORLD:
            return
        reach = Reach(WORLD[event], _authors_place(sys._getframe(1)))  # noqa: SLF001  # the documented way to a frame
        self.reached.append(reach)
        raise CutOff(what=reach.what, where=reach.where)


def _authors_place(frame: FrameType | None) -> str:
    """Return `file:line` of the nearest frame that is neither of a library nor Loom's; else of whoever asked."""
    here = frame
    while here is not None and _is_installed(here.f_code.co_filename):
        here = here.f_back
    return place_of_frame(here) or place_of_frame(frame)


def _is_installed(filename: str) -> bool:
    return filename.startswith(("<frozen", _STANDARD)) or "site-packages" in filename


@cache
def _watch() -> _Watch:
    watch = _Watch()
    sys.addaudithook(watch)
    return watch
