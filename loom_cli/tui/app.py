"""The debugger on a terminal: keys and clicks become moves of the model, and what it comes to is drawn."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.worker import Worker, get_current_worker

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.lenses.sifting import Sift
from loom.spi.event_store import Storage
from loom_cli.reading import unread_of
from loom_cli.tui import loading
from loom_cli.tui import model as moves
from loom_cli.tui.acting import Actings, Wired
from loom_cli.tui.drawing import Drawing, pane_at
from loom_cli.tui.keys import BY_KEY
from loom_cli.tui.model import Model, Move
from loom_cli.tui.open_log import OpenLog
from loom_cli.tui.reading import Reading
from loom_cli.tui.widgets import Line, Listing, Row

if TYPE_CHECKING:
    from loom_cli.tui.doing import Doing
    from loom_cli.tui.prompts import Asking

WIDE: Final = 120
"""From so many cells on, the pane stands beside the timeline, not below it."""


class Debugger(App[None]):
    """Shows one log. What takes a conversation is in `doing.py`, what drives is a command of its own (`acting.py`)."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "leave", show=False, priority=True)]
    CSS = """
    Screen { layout: vertical; background: #0d1117; color: #c9d1d9; }
    #head, #foot { background: #161b22; }
    #body { height: 1fr; layout: vertical; }
    #timeline { height: 9fr; }
    #side { height: 11fr; layout: vertical; }
    #tabs { background: #161b22; }
    #pane { height: 1fr; }
    #body.wide { layout: horizontal; }
    #body.wide #timeline { width: 11fr; height: 1fr; }
    #body.wide #side { width: 10fr; min-width: 63; height: 1fr; border-left: vkey #30363d; }
    #body.timeline #side { display: none; }
    #body.pane #timeline { display: none; }
    #load { display: none; }
    #load.on { display: block; }
    """

    def __init__(
        self,
        storage: Storage,
        text: str,
        *,
        at: int | None = None,
        against: int | None = None,
        now_ms: Callable[[], int],
        folder: Path | None = None,
        wired: Wired | None = None,
    ) -> None:
        super().__init__()
        self.folder, self.wired, self.now_ms = folder or Path.cwd(), wired or Wired(), now_ms
        self._storage, self._text = storage, text
        self._begin = at, against
        self.log_, self.model = OpenLog(ExecutionId(text)), Model()
        self.drawing, self.actings = Drawing(self), Actings()
        self.failure: LoomError | None = None
        """Why there was nothing to show."""
        self._is_moved = False
        self._ahead: deque[events.Key] = deque()
        self._is_taking, self._talk = False, cast("Worker[None] | None", None)
        self.is_talking = False
        """Whether what is typed is for a line that is asked for, or soon is."""
        self.touched_at = 0.0
        """When a key was pressed last, by the clock that never goes back."""

    def compose(self) -> ComposeResult:
        yield Row(id="head")
        with Container(id="body"):
            yield Listing(id="timeline")
            with Container(id="side"):
                yield Row(id="tabs")
                yield Listing(id="pane")
        yield Row(id="load")
        yield Row(id="place")
        yield Row(id="foot")

    async def on_mount(self) -> None:
        self.title = "loom debug"
        self.drawing.listing("timeline").focus()
        try:
            await self.open_run(self._text, *self._begin)
        except LoomError as error:
            self.failure = error
            self.exit()

    async def on_unmount(self) -> None:
        await self.actings.end()

    # -- reading -------------------------------------------------------------------------------------------------

    async def open_run(self, text: str, at: int | None = None, against: int | None = None) -> None:
        """Look at the run that *text* means, from event *at* on (None: the last), compared with that after *against*.

        Raises:
            LoomError: it cannot be; what is looked at stays.
        """
        log = await loading.opened(self._storage, text)
        unread = await unread_of(self._storage, log.run_id)
        self.log_, self.model = log, Model(pane=self.model.pane, clock=self.model.clock)
        self.drawing, self._is_moved = Drawing(self), False
        self.drawing.unread = unread
        if log.is_read:
            self.settle(at, against)
        self.drawing.all()
        self.run_worker(Reading(self, self._storage).read_on(at, against), exclusive=True, group="reading")

    def settle(self, at: int | None, against: int | None) -> None:
        """Stand where the command says, else at the end, unless somebody has moved meanwhile."""
        if not self._is_moved:
            last = len(self.log_.rows) - 1
            self.model = moves.at_event(self.model, self.log_, last if at is None else self.log_.index(at))
        if against is not None and self.model.mark is None:
            self.model = moves.with_mark(self.model, self.log_, against)

    # -- what somebody does --------------------------------------------------------------------------------------

    def move(self, move: Move) -> None:
        """Carry out a move of the model, and draw what it comes to."""
        self._is_moved, self.touched_at = True, time.monotonic()
        before = self.model
        self.model = move(before, self.log_)
        if self.model.at != before.at:
            self.drawing.chosen.pop("calls", None)
        self.drawing.all()

    def say(self, words: str) -> None:
        """Say something in the line below the panes."""
        self.move(moves.saying(words))

    async def on_event(self, event: events.Event) -> None:
        """Take keys in the order in which they were typed: what follows `:` waits for the line that it asks for."""
        is_key = isinstance(event, events.Key) and not event.is_forwarded and event.key not in ("ctrl+c", "ctrl+q")
        if not is_key or (self._is_asked and not self._ahead):
            await super().on_event(event)
        else:
            self._ahead.append(cast("events.Key", event))
            await self.take_typed()

    @property
    def _is_asked(self) -> bool:
        """Whether a screen above the timeline is there, and takes keys."""
        return len(self.screen_stack) > 1 and getattr(self.screen, "is_ready", False)

    async def take_typed(self) -> None:
        """Give the keys that wait to whom they are for, as far as that is there."""
        if self._is_taking:
            return
        self._is_taking = True
        try:
            while self._ahead and (self._is_asked or (len(self.screen_stack) == 1 and not self.is_talking)):
                key = self._ahead.popleft()
                await (self._pressed(key) if len(self.screen_stack) == 1 else cast("Asking", self.screen).take(key))
        finally:
            self._is_taking = False

    async def _pressed(self, event: events.Key) -> None:
        bound = BY_KEY.get(event.key)
        if bound is None:
            return
        if bound.move is not None:
            self.move(bound.move)
        elif bound.is_talk:
            self._converse(bound.action)
        else:
            await self.run_action(bound.action)

    def _converse(self, name: str) -> None:
        """Begin what takes more than a key."""
        self.is_talking = True
        self._talk = self.run_worker(self._talked(name), group="doing", exclusive=True)

    async def _talked(self, name: str) -> None:
        from loom_cli.tui.doing import refused

        mine = get_current_worker()
        try:
            await refused(self._doing.by_name[name](), self.say)
        finally:
            if self._talk is mine:  # another may have begun, which ended this one
                self.is_talking = False
                self.call_later(self.take_typed)

    @cached_property
    def _doing(self) -> Doing:
        from loom_cli.tui.doing import Doing

        return Doing(self)

    @property
    def _is_in_pane(self) -> bool:
        return self.focused is not None and self.focused.id == "pane"

    def _go(self, count: int) -> None:
        if self._is_in_pane:
            self._choose(self.drawing.listing("pane").cursor + count)
        else:
            self.move(moves.by_rows(count))

    def _choose(self, at: int) -> None:
        """Put the cursor of the pane on a line."""
        drawing = self.drawing
        at = max(min(at, drawing.listing("pane").count - 1), 0)
        if drawing.calls is not None:
            drawing.chosen["calls"] = (str(at),)
        elif drawing.tree:
            drawing.chosen[self.model.pane] = drawing.tree[at].node.key
        drawing.pane()

    def action_down(self) -> None:
        self._go(1)

    def action_up(self) -> None:
        self._go(-1)

    def action_page_down(self) -> None:
        self._go(self._page)

    def action_page_up(self) -> None:
        self._go(-self._page)

    @property
    def _page(self) -> int:
        return max(self.drawing.listing("pane" if self._is_in_pane else "timeline").page - 1, 1)

    def action_first(self) -> None:
        self._choose(0) if self._is_in_pane else self.move(moves.to_first)

    def action_last(self) -> None:
        self._choose(self.drawing.listing("pane").count) if self._is_in_pane else self.move(moves.to_last)

    def action_right(self) -> None:
        self._fold(is_open=False) if self._is_in_pane else self.move(moves.by_rows(1))

    def action_left(self) -> None:
        self._fold(is_open=True) if self._is_in_pane else self.move(moves.by_rows(-1))

    def _fold(self, *, is_open: bool | None) -> None:
        """Open or close the node under the cursor; only one that *is_open*, or is not, where that is said."""
        drawing, cursor = self.drawing, self.drawing.listing("pane").cursor
        if drawing.calls is not None:
            index = drawing.calls.event_of(cursor)
            self.move(lambda model, log: moves.at_event(model, log, index))
        elif 0 <= cursor < len(drawing.tree):
            at = drawing.tree[cursor]
            if at.is_open is not None and is_open in (None, at.is_open):
                drawing.chosen[self.model.pane] = at.node.key
                self.move(moves.toggled(at.node.key))

    def action_unfold(self) -> None:
        if self._is_in_pane:
            self._fold(is_open=None)
        else:
            self.move(moves.shows("event"))

    def action_other_side(self) -> None:
        self.drawing.listing("timeline" if self._is_in_pane else "pane").focus()

    def action_zoom(self) -> None:
        body, side = self.query_one("#body"), "pane" if self._is_in_pane else "timeline"
        is_zoomed = body.has_class("pane") or body.has_class("timeline")
        body.remove_class("pane", "timeline")
        if not is_zoomed:
            body.add_class(side)
        self.call_after_refresh(self._draw)

    def action_digest(self) -> None:
        self.drawing.digest(asked=True)
        self.move(moves.shows("state"))

    def action_leave(self) -> None:
        self.exit()

    def on_listing_picked(self, picked: Listing.Picked) -> None:
        if picked.listing.id == "timeline":
            index = moves.event_of_row(self.model, self.log_, picked.at)
            self.move(lambda model, log: moves.at_event(model, log, index))
        elif picked.listing.id == "pane":
            self._choose(picked.at)
            self._fold(is_open=None)

    def on_row_picked(self, picked: Row.Picked) -> None:
        pane = pane_at(picked.x) if picked.row.id == "tabs" else None
        if pane is not None:
            self.move(moves.shows(pane))

    def on_resize(self, event: events.Resize) -> None:
        self.query_one("#body").set_class(event.size.width >= WIDE, "wide")
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        self.drawing.all()  # that of the run which is looked at when it is called

    # -- what conversations come to ------------------------------------------------------------------------------

    def look_for(self, sift: Sift) -> None:
        """Look for something from the cursor on; for nothing any more, where it is empty."""
        self.log_.look_for(sift)
        self.model = moves.unfiltered(self.model)
        if sift.terms:
            self.run_worker(self._look(sift), exclusive=True, group="looking")
        else:
            self.drawing.all()

    async def _look(self, sift: Sift) -> None:
        log, begin, found = self.log_, self.model.at, False
        while log.sift is sift and log.sift_some(200):
            if not found and log.matches and log.matches[-1] >= begin:
                found = True
                self.move(moves.to_match(back=False))
            await asyncio.sleep(0)
        if not found:
            self.move(moves.to_match(back=False))
        self.drawing.all()

    def events_in_sight(self) -> list[int]:
        """Return the events whose rows are in sight, by their index."""
        listing = self.drawing.listing("timeline")
        rows = range(listing.top, min(listing.top + listing.page, listing.count))
        return [moves.event_of_row(self.model, self.log_, row) for row in rows]

    def pane_lines(self) -> Iterator[Line]:
        """Yield all lines of the pane."""
        listing = self.drawing.listing("pane")
        for at in range(listing.count):
            yield listing.line(at)
