"""What draws: lists of lines of which only those in sight are made, and single lines. The text is made harmless here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import Final, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from loom_cli.safe_text import safe
from loom_cli.screen import Pieces, Styled

Line = Iterable[Styled]

_STYLES: Final = {
    "": Style(),
    "quiet": Style(color="#8b98a9"),
    "name": Style(color="#e6edf3"),
    "strong": Style(bold=True),
    "bold": Style(bold=True),
    "dim": Style(color="#8b98a9"),
    "title": Style(color="#0d1117", bgcolor="#79c0ff", bold=True),
    "good": Style(color="#3fc5a0"),
    "bad": Style(color="#ff8a65"),
    "waits": Style(color="#e8c35a"),
    "running": Style(color="#6cb6ff"),
    "doubt": Style(color="#dc9ef2"),
    "accent": Style(color="#79c0ff"),
    "took": Style(color="#b9cbe0"),
    "number": Style(color="#a5d6ff"),
    "mark": Style(color="#f2cc60", bold=True),
    "cursor": Style(color="#f2cc60"),
    "key": Style(color="#79c0ff", bold=True),
    "new": Style(color="#3fc5a0"),
    "changed": Style(color="#f2cc60"),
    "gone": Style(color="#ff8a65"),
    "lane0": Style(color="#6cb6ff"),
    "lane1": Style(color="#e8c35a"),
    "lane2": Style(color="#3fc5a0"),
    "lane3": Style(color="#dc9ef2"),
    "lane4": Style(color="#ff8a65"),
    "lane5": Style(color="#b9cbe0"),
    "chosen": Style(bgcolor="#26456b", bold=True),
    "chosen_beside": Style(bgcolor="#1d2b3f"),
    "bar": Style(color="#35507a"),
    "bar_back": Style(color="#21262d"),
    "tab": Style(color="#8b98a9"),
    "tab_chosen": Style(color="#0d1117", bgcolor="#79c0ff", bold=True),
}
"""The roles of text. Blue, orange, yellow and bluish green are told apart by most eyes; what they say is said by a sign or a word too."""


_KEPT: Final = 1024
"""So many lines are kept as cells. A list that has moved by a line has nearly all that it had, and cells take long to make."""


@cache
def style_of(roles: str) -> Style:
    """Return how text of these roles, words of `_STYLES`, looks."""
    return Style.combine([Style.null(), *(_STYLES[role] for role in roles.split())])


@lru_cache(maxsize=_KEPT)
def strip_of(line: Pieces, width: int, base: Style) -> Strip:
    """Return *line* as cells: harmless, and cut to *width*."""
    segments = [Segment(safe(piece.text), base + style_of(piece.style)) for piece in line if piece.text]
    strip = Strip(segments)
    if strip.cell_length <= width:
        return strip.extend_cell_length(width, base)
    return Strip.join([strip.crop(0, width - 1), Strip([Segment("\u2026", base + style_of("quiet"))], 1)])


class _Ends(NamedTuple):
    """What stands before a line of a list, and what the scroll bar shows behind it."""

    lead: str
    bar: str
    bar_style: Style


@lru_cache(maxsize=_KEPT)
def _framed_strip(line: Pieces, width: int, base: Style, ends: _Ends) -> Strip:
    """Return a line of a list between its *ends*."""
    begin = Strip([Segment(ends.lead, base + style_of("cursor"))], len(ends.lead))
    return Strip.join([begin, strip_of(line, width, base), Strip([Segment(ends.bar, ends.bar_style)], 1)])


class Row(Widget):
    """One line."""

    DEFAULT_CSS = "Row { height: 1; }"

    class Picked(Message):
        """A cell of the line was clicked."""

        def __init__(self, row: Row, x: int) -> None:
            self.row, self.x = row, x
            super().__init__()

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._line: Pieces = ()

    @property
    def text(self) -> str:
        """What the line says."""
        return "".join(safe(piece.text) for piece in self._line)

    def say(self, line: Line) -> None:
        """Draw *line*, where it is another."""
        told = tuple(line)
        if told != self._line:
            self._line = told
            self.refresh()

    def render_line(self, y: int) -> Strip:
        return strip_of(self._line, self.size.width, self.rich_style)

    def on_click(self, event: events.Click) -> None:
        self.post_message(self.Picked(self, event.x))


class _Look(NamedTuple):
    """What is the same for all lines of a list, and takes long to find out: how they look, how wide they are, how many there are."""

    base: Style
    width: int
    page: int


class Listing(Widget, can_focus=True):
    """Lines of which one is under the cursor. A line is made when it is in sight, and drawn again when it may be another."""

    # It scrolls by itself: a change of the size of a Textual scroll view lays out the whole screen anew, at every step.

    class Picked(Message):
        """A line was clicked."""

        def __init__(self, listing: Listing, at: int) -> None:
            self.listing, self.at = listing, at
            super().__init__()

    def __init__(self, *, id: str, has_cursor: bool = True) -> None:
        super().__init__(id=id)
        self.can_focus = has_cursor
        self.count, self.cursor, self.top = 0, -1, 0
        self._lead = 1 if has_cursor else 0  # the sign of the cursor stands in a column of its own
        self._is_dragging = False
        self._look = _Look(Style.null(), 1, 1)
        self._frame: object = None
        self._drawn: dict[int, Pieces] = {}
        """The lines as they were drawn last, by their row."""
        self._line_of: Callable[[int, int], Line] = lambda at, width: ()

    @property
    def page(self) -> int:
        """How many lines are in sight."""
        return max(self.size.height, 1)

    @property
    def width(self) -> int:
        """How many cells a line has."""
        return max(self.size.width - 1 - self._lead, 1)

    def line(self, at: int) -> Line:
        """Return line *at*."""
        return self._line_of(at, self.width)

    def text_of(self, at: int) -> str:
        """Return what line *at* says."""
        return "".join(safe(piece.text) for piece in self.line(at))

    def show(self, count: int, line_of: Callable[[int, int], Line], cursor: int) -> None:
        """Draw *count* lines, which *line_of* makes for a width, with the *cursor* in sight; -1: there is none."""
        before = self.cursor
        self._line_of, self.count = line_of, count
        self.cursor = min(cursor, count - 1)
        self._bring_into_sight()
        if self._frame != self._framed():
            self.refresh()
            return
        rows = {y for y, line in self._drawn.items() if self._pieces(y) != line}
        if self.cursor != before:
            rows |= {before - self.top, self.cursor - self.top}
        for y in sorted(rows & self._drawn.keys()):
            self._drawn[y] = self._pieces(y)
            self.refresh(Region(0, y, self._look.width + self._lead + 1, 1))

    def _framed(self) -> object:
        """Return all that every line depends on, and not what it says."""
        return self.top, self.count, self.size

    def _pieces(self, y: int) -> Pieces:
        """Return what row *y* says."""
        at = self.top + y
        return tuple(self._line_of(at, self._look.width)) if at < self.count else ()

    def grow(self, count: int) -> bool:
        """Take that there are more lines; return whether none of them is in sight."""
        is_full = self.count >= self.top + self.page
        self.count = max(count, self.count)
        return is_full

    def scroll_by(self, count: int) -> None:
        """Have other lines in sight."""
        top = max(min(self.top + count, self.count - self.page), 0)
        if top != self.top:
            self.top = top
            self.refresh()

    def _bring_into_sight(self) -> None:
        at = max(self.cursor, 0)
        self.top = max(min(self.top, self.count - self.page, at), at - self.page + 1, 0)

    def on_resize(self) -> None:
        self._bring_into_sight()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        # Without borders and padding there is nothing to add to a line, and without that most lines are drawn as they were.
        if self._frame != self._framed():
            self._frame = self._framed()
            self._drawn.clear()
        self._look = _Look(self.rich_style, self.width, self.page)
        strips = [self.render_line(y) for y in crop.line_range]
        background = self.background_colors[1]
        for each in self.get_line_filters():
            strips = [strip.apply_filter(each, background) for strip in strips]
        first, last = crop.column_span
        return [strip.crop(first, last) for strip in strips]

    def render_line(self, y: int) -> Strip:
        base, width, _ = self._look
        if y not in self._drawn:
            self._drawn[y] = self._pieces(y)
        at = self.top + y
        is_chosen = at == self.cursor and at < self.count
        if is_chosen:
            base += style_of("chosen" if self.has_focus else "chosen_beside")
        lead = ("\u258c" if is_chosen else " ") * self._lead
        return _framed_strip(self._drawn[y], width, base, _Ends(lead, *self._bar(y)))

    def _bar(self, y: int) -> tuple[str, Style]:
        """Return what the scroll bar shows in row *y*."""
        base, _, page = self._look
        if self.count <= page:
            return " ", base
        size = max(page * page // self.count, 1)
        begin = (page - size) * self.top // max(self.count - page, 1)
        return ("\u2588", style_of("bar")) if begin <= y < begin + size else ("\u2502", style_of("bar_back"))

    # -- the mouse -----------------------------------------------------------------------------------------------

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_by(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_by(-3)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.x >= self.size.width - 1 and self.count > self.page:
            self._is_dragging = True
            self.capture_mouse()
            self._drag(event.y)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._is_dragging:
            self._drag(event.y)

    def on_mouse_up(self) -> None:
        if self._is_dragging:
            self._is_dragging = False
            self.release_mouse()

    def _drag(self, y: int) -> None:
        self.scroll_by(y * (self.count - self.page) // max(self.page - 1, 1) - self.top)

    def on_click(self, event: events.Click) -> None:
        at = self.top + event.y
        if event.x < self.size.width - 1 and at < self.count:
            self.post_message(self.Picked(self, at))
