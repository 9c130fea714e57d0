"""The two streams of a command: results, whose refusal is an error of the command, and messages, which may be lost.

A result that cannot be written was not delivered, and the status has to say so. A message that cannot be written changes
nothing about what it tells of: a run goes on when nobody looks any more. So every write of a command goes through one of
these, and no other place has to think of a closed pipe or a full disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from loom_cli.errors import CommandRefused
from loom_cli.exits import ExitCode
from loom_cli.version import abandon


class OutputClosed(Exception):
    """Nobody reads the results any more, as behind `| head`: no fault, and nothing to tell."""


class OutputRefused(CommandRefused):
    """The system does not take the results, as on a full disk."""

    code = "output"
    exit_code = ExitCode.FAILED
    hint = "Nothing in the store was lost."

    def __init__(self, *, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the output cannot be written: {problem}")

    @classmethod
    def of(cls, refused: OSError) -> OutputRefused:
        return cls(problem=refused.strerror or str(refused))


class Stream:
    """What both have in common: all but writing is that of the stream behind it."""

    def __init__(self, behind: TextIO) -> None:
        self._behind = behind
        self._is_lost = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def write(self, text: str) -> int:
        """Hand on *text*, as far as it is taken."""
        self._try(lambda: self._behind.write(text))
        return len(text)

    def flush(self) -> None:
        """Hand everything to whoever reads: a refusal shows here at the latest."""
        self._try(self._behind.flush)

    def _try(self, act: Callable[[], object]) -> None:
        if self._is_lost:
            return
        try:
            act()
        except OSError as refused:
            self._is_lost = True
            abandon(self._behind)
            self._lost(refused)

    def _lost(self, refused: OSError) -> None:
        """Told once, when nothing more can be written."""


class Messages(Stream):
    """Where messages go, and what authors print: what is not taken is dropped."""


class Results(Stream):
    """Where results go.

    Raises (once, from *write* or *flush*):
        OutputClosed: nobody reads any more.
        OutputRefused: the system does not take it.
    """

    def write_bytes(self, data: bytes) -> None:
        """Hand on *data*, which is no text, as it is."""
        self.flush()
        self._try(lambda: self._behind.buffer.write(data))

    @contextmanager
    def set_apart(self, others: Stream) -> Iterator[None]:
        """Keep whoever writes to the descriptor of these, meanwhile, out of them: it is that of *others*.

        So do processes that a step begins, and code that is not Python. Nothing changes on a terminal, where nobody tells the
        one from the other, nor where the two are no files.
        """
        shared, free = _descriptor(self), _descriptor(others)
        if shared is None or free is None or self.isatty():
            yield
            return
        self.flush()
        before, apart = self._behind, os.dup(shared)
        os.dup2(free, shared)
        self._behind = kept = open(apart, "w", encoding=before.encoding, errors=before.errors, closefd=False)  # noqa: SIM115
        try:
            yield
        finally:
            try:
                self.flush()
            finally:
                with suppress(OSError):
                    kept.close()
                os.dup2(apart, shared)
                self._behind = before
                os.close(apart)

    def _lost(self, refused: OSError) -> None:
        if isinstance(refused, BrokenPipeError):
            raise OutputClosed from refused
        raise OutputRefused.of(refused) from refused


def _descriptor(stream: Stream) -> int | None:
    """Return the descriptor of the file that is behind *stream*, None where there is none."""
    try:
        number: int = stream.fileno()
        os.fstat(number)
    except (AttributeError, OSError, ValueError):
        return None
    return number
