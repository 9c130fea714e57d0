"""What the command draws on: the only module that knows width, colour, encodings and whether somebody is looking.

Results go to *out*, all else to *err*. Text is made harmless here, at the last moment, so that no command can forget it:
a style is given beside the text, never inside it. Not a terminal: no colour, nothing shortened.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, Final, NamedTuple, TextIO, TypeAlias, cast

from loom_cli.safe_text import safe, safe_json, safe_lines
from loom_cli.streams import Messages, Results

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
STATUS_STYLES: Final = {
    "new": "dim",
    "running": "blue",
    "suspended": "yellow",
    "in_doubt": "magenta",
    "diverged": "red",
    "forked": "cyan",
    "paused": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "red",
    "continued": "dim",
}
"""One colour a status, the same in every command."""

_SIGNS: Final = {
    "done": ("\u2713", "+"),
    "failed": ("\u2717", "x"),
    "waiting": ("\u25cb", "o"),
    "running": ("\u25cf", "*"),
    "doubt": ("?", "?"),
    "none": ("\u00b7", "-"),
    "ellipsis": ("\u2026", "..."),
    "branch": ("\u251c\u2500 ", "|- "),
    "last": ("\u2514\u2500 ", "`- "),
    "through": ("\u2502  ", "|  "),
}
_WIDTH_DEFAULT: Final = 80
_SHRUNK_MIN: Final = 6


class Styled(NamedTuple):
    """Text and how it looks; *style* is words of `_CODES`, such as `bold red`."""

    text: str
    style: str = ""


Cell: TypeAlias = str | Styled | tuple[Styled, ...]
Pieces: TypeAlias = tuple[Styled, ...]


class Column(NamedTuple):
    """A column of a table. Only one that may *shrink* is ever cut short, and only on a terminal."""

    name: str
    shrink: bool = False
    right: bool = False


class Screen:
    """Two streams, and what may be drawn on them: *out* refuses by an error of the command, *err* never (streams.py).

    *width* is in cells; *colour* and *unicode* say what *out* takes, *interactive* whether a person is on both ends, so
    that a question may be asked.
    """

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        width: int = _WIDTH_DEFAULT,
        terminal: bool = False,
        colour: bool = False,
        colour_err: bool = False,
        unicode: bool = True,
        interactive: bool = False,
    ) -> None:
        self.results, self.messages = Results(out), Messages(err)
        self.out, self.err = cast("TextIO", self.results), cast("TextIO", self.messages)
        self.width, self.terminal = width, terminal
        self.colour, self.colour_err, self.unicode, self.interactive = colour, colour_err, unicode, interactive

    @classmethod
    def of_process(cls) -> Screen:
        """Return the screen of this process. An encoding that lacks a character shows its escape."""
        out, err = sys.stdout or io.StringIO(), sys.stderr or io.StringIO()  # None: the shell closed it, as in >&-
        for stream in (out, err):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        out_is_terminal, err_is_terminal = _is_terminal(out), _is_terminal(err)
        return cls(
            out,
            err,
            width=shutil.get_terminal_size((_WIDTH_DEFAULT, 24)).columns,
            terminal=out_is_terminal,
            colour=out_is_terminal and not plain,
            colour_err=err_is_terminal and not plain,
            unicode=_holds(out, "".join(sign for sign, _ in _SIGNS.values())),
            interactive=out_is_terminal and _is_terminal(sys.stdin),
        )

    def of_results(self) -> Screen:
        """Return a screen whose messages are results as well: for a command that shows what happens."""
        return Screen(
            self.out,
            self.out,
            width=self.width,
            terminal=self.terminal,
            colour=self.colour,
            colour_err=self.colour,
            unicode=self.unicode,
        )

    @contextmanager
    def prints_beside_the_result(self) -> Iterator[None]:
        """Send what authors print to where messages go: stdout holds the result alone, and no step fails by its words."""
        with redirect_stdout(self.err), redirect_stderr(self.err), self.results.set_apart(self.messages):
            yield

    # -- results -------------------------------------------------------------------------------------------------

    def line(self, *parts: Cell) -> None:
        """Print one line of a result."""
        self.out.write(self._painted(parts, colour=self.colour).rstrip() + "\n")

    def text(self, text: str, style: str = "", indent: str = "") -> None:
        """Print text of several lines, such as a traceback or indented JSON."""
        for line in safe_lines(text).split("\n"):
            self.out.write(f"{indent}{self._paint(line, style, colour=self.colour)}".rstrip() + "\n")

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]], indent: str = "") -> None:
        """Print *rows*, aligned, under the names of *columns* if these have any."""
        cells = [[_pieces(cell) for cell in row] for row in rows]
        if any(column.name for column in columns):
            cells.insert(0, [(Styled(column.name, "dim"),) for column in columns])
        widths = self._widths(columns, cells, len(indent))
        for row in cells:
            self.out.write((indent + self._row(columns, row, widths)).rstrip() + "\n")

    def json(self, value: Any, *, indent: int | None = 2) -> None:
        """Print *value* as JSON: for people indented, one line with *indent* None. It is plain JSON in any encoding."""
        self.out.write(self._json(value, self.out, indent) + "\n")

    # -- messages ------------------------------------------------------------------------------------------------

    def note(self, *parts: Cell) -> None:
        """Print one line of a message, to *err*."""
        self.err.write(self._painted(parts, colour=self.colour_err).rstrip() + "\n")

    def error(self, code: str, what: str, hint: str = "") -> None:
        """Print what happened and what to do."""
        first, *more = safe_lines(what).split("\n")
        self.note(Styled(f"error[{code}]:", "bold red"), " ", first)
        for line in more:
            self.note("  ", line.strip())
        if hint:
            self.note(Styled("try:", "bold"), " ", hint)

    def error_json(self, code: str, what: str, hint: str, fields: Mapping[str, Any]) -> None:
        """Print the same as one line of JSON, to *err*."""
        told = {"code": code, "message": what, "hint": hint, "fields": dict(fields)}
        self.err.write(self._json({"error": told}, self.err, None) + "\n")

    def flush(self) -> None:
        """Hand everything to whoever reads.

        Raises:
            OutputClosed, OutputRefused: the results are not taken; a closed pipe shows here at the latest.
        """
        self.out.flush()
        self.err.flush()

    def traceback(self, error: BaseException) -> None:
        """Print where *error* came from, to *err*."""
        import traceback

        self.err.write(safe_lines("".join(traceback.format_exception(error))))

    # -- pieces --------------------------------------------------------------------------------------------------

    def sign(self, name: str) -> str:
        """Return a sign that the encoding can hold: `done`, `failed`, `waiting`, `branch` ..."""
        sign, plain = _SIGNS[name]
        return sign if self.unicode else plain

    def brief(self, value: Any, width: int) -> str:
        """Return *value* as compact JSON; on a terminal it is cut to *width* cells."""
        text = safe(json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str))
        return self.cut(text, width)

    def cut(self, text: str, width: int) -> str:
        """Return *text* within *width* cells on a terminal, the whole of it elsewhere."""
        text = safe(text)
        if not self.terminal or cell_len(text) <= width:
            return text
        mark = self.sign("ellipsis")
        return _first_cells(text, max(width - len(mark), 0)) + mark

    def _painted(self, parts: Iterable[Cell], *, colour: bool) -> str:
        pieces = [piece for part in parts for piece in _pieces(part)]
        return "".join(self._paint(safe(p.text), p.style, colour=colour) for p in pieces)

    def _paint(self, text: str, style: str, *, colour: bool) -> str:
        if not (colour and style and text):
            return text
        return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"

    def _widths(self, columns: Sequence[Column], rows: Sequence[Sequence[Pieces]], indent: int) -> list[int]:
        widths = [max((_cells_of(row[at]) for row in rows), default=0) for at in range(len(columns))]
        if self.terminal:
            over = indent + sum(widths) + 2 * (len(widths) - 1) - self.width
            while over > 0 and (widest := _widest_to_shrink(columns, widths)) is not None:
                widths[widest] -= 1
                over -= 1
        return widths

    def _row(self, columns: Sequence[Column], row: Sequence[Pieces], widths: Sequence[int]) -> str:
        shown = []
        for column, pieces, width in zip(columns, row, widths, strict=True):
            fitting = self._fitting(pieces, width)
            gap = " " * (width - _cells_of(fitting))
            painted = self._painted(fitting, colour=self.colour)
            shown.append(gap + painted if column.right else painted + gap)
        return "  ".join(shown)

    def _fitting(self, pieces: Pieces, width: int) -> Pieces:
        """Return *pieces* within *width* cells: the one that goes over is cut, and those after it are left out."""
        if _cells_of(pieces) <= width:
            return pieces
        fitting: list[Styled] = []
        for piece in pieces:
            left = width - _cells_of(tuple(fitting))
            if left > 0:
                fitting.append(Styled(self.cut(piece.text, left), piece.style))
        return tuple(fitting)

    def _json(self, value: Any, stream: TextIO, indent: int | None) -> str:
        holds_all = (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")
        text = json.dumps(value, ensure_ascii=not holds_all, indent=indent, default=str)
        return safe_json(text)


def cell_len(text: str) -> int:
    """Return how many cells a terminal gives *text*."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len as measured

    return measured(text)


def _first_cells(text: str, width: int) -> str:
    taken = 0
    for at, character in enumerate(text):
        taken += cell_len(character)
        if taken > width:
            return text[:at]
    return text


def _widest_to_shrink(columns: Sequence[Column], widths: Sequence[int]) -> int | None:
    able = [at for at, column in enumerate(columns) if column.shrink and widths[at] > _SHRUNK_MIN]
    return max(able, key=lambda at: widths[at], default=None)


def _pieces(cell: Cell) -> Pieces:
    if isinstance(cell, str):
        return (Styled(cell),)
    return (cell,) if isinstance(cell, Styled) else cell


def _cells_of(pieces: Pieces) -> int:
    return sum(cell_len(safe(piece.text)) for piece in pieces)


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # no stream at all, or a closed one
        return False


def _holds(stream: Any, text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
