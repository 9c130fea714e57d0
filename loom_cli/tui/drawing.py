"""Drawing where somebody is in a log: into the timeline, the pane, and the lines round them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from loom.lenses.inbox import UnreadMessage
from loom_cli.screen import Styled, cell_len
from loom_cli.tui import model as moves
from loom_cli.tui import source_pane
from loom_cli.tui.calls_pane import CallLines
from loom_cli.tui.changes_pane import change_nodes
from loom_cli.tui.event_pane import event_nodes
from loom_cli.tui.gates_pane import gate_nodes
from loom_cli.tui.keys import foot
from loom_cli.tui.model import PANES, Pane
from loom_cli.tui.nodes import Key, Node, Shown, shown
from loom_cli.tui.open_log import OpenLog
from loom_cli.tui.rows import head_line, load_line, place_line, row_line
from loom_cli.tui.source_pane import Sources
from loom_cli.tui.state_pane import DIGEST_MAX, digest_of, state_nodes
from loom_cli.tui.widgets import Line, Listing, Row

if TYPE_CHECKING:
    from loom_cli.tui.app import Debugger

_MARKS: Final = {
    "new": ("+", "new"),
    "changed": ("~", "changed"),
    "gone": ("-", "gone"),
    "inside": ("\u00b7", "changed"),
    "": (" ", ""),
}
_OPEN_SIGNS: Final = {None: "  ", True: "\u25be ", False: "\u25b8 "}


class Drawing:
    """Draws the log of *app*, and keeps what is found out for that: digests, sources, and where the cursor of each pane is."""

    def __init__(self, app: Debugger) -> None:
        self._app = app
        self.chosen: dict[Pane, Key] = {}
        self.tree: list[Shown] = []
        """The lines of the pane, where it is a tree."""
        self.calls: CallLines | None = None
        """The lines of the pane, where it has those of calls."""
        self.unread: list[UnreadMessage] = []
        self._digests: dict[int, str] = {}
        self._sources: dict[str, Sources] = {}
        self._looks_for: str | None = None
        self._has_grown = False

    def listing(self, id: str) -> Listing:
        return self._app.screen_stack[0].query_one(f"#{id}", Listing)

    def row(self, id: str) -> Row:
        return self._app.screen_stack[0].query_one(f"#{id}", Row)

    def all(self) -> None:
        """Draw all of it."""
        self.timeline()
        self.pane()
        self.rows()

    def growth(self) -> None:
        """Draw that more of the log was read: where what came is in sight, and how much it was."""
        log, model = self._app.log_, self._app.model
        if not self.listing("timeline").grow(moves.rows_shown(model, log)):
            self.timeline()
        self.row("load").say(load_line(log, self._app.size.width))
        self.row("place").say(self._place())

    def rows(self) -> None:
        """Draw the lines round the timeline and the pane."""
        log, model, width = self._app.log_, self._app.model, self._app.size.width
        self.row("head").say(head_line(log, model))
        self.row("tabs").say(_tabs(model.pane))
        load = self.row("load")
        load.set_class(not log.is_read, "on")
        load.say(load_line(log, width))
        self.row("place").say(self._place())
        self.row("foot").say(_foot(width))

    def _place(self) -> Iterator[Styled]:
        log, model = self._app.log_, self._app.model
        if log.problem is not None:
            yield Styled(f" {log.problem} ", "bad strong")
            return
        yield from place_line(log, model)
        if model.says:
            yield Styled(f"  {model.says}", "accent")

    @property
    def room_to_say(self) -> int:
        """How many cells a message has beside the place of the cursor."""
        told = sum(cell_len(piece.text) for piece in place_line(self._app.log_, self._app.model))
        return self._app.size.width - told - 2

    def timeline(self) -> None:
        """Draw the rows of the events."""
        log, model = self._app.log_, self._app.model

        def line_of(row: int, width: int) -> Line:
            return row_line(log, model, moves.event_of_row(model, log, row), width)

        self.listing("timeline").show(moves.rows_shown(model, log), line_of, moves.row_of_event(model, log))

    def pane(self) -> None:
        """Draw the pane that is chosen."""
        log, model, listing = self._app.log_, self._app.model, self.listing("pane")
        if not log.rows:
            return
        self.calls = None
        if model.pane == "calls":
            self.calls = calls = CallLines(log, model)
            cursor = int(self.chosen["calls"][0]) if "calls" in self.chosen else calls.at_cursor()
            listing.show(len(calls), calls.line, cursor)
            return
        self.tree = tree = shown(self._nodes(model.pane), model.toggled)
        wanted = self.chosen.get(model.pane) or source_pane.IT
        cursor = next((at for at, each in enumerate(tree) if each.node.key == wanted), 0)
        listing.show(len(tree), lambda at, width: node_line(tree[at]), cursor)

    def _nodes(self, pane: Pane) -> list[Node]:
        log, model = self._app.log_, self._app.model
        match pane:
            case "state":
                return state_nodes(log, model, self.digest())
            case "changes":
                return change_nodes(log, model)
            case "event":
                return event_nodes(log, model)
            case "gates":
                return gate_nodes(log, model, self.unread, self._app.now_ms())
            case _:
                return self._source_nodes()

    def digest(self, *, asked: bool = False) -> str | None:
        """Return the name of the state at the cursor, where it is known, quickly made, or *asked* for."""
        log, at = self._app.log_, self._app.model.at
        number, state = log.rows[at].sequence, log.state(at)
        if number not in self._digests and state is not None and (asked or state.length <= DIGEST_MAX):
            self._digests[number] = digest_of(state)
        return self._digests.get(number)

    # -- the source ----------------------------------------------------------------------------------------------

    def _source_nodes(self) -> list[Node]:
        log = self._app.log_
        name = source_pane.wanted(log, self._app.model)
        key = source_pane.found_under(log, name)
        found = self._sources.get(key)
        is_known = found is not None and (name in found.stops or not self._has_grown)
        if not is_known and self._looks_for != key:
            self._looks_for = key
            self._app.run_worker(self._find_source(log, name), group="source", exclusive=True)
        return source_pane.source_nodes(found, name, self._app.folder)

    async def _find_source(self, log: OpenLog, name: str) -> None:
        done = await self._app.actings.run(source_pane.source_act(log, name, self._app.wired))
        if log is self._app.log_:
            self._sources[source_pane.found_under(log, name)] = source_pane.sources_of(done)
            self._has_grown = False
            self.pane()

    def forget_sources(self) -> None:
        """Look for the source anew where it is not known: the log has grown."""
        self._has_grown, self._looks_for = True, None


def node_line(shown: Shown) -> Iterator[Styled]:
    """Yield a node of a tree as a line: what became of it, how deep it stands, whether it is open, and what it says."""
    sign, style = _MARKS[shown.node.mark]
    yield Styled(f"{sign} ", style)
    yield Styled("  " * shown.depth)
    yield Styled(_OPEN_SIGNS[shown.is_open], "quiet")
    yield from shown.node.pieces


def _tabs(chosen: Pane) -> Iterator[Styled]:
    for number, (pane, title) in enumerate(PANES.items(), start=1):
        yield Styled(f" {number} {title} ", "tab_chosen" if pane == chosen else "tab")


def pane_at(x: int) -> Pane | None:
    """Return the pane whose title stands at cell *x* of the line of tabs."""
    end = 0
    for number, (pane, title) in enumerate(PANES.items(), start=1):
        end += len(f" {number} {title} ")
        if x < end:
            return pane
    return None


def _foot(width: int) -> Iterator[Styled]:
    for bound, word in foot(width):
        yield Styled(f" {bound.shown}", "key")
        yield Styled(f" {word} ", "quiet")
