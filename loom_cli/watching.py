"""Showing a run while it is driven: a tree that is redrawn in place on a terminal, a line a change elsewhere.

A watcher is given durable events only, so what it shows is never taken back. On a terminal it draws through rich, imported
when the first event is shown; what authors print meanwhile goes above the tree, and never into the result on stdout.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from loom.core.envelope import SERVED
from loom_cli.progress import Line, Mark, Progress, update, view
from loom_cli.safe_text import safe
from loom_cli.screen import Screen, Styled, cell_len
from loom_cli.telling import told
from loom_cli.wording import Event, counted

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live

SIGNS: Final[Mapping[Mark, tuple[str, str, str]]] = {
    "done": ("\u2713", "+", "green"),
    "failed": ("\u2717", "x", "red"),
    "running": ("\u25cf", "*", "blue"),
    "resting": ("\u21bb", "~", "yellow"),
    "waiting": ("\u25cb", "o", "yellow"),
    "sleeping": ("\u25cb", "o", "yellow"),
    "in_doubt": ("?", "?", "magenta"),
    "cut": ("\u00b7", "-", "dim"),
    "scope": ("", "", ""),
    "folded": ("\u2026", ".", "dim"),
}
"""Each mark's sign, the same in ASCII, and its colour."""

_REFRESH_PER_SECOND: Final = 8
_ASKED: Final = frozenset({"STEP_STARTED", "GATE_OPENED", "MESSAGE_AWAITED", "TIMER_SET"})
_NAME_MAX: Final = 36
_BELOW_MIN: Final = 3


class Watcher(Protocol):
    """Who is told of a run while it is driven. *progress* is what it knows so far."""

    progress: Progress

    def event(self, event: Event) -> None: ...

    def say(self, text: str, style: str = "") -> None: ...

    def end(self) -> None: ...


class Silent:
    """Shows nothing of the progress; messages are still said."""

    def __init__(self, screen: Screen, progress: Progress) -> None:
        self.progress = progress
        self._screen = screen

    def event(self, event: Event) -> None:
        """Take in one more durable event."""
        self.progress = update(self.progress, event)

    def say(self, text: str, style: str = "") -> None:
        """Print one line of a message."""
        self._screen.note(Styled(text, style))
        self._screen.err.flush()

    def end(self) -> None:
        """Nothing more will come."""


class Lines(Silent):
    """One line a change: for logs, pipes and terminals that cannot move their cursor."""

    _served = 0

    def event(self, event: Event) -> None:
        """Tell it, unless it is served from another run: these are counted, and told together."""
        super().event(event)
        if SERVED in event.metadata:
            self._served += event.type not in _ASKED
            return
        text = told(self.progress, event)
        if text is not None:
            self.say(f"  {text}")

    def say(self, text: str, style: str = "") -> None:
        self._say_served()
        super().say(text, style)

    def end(self) -> None:
        self._say_served()

    def _say_served(self) -> None:
        count, self._served, forked = self._served, 0, self.progress.state.facts.forked
        if count and forked is not None:
            super().say(f"  {counted(count, 'call', 'calls')} served from {forked.payload.source['execution_id']}")


class Tree(Silent):
    """The whole tree, redrawn in place a few times a second from the first change on."""

    def __init__(self, screen: Screen, progress: Progress, now_ms: Callable[[], int]) -> None:
        super().__init__(screen, progress)
        self._now_ms = now_ms
        self._live: Live | None = None

    def event(self, event: Event) -> None:
        super().event(event)
        if self._live is None and told(self.progress, event) is not None:
            self._begin()

    def _begin(self) -> None:
        from rich.console import Console
        from rich.live import Live

        plain = not self._screen.colour_err
        console = Console(file=self._screen.err, force_terminal=True, no_color=plain, highlight=False, emoji=False)
        drawing = _Drawing(self, self._now_ms)
        self._live = Live(drawing, console=console, refresh_per_second=_REFRESH_PER_SECOND, vertical_overflow="crop")
        self._live.start()

    def say(self, text: str, style: str = "") -> None:
        if self._live is None:
            super().say(text, style)
            return
        from rich.text import Text

        self._live.console.print(Text(safe(text), style=style), soft_wrap=True)

    def end(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()


class _Drawing:
    """What rich draws: the tree as of now, as wide and as high as the terminal is now."""

    def __init__(self, tree: Tree, now_ms: Callable[[], int]) -> None:
        self._tree, self._now_ms = tree, now_ms

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        rows = max(console.size.height - _BELOW_MIN, 1)
        lines = view(self._tree.progress, self._now_ms(), rows=rows)
        for parts in painted(lines, width=options.max_width, unicode=options.encoding.startswith("utf")):
            text = Text(no_wrap=True, overflow="crop", end="\n")
            for part in parts:
                text.append(part.text, style=part.style)
            yield text


def painted(lines: list[Line], *, width: int, unicode: bool) -> Iterator[list[Styled]]:
    """Yield the parts of each line, within *width* cells: sign, name, time and note stand below each other."""
    lefts = [_left(line, unicode=unicode) for line in lines]
    used = [sum(cell_len(part.text) for part in left) for left in lefts]
    column = max((cells for cells in used if cells <= _NAME_MAX), default=0)
    times = max((len(line.time) for line in lines), default=0)
    for line, left, cells in zip(lines, lefts, used, strict=True):
        time = Styled("  " + line.time.rjust(times) if times else "", "dim")
        gap = Styled(" " * max(column - cells, 0))
        room = width - max(column, cells) - len(time.text) - 2
        note = _cut(safe(line.note), room, unicode=unicode)
        yield [*left, gap, time, Styled("  "), Styled(note, _NOTE_STYLES.get(line.mark, "dim"))]


def _left(line: Line, *, unicode: bool) -> list[Styled]:
    sign, plain, style = SIGNS[line.mark]
    shown = sign if unicode else plain
    name = Styled(safe(line.name), "dim" if line.mark in ("cut", "folded") else "")
    return [Styled(" " * (2 * line.depth + 2)), Styled(shown, style), Styled(" " if shown else ""), name]


_NOTE_STYLES: Final[Mapping[Mark, str]] = {"failed": "red", "in_doubt": "magenta", "resting": "yellow", "waiting": ""}


def _cut(text: str, width: int, *, unicode: bool) -> str:
    if cell_len(text) <= width:
        return text
    mark = "\u2026" if unicode else "..."
    while text and cell_len(text) + len(mark) > width:
        text = text[:-1]
    return text + mark if width > len(mark) else ""


def watcher_for(screen: Screen, progress: Progress, now_ms: Callable[[], int], *, quiet: bool) -> Watcher:
    """Return who shows what comes after *progress*: nobody when *quiet*, a tree on a terminal, else lines."""
    if quiet:
        return Silent(screen, progress)
    moves = is_terminal(screen.err) and os.environ.get("TERM") != "dumb"
    return Tree(screen, progress, now_ms) if moves else Lines(screen, progress)


def is_terminal(stream: Any) -> bool:
    """Whether a person may be looking at *stream*."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False
