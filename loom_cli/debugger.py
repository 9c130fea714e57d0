"""The debugger of Python, handed a frame of a flow that is replayed: it goes on from there, through the author's code alone."""

from __future__ import annotations

import contextlib
import pdb
import sys
from bdb import BdbQuit
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, TextIO

from loom.devtools.cut_off import cut_off
from loom.fingerprint.places import is_authors
from loom.kernel.calls import DriveEnding

_STANDARD: Final = str(Path(contextlib.__file__).parent)
_NO_RETURN: Final = object()


class FlowDebugger(pdb.Pdb):
    """pdb in the frames of a replayed flow. What is typed is cut off from the world like the flow; Ctrl-C ends the command.

    *on_quit* is called when who debugs has seen enough, *on_nextcall* when the next call is to stop it, whichever that is.
    It talks to the terminal itself, or, where that is no terminal, to *stdin* and *stdout*.
    """

    def __init__(
        self,
        *,
        stdin: TextIO | None,
        stdout: TextIO | None,
        on_quit: Callable[[], None],
        on_nextcall: Callable[[], None],
    ) -> None:
        self._is_terminal = stdin is None
        with self._here():
            super().__init__(stdin=stdin, stdout=stdout, nosigint=True)
        self._on_quit, self._on_nextcall = on_quit, on_nextcall
        self._files: set[str] = set()
        self.prompt = "(loom-pdb) "

    # -- being handed a place -------------------------------------------------------------------------------------

    def at(self, frames: Sequence[FrameType], *, gives: Any = _NO_RETURN) -> None:
        """Talk at the last of *frames*, which runs just now, and go on from there as was said; *gives* is what `retval` shows."""
        here = frames[-1]
        if gives is not _NO_RETURN:
            here.f_locals["__return__"] = gives
        self.reset()
        self.enterframe, self.botframe = here, frames[0]  # what lies above is the loop's
        for frame in frames:
            self._files.add(frame.f_code.co_filename)
            frame.f_trace = self.trace_dispatch
        self.interaction(here, None)
        with suppress(KeyError, TypeError, ValueError):  # later versions take nothing out again
            del here.f_locals["__return__"]
        if self.quitting:
            self._left()
        elif self.stoplineno != -1 or self.breaks:
            sys.settrace(self.trace_dispatch)

    def look(self, frames: Sequence[tuple[FrameType, int]]) -> None:
        """Talk at the last of *frames*, each with its line: they do not run, and are there to be looked at."""
        standing: TracebackType | None = None
        for frame, line in reversed(frames):
            standing = TracebackType(standing, frame, max(frame.f_lasti, 0), line)
        self.reset()
        self.interaction(None, standing)
        if self.quitting:
            self._left()

    @contextmanager
    def stepping(self) -> Iterator[None]:
        """Have Python's tracing as it was when the block is left."""
        before = sys.gettrace()
        try:
            yield
        finally:
            sys.settrace(before)

    def interaction(self, frame: FrameType | None, traceback: Any) -> None:  # its parameters differ by version
        with cut_off(), self._here():  # a list of its own: what is tried here is not held against the flow
            super().interaction(frame, traceback)

    def _here(self) -> AbstractContextManager[Any]:
        """Give the terminal to the block, where there is one: lines are edited there and nowhere else."""
        return redirect_stdout(sys.__stdout__) if self._is_terminal else nullcontext()

    def stop_here(self, frame: FrameType) -> bool:
        return self._is_to_be_seen(frame) and super().stop_here(frame)

    def _is_to_be_seen(self, frame: FrameType) -> bool:
        """Whether a step may end in *frame*: what is installed, and what Loom does between two lines, is passed over."""
        file = frame.f_code.co_filename
        is_installed = file.startswith(("<", _STANDARD)) or "site-packages" in file
        return file in self._files or (is_authors(frame) and not is_installed)

    def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
        going_on = super().trace_dispatch
        try:
            return going_on(frame, event, arg)
        except BdbQuit:
            self._left()
            raise DriveEnding from None  # and no error of the flow's, which it might catch

    def _left(self) -> None:
        sys.settrace(None)
        self._on_quit()

    # -- a command of our own -------------------------------------------------------------------------------------

    def do_nextcall(self, arg: str) -> Any:
        """Nc | nextcall.

        Continue until the flow asks its next call, whichever that is.
        """
        self._on_nextcall()
        return self.do_continue("")

    do_nc = do_nextcall
