"""What is asked of a person on the way: one line of text, yes or no, and the help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import ModalScreen
from textual.widgets import Input

from loom_cli.screen import Styled, cell_len
from loom_cli.tui.keys import KEYS
from loom_cli.tui.widgets import Line, Listing, Row

if TYPE_CHECKING:
    from loom_cli.tui.app import Debugger

_KEYS_WIDTH = 12


class Asking(Protocol):
    """A screen that is given what was typed before it was there."""

    is_ready: bool

    async def take(self, key: events.Key) -> None:
        """Take a key that was typed before this was there."""
        ...


class Prompt(ModalScreen[str | None]):
    """Asks for one line below the panes; Escape gives None. *about* are lines above it, *refuse* says why a text is none."""

    CSS = """
    Prompt { align: center bottom; background: #0d1117 40%; }
    Prompt Container { height: auto; max-height: 60%; background: #161b22; border-top: heavy #79c0ff; }
    Prompt Listing { height: auto; max-height: 16; }
    Prompt Input { height: 1; border: none; padding: 0 1; background: #0d1117; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    def __init__(
        self,
        title: str,
        *,
        given: str = "",
        about: Sequence[Line] = (),
        refuse: Callable[[str], str] = lambda text: "",
        secret: bool = False,
    ) -> None:
        super().__init__()
        self._title, self._given, self._refuse, self._secret = title, given, refuse, secret
        self._about = [tuple(line) for line in about]
        self.is_ready, self._is_left = False, False

    def compose(self) -> ComposeResult:
        with Container():
            if self._about:
                yield Listing(id="about", has_cursor=False)
            yield Row(id="asked")
            yield Input(self._given, id="given", compact=True, password=self._secret)

    async def on_mount(self) -> None:
        self._say("")
        if self._about:
            about = self.query_one("#about", Listing)
            about.styles.height = min(len(self._about), 16)
            about.show(len(self._about), lambda at, width: self._about[at], -1)
        self.query_one(Input).focus()
        self.is_ready = True
        await cast("Debugger", self.app).take_typed()

    def _say(self, problem: str) -> None:
        told = [Styled(f" {self._title}", "strong"), Styled("  Enter takes it, Escape leaves", "quiet")]
        self.query_one("#asked", Row).say([*told, Styled(f"  {problem}" if problem else "", "bad strong")])

    async def take(self, key: events.Key) -> None:
        """Take a key that was typed before this line was there."""
        given = self.query_one(Input)
        if key.key == "enter":
            self._submit(given.value)
        elif key.key == "escape":
            self.action_leave()
        elif key.key == "backspace":
            given.action_delete_left()
        elif key.is_printable and key.character:
            given.insert_text_at_cursor(key.character)

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        submitted.stop()
        self._submit(submitted.value)

    def _submit(self, text: str) -> None:
        problem = self._refuse(text)
        if problem:
            self._say(problem)
        else:
            self._leave(text)

    def action_leave(self) -> None:
        self._leave(None)

    def _leave(self, text: str | None) -> None:
        if not self._is_left:  # Enter may be typed twice before it is gone
            self._is_left, self.is_ready = True, False
            _ = self.dismiss(text)


class Confirm(ModalScreen[bool]):
    """Shows what is about to be done, and asks whether to do it: y does, anything else does not."""

    CSS = """
    Confirm { align: center middle; background: #0d1117 40%; }
    Confirm Container { width: 76; max-width: 96%; height: auto; max-height: 90%; background: #161b22; border: heavy #f2cc60; padding: 0 1; }
    Confirm Listing { max-height: 18; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "agree", show=False),
        Binding("n,escape,q", "leave", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
    ]

    def __init__(self, title: str, about: Sequence[Line]) -> None:
        super().__init__()
        self._title, self._about = title, [tuple(line) for line in about]
        self.is_ready = False

    def compose(self) -> ComposeResult:
        with Container():
            yield Row(id="title")
            yield Listing(id="about", has_cursor=False)
            yield Row(id="asked")

    async def on_mount(self) -> None:
        self.query_one("#title", Row).say([Styled(self._title, "mark")])
        about = self.query_one("#about", Listing)
        about.styles.height = min(len(self._about), 18)
        about.show(len(self._about), lambda at, width: self._about[at], -1)
        keys = [Styled("y", "key"), Styled(" do it   ", "quiet"), Styled("n", "key"), Styled(" leave it", "quiet")]
        self.query_one("#asked", Row).say(keys)
        self.is_ready = True
        await cast("Debugger", self.app).take_typed()

    async def take(self, key: events.Key) -> None:
        """Leave out a key that was typed before this was seen: nobody agrees to what they have not read."""

    def action_agree(self) -> None:
        _ = self.dismiss(result=True)

    def action_leave(self) -> None:
        _ = self.dismiss(result=False)

    def action_scroll(self, count: int) -> None:
        self.query_one("#about", Listing).scroll_by(count)


class Help(ModalScreen[None]):
    """Every key and what it does."""

    CSS = """
    Help { align: center middle; background: #0d1117 40%; }
    Help Container { width: 84; max-width: 96%; height: 90%; background: #161b22; border: heavy #79c0ff; padding: 0 1; }
    Help Listing { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,enter", "leave", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("pagedown,space", "scroll(15)", show=False),
        Binding("pageup,b", "scroll(-15)", show=False),
    ]
    is_ready = False

    def compose(self) -> ComposeResult:
        with Container():
            yield Listing(id="keys", has_cursor=False)
            yield Row(id="asked")

    async def on_mount(self) -> None:
        lines = [tuple(line) for line in help_lines()]
        keys = self.query_one("#keys", Listing)
        keys.show(len(lines), lambda at, width: lines[at], -1)
        self.query_one("#asked", Row).say(
            [
                Styled("\u2191 \u2193", "key"),
                Styled(" scroll   ", "quiet"),
                Styled("Esc", "key"),
                Styled(" leave the help", "quiet"),
            ]
        )
        self.is_ready = True
        await cast("Debugger", self.app).take_typed()

    async def take(self, key: events.Key) -> None:
        """Leave the help by a key that leaves it, if it was typed before the help was there."""
        if key.key in ("escape", "q", "question_mark", "f1", "enter"):
            self.action_leave()

    def action_leave(self) -> None:
        _ = self.dismiss(None)

    def action_scroll(self, count: int) -> None:
        self.query_one("#keys", Listing).scroll_by(count)


def help_lines() -> Iterator[Line]:
    """Yield the help: the keys by what they are for, then the signs."""
    for title, group in KEYS.items():
        yield [Styled(title, "strong")]
        for bound in group:
            gap = " " * max(_KEYS_WIDTH - cell_len(bound.shown), 1)
            yield [Styled(f"  {bound.shown}", "key"), Styled(gap), Styled(bound.words)]
        yield []
    yield [Styled("Signs", "strong")]
    for sign, style, words in _SIGNS:
        yield [Styled(f"  {sign}", style), Styled(" " * (_KEYS_WIDTH - 1)), Styled(words)]


_SIGNS = (
    ("\u258c", "cursor", "the line that the keys are about"),
    ("\u2713", "good", "done"),
    ("\u2717", "bad", "failed, or too late"),
    ("\u25cf", "running", "began, runs"),
    ("\u25cb", "waits", "waits: for a person, a message, a time"),
    ("?", "doubt", "in doubt: nobody knows whether it happened"),
    ("\u25c6", "accent", "a decision"),
    ("\u25c7", "accent", "an event of the author's own"),
    ("\u252c \u2534", "quiet", "a scope of branches begins, ends early"),
    ("+ ~ -", "changed", "in the state: new, changed, gone since the event before, or since the mark"),
    ("\u25c8", "mark", "the marked event"),
)
