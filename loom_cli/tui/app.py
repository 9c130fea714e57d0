"""The debugger on a terminal: keys and clicks become moves of the model, and what it comes to is drawn."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import ClassVar, Final

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.kernel.codec import decode_events
from loom.lenses.inbox import UnreadMessage
from loom.lenses.sifting import Sift, SiftInvalid, sift_of
from loom.spi.event_store import Storage
from loom_cli.reading import unread_of
from loom_cli.screen import Styled
from loom_cli.times import time_meant
from loom_cli.tui import loading
from loom_cli.tui import model as moves
from loom_cli.tui.calls_pane import CallLines
from loom_cli.tui.event_pane import event_nodes
from loom_cli.tui.gates_pane import gate_nodes
from loom_cli.tui.keys import BY_KEY, FOOT
from loom_cli.tui.model import PANES, Model, Move, Pane
from loom_cli.tui.nodes import Key, Node, Shown, line, shown
from loom_cli.tui.open_log import OpenLog
from loom_cli.tui.rows import head_line, load_line, place_line, row_line
from loom_cli.tui.state_pane import DIGEST_MAX, change_nodes, digest_of, state_nodes
from loom_cli.tui.widgets import Line, Listing, Row

WIDE: Final = 110
"""From so many cells on, the pane stands beside the timeline, not below it."""
_SLICE_S: Final = 0.008
_PATIENCE_S: Final = 0.15
_REDRAW_S: Final = 0.1
_MARKS: Final = {
    "new": ("+", "new"),
    "changed": ("~", "changed"),
    "gone": ("-", "gone"),
    "inside": ("\u00b7", "changed"),
    "": (" ", ""),
}


class Debugger(App[None]):
    """Shows one log. Whatever drives is left to `acting.py`."""

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
    #body.wide #side { width: 10fr; height: 1fr; border-left: vkey #30363d; }
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
    ) -> None:
        super().__init__()
        self._storage, self._text, self._now_ms = storage, text, now_ms
        self._begin = at, against
        self.log_ = OpenLog(ExecutionId(text))
        self.model = Model()
        self.failure: LoomError | None = None
        """Why there was nothing to show."""
        self.first_screen_s = 0.0
        self._is_moved = False
        self._touched_at = 0.0
        self._chosen: dict[Pane, Key] = {}
        self._tree: list[Shown] = []
        self._calls: CallLines | None = None
        self._digests: dict[int, str] = {}
        self._unread: list[UnreadMessage] = []
        self._searched = ""
        self._looked: tuple[object, ...] = ()

    # -- what there is to see ------------------------------------------------------------------------------------

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

    def listing(self, id: str) -> Listing:
        return self.query_one(f"#{id}", Listing)

    def row(self, id: str) -> Row:
        return self.query_one(f"#{id}", Row)

    async def on_mount(self) -> None:
        self.title = "loom debug"
        self.listing("timeline").focus()
        try:
            await self._open(self._text, *self._begin)
        except LoomError as error:
            self.failure = error
            self.exit()

    async def _open(self, text: str, at: int | None = None, against: int | None = None) -> None:
        self.log_ = await loading.opened(self._storage, text)
        self.model = Model()
        self._digests, self._chosen, self._is_moved = {}, {}, False
        self._unread = await unread_of(self._storage, self.log_.run_id)
        if self.log_.is_read:
            self._settle(at, against)
        self.draw()
        self.run_worker(self._read_on(at, against), exclusive=True, group="reading")

    def _settle(self, at: int | None, against: int | None) -> None:
        """Stand where the command says, else at the end, unless somebody has moved meanwhile."""
        if not self._is_moved:
            last = len(self.log_.rows) - 1
            self.model = moves.at_event(self.model, self.log_, last if at is None else self.log_.index(at))
        if against is not None and self.model.mark is None:
            self.model = moves.with_mark(self.model, self.log_, against)

    # -- reading -------------------------------------------------------------------------------------------------

    async def _read_on(self, at: int | None, against: int | None) -> None:
        log = self.log_
        try:
            if not log.is_read:
                await self._read_rest(log)
                self._settle(at, against)
                self.draw()
            async with aclosing(loading.followed(self._storage, log)) as feed:
                async for event in feed:
                    log.add([event])
                    self.model = moves.grown(self.model, log)
                    self.call_later(self._arrived)
        except LoomError as error:
            log.problem, log.is_read = error, True
            self.draw()

    async def _read_rest(self, log: OpenLog) -> None:
        """Read what is left, in slices that leave the keys their turn."""
        gc.disable()  # the collector would walk all that is made here, again and again, in the middle of a key
        drawn_at = time.monotonic()
        try:
            async with aclosing(loading.rest(self._storage, log)) as pages:
                async for page in pages:
                    done = 0
                    while done < len(page):
                        until = time.monotonic() + _SLICE_S
                        while done < len(page) and time.monotonic() < until:
                            log.add(decode_events(log.run_id, page[done : done + 20]))
                            done += 20
                        if time.monotonic() - drawn_at > _REDRAW_S:
                            self._draw_growth()
                            drawn_at = time.monotonic()
                        await asyncio.sleep(_SLICE_S * 4 if time.monotonic() - self._touched_at < _PATIENCE_S else 0)
                    if log.problem is not None:
                        break
        finally:
            gc.freeze()
            gc.enable()
        log.is_read = True

    async def _arrived(self) -> None:
        self._unread = await unread_of(self._storage, self.log_.run_id)
        self._sift()
        self.draw()

    # -- drawing -------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw all of it."""
        self._draw_timeline()
        self._draw_pane()
        self._draw_rows()

    def _draw_growth(self) -> None:
        self._draw_timeline()
        self._draw_rows()

    def _draw_rows(self) -> None:
        log, model = self.log_, self.model
        self.row("head").say(head_line(log, model))
        self.row("tabs").say(self._tabs())
        load = self.row("load")
        load.set_class(not log.is_read, "on")
        load.say(load_line(log, self.size.width))
        self.row("place").say(self._place())
        self.row("foot").say(_foot(self.size.width))

    def _place(self) -> Iterator[Styled]:
        if self.log_.problem is not None:
            yield Styled(f" {self.log_.problem} ", "bad strong")
            return
        yield from place_line(self.log_, self.model)
        if self.model.says:
            yield Styled(f"  {self.model.says}", "accent")

    def _tabs(self) -> Iterator[Styled]:
        for number, (pane, title) in enumerate(PANES.items(), start=1):
            yield Styled(f" {number} {title} ", "tab_chosen" if pane == self.model.pane else "tab")

    def _draw_timeline(self) -> None:
        log, model = self.log_, self.model

        def line_of(row: int, width: int) -> Line:
            return row_line(log, model, moves.event_of_row(model, log, row), width)

        looks = (model.mark, model.clock, model.only_matches, log.sift, log.sifted, log.total, self.size)
        count, cursor = moves.rows_shown(model, log), moves.row_of_event(model, log)
        self.listing("timeline").show(count, line_of, cursor, is_same=looks == self._looked)
        self._looked = looks

    def _draw_pane(self) -> None:
        log, listing = self.log_, self.listing("pane")
        if not log.rows:
            return
        self._calls = None
        if self.model.pane == "calls":
            self._calls = calls = CallLines(log, self.model)
            cursor = int(self._chosen["calls"][0]) if "calls" in self._chosen else calls.at_cursor()
            listing.show(len(calls), calls.line, cursor)
            return
        self._tree = shown(self._pane_nodes(), self.model.toggled)
        wanted = self._chosen.get(self.model.pane)
        cursor = next((at for at, each in enumerate(self._tree) if each.node.key == wanted), 0)
        nodes = self._tree
        listing.show(len(nodes), lambda at, width: node_line(nodes[at]), cursor)

    def _pane_nodes(self) -> list[Node]:
        log, model = self.log_, self.model
        match model.pane:
            case "state":
                return state_nodes(log, model, self._digest())
            case "changes":
                return change_nodes(log, model)
            case "event":
                return event_nodes(log, model)
            case "gates":
                return gate_nodes(log, model, self._unread, self._now_ms())
            case _:
                return [line(("none",), Styled("nothing is known of the source", "quiet"))]

    def _digest(self, *, asked: bool = False) -> str | None:
        """Return the name of the state at the cursor, where it is known, quickly made, or *asked* for."""
        number = self.log_.rows[self.model.at].sequence
        state = self.log_.state(self.model.at)
        if number not in self._digests and state is not None and (asked or state.length <= DIGEST_MAX):
            self._digests[number] = digest_of(state)
        return self._digests.get(number)

    # -- what somebody does --------------------------------------------------------------------------------------

    def move(self, move: Move) -> None:
        """Carry out a move of the model, and draw what it comes to."""
        self._is_moved, self._touched_at = True, time.monotonic()
        before = self.model
        self.model = move(before, self.log_)
        if self.model.at != before.at:
            self._chosen.pop("calls", None)
        self.draw()

    async def on_key(self, event: events.Key) -> None:
        if len(self.screen_stack) > 1:
            await self._typed_ahead(event)
            return
        bound = BY_KEY.get(event.key)
        if bound is None:
            return
        event.stop()
        event.prevent_default()
        if bound.move is not None:
            self.move(bound.move)
        else:
            await self.run_action(bound.action)

    async def _typed_ahead(self, event: events.Key) -> None:
        """Give the line that is asked for a key that was typed before it was there."""
        from loom_cli.tui.prompts import Prompt

        if isinstance(self.screen, Prompt):
            event.stop()
            await self.screen.take(event)

    @property
    def _is_in_pane(self) -> bool:
        return self.focused is not None and self.focused.id == "pane"

    def _go(self, count: int) -> None:
        if not self._is_in_pane:
            self.move(moves.by_rows(count))
            return
        listing = self.listing("pane")
        self._choose(listing.cursor + count)

    def _choose(self, at: int) -> None:
        """Put the cursor of the pane on a line."""
        listing = self.listing("pane")
        at = max(min(at, listing.count - 1), 0)
        if self._calls is not None:
            self._chosen["calls"] = (str(at),)
        elif self._tree:
            self._chosen[self.model.pane] = self._tree[at].node.key
        self._draw_pane()

    def action_down(self) -> None:
        self._go(1)

    def action_up(self) -> None:
        self._go(-1)

    def action_page_down(self) -> None:
        self._go(self.listing("pane" if self._is_in_pane else "timeline").page)

    def action_page_up(self) -> None:
        self._go(-self.listing("pane" if self._is_in_pane else "timeline").page)

    def action_first(self) -> None:
        self._choose(0) if self._is_in_pane else self.move(moves.to_first)

    def action_last(self) -> None:
        self._choose(self.listing("pane").count) if self._is_in_pane else self.move(moves.to_last)

    def action_right(self) -> None:
        self._open_or_close(is_open=False) if self._is_in_pane else self.move(moves.by_rows(1))

    def action_left(self) -> None:
        self._open_or_close(is_open=True) if self._is_in_pane else self.move(moves.by_rows(-1))

    def _open_or_close(self, *, is_open: bool | None) -> None:
        """Open or close the node under the cursor; only one that *is_open*, or is not, where that is said."""
        if self._calls is not None:
            index = self._calls.event_of(self.listing("pane").cursor)
            self.move(lambda model, log: moves.at_event(model, log, index))
            return
        if not self._tree:
            return
        at = self._tree[min(self.listing("pane").cursor, len(self._tree) - 1)]
        if at.is_open is None or (is_open is not None and at.is_open is not is_open):
            return
        self._chosen[self.model.pane] = at.node.key
        self.move(moves.toggled(at.node.key))

    def action_unfold(self) -> None:
        if self._is_in_pane:
            self._open_or_close(is_open=None)
        else:
            self.move(moves.shows("event"))

    def action_other_side(self) -> None:
        self.listing("timeline" if self._is_in_pane else "pane").focus()

    def action_zoom(self) -> None:
        body, side = self.query_one("#body"), "pane" if self._is_in_pane else "timeline"
        is_zoomed = body.has_class("pane") or body.has_class("timeline")
        body.remove_class("pane", "timeline")
        if not is_zoomed:
            body.add_class(side)
        self.call_after_refresh(self.draw)

    def action_digest(self) -> None:
        self._digest(asked=True)
        self.move(moves.shows("state"))

    def action_leave(self) -> None:
        self.exit()

    def on_listing_picked(self, picked: Listing.Picked) -> None:
        if picked.listing.id == "timeline":
            index = moves.event_of_row(self.model, self.log_, picked.at)
            self.move(lambda model, log: moves.at_event(model, log, index))
        elif picked.listing.id == "pane":
            self._choose(picked.at)
            self._open_or_close(is_open=None)

    def on_row_picked(self, picked: Row.Picked) -> None:
        if picked.row.id == "tabs":
            end = 0
            for number, (pane, title) in enumerate(PANES.items(), start=1):
                end += len(f" {number} {title} ")
                if picked.x < end:
                    self.move(moves.shows(pane))
                    return

    def on_resize(self, event: events.Resize) -> None:
        self.query_one("#body").set_class(event.size.width >= WIDE, "wide")
        self.call_after_refresh(self.draw)

    # -- asking --------------------------------------------------------------------------------------------------

    async def action_help(self) -> None:
        from loom_cli.tui.prompts import Help

        await self.push_screen(Help())

    async def action_search(self) -> None:
        from loom_cli.tui.prompts import Prompt

        await self.push_screen(Prompt("search", given=self._searched, refuse=_no_search), self.look_for)

    async def action_go_to(self) -> None:
        from loom_cli.tui.prompts import Prompt

        title = "go to: 42, +2.5s, 14:03:20, or the name of a call"
        await self.push_screen(Prompt(title), self._go_to)

    def _go_to(self, text: str | None) -> None:
        if text:
            begun = self.log_.rows[0].at if self.log_.rows else 0
            self.move(moves.going_to(text, lambda typed: time_meant(typed, begun)))

    # -- searching -----------------------------------------------------------------------------------------------

    def look_for(self, text: str | None) -> None:
        """Look for what was typed, from the cursor on; for nothing any more, where that is empty."""
        if text is None:
            return
        self._searched, sift = text, sift_of(text)
        self.log_.look_for(sift)
        self.model = moves.unfiltered(self.model)
        if not sift.terms:
            self.draw()
            return
        self.run_worker(self._look(sift), exclusive=True, group="looking")

    async def _look(self, sift: Sift) -> None:
        log, begin, found = self.log_, self.model.at, False
        while log.sift is sift and log.sift_some(200):
            if not found and log.matches and log.matches[-1] >= begin:
                found = True
                self.move(moves.to_match(back=False))
            await asyncio.sleep(0)
        if not found:
            self.move(moves.to_match(back=False))
        self.draw()

    def _sift(self) -> None:
        while self.log_.sift_some(1000):
            pass


def node_line(shown: Shown) -> Iterator[Styled]:
    """Yield a node of a tree as a line: what became of it, how deep it stands, whether it is open, and what it says."""
    sign, style = _MARKS[shown.node.mark]
    yield Styled(f"{sign} ", style)
    yield Styled("  " * shown.depth)
    yield Styled({None: "  ", True: "\u25be ", False: "\u25b8 "}[shown.is_open], "quiet")
    yield from shown.node.pieces


def _no_search(text: str) -> str:
    try:
        sift_of(text)
    except SiftInvalid as refused:
        return str(refused)
    return ""


def _foot(width: int) -> Iterator[Styled]:
    told = 0
    for bound in FOOT:
        told += len(bound.shown) + len(bound.short) + 3
        if told > width:
            return
        yield Styled(f" {bound.shown}", "key")
        yield Styled(f" {bound.short} ", "quiet")
