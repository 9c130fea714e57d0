"""What each key does: the one table from which keys are carried out, shown below the panes, and explained on `?`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from loom_cli.tui.model import (
    PANES,
    Move,
    along_call,
    by_events,
    filtered,
    marked,
    next_clock,
    next_pane,
    shows,
    to_failure,
    to_mark,
    to_match,
)


class Bound(NamedTuple):
    """One thing to do: the keys that do it, as Textual names them, and as they are shown; in words; as a move, if it is one.

    *action* is the name of what the app does where it is no move. *short* is what stands below the panes, *wide* where there is room for more than 80 cells; "" where it does not.
    """

    keys: tuple[str, ...]
    shown: str
    words: str
    move: Move | None = None
    action: str = ""
    short: str = ""
    wide: str = ""

    @property
    def is_talk(self) -> bool:
        """Whether somebody is asked something on the way (doing.py)."""
        return self.action in _TALKS


_TALKS: Final = frozenset({"help", "search", "go_to", "fork", "edit", "answer", "go_on", "pdb", "open", "export"})
KEYS: Final[Mapping[str, tuple[Bound, ...]]] = {
    "Move in time": (
        Bound(("down", "j"), "\u2193 j", "the next event, or line of a pane", action="down"),
        Bound(("up", "k"), "\u2191 k", "the one before", action="up"),
        Bound(("right", "l"), "\u2192 l", "one event on; in a pane: open what is under the cursor", action="right"),
        Bound(("left", "h"), "\u2190 h", "one event back; in a pane: close it", action="left"),
        Bound(("pagedown", "space"), "PgDn", "a page on", action="page_down"),
        Bound(("pageup", "b"), "PgUp", "a page back", action="page_up"),
        Bound(("home", "g"), "Home g", "the first event", action="first"),
        Bound(("end", "G"), "End G", "the last event; new ones are followed", action="last"),
        Bound(
            ("f",),
            "f",
            "the next thing that went wrong; after the last the first",
            to_failure(back=False),
            short="failed",
        ),
        Bound(("F",), "F", "the one before that went wrong", to_failure(back=True), wide="failed before"),
        Bound(("right_square_bracket",), "]", "the next event of the same call", along_call(back=False)),
        Bound(("left_square_bracket",), "[", "the event before of the same call", along_call(back=True)),
        Bound(
            ("colon",), ":", "go to an event by number, +2.5s, a time of day, or a call", action="go_to", short="go to"
        ),
        Bound(("full_stop",), ".", "one event on, whatever is filtered", by_events(1)),
        Bound(("comma",), ",", "one event back", by_events(-1)),
    ),
    "Look": (
        *(
            Bound((str(number),), str(number), f"the pane {title}", shows(pane))
            for number, (pane, title) in enumerate(PANES.items(), start=1)
        ),
        Bound(("right_parenthesis",), ")", "the next pane", next_pane(1)),
        Bound(("left_parenthesis",), "(", "the pane before", next_pane(-1)),
        Bound(("tab", "shift+tab"), "Tab", "between the timeline and the pane", action="other_side", short="side"),
        Bound(("enter",), "Enter", "open or close what is under the cursor", action="unfold"),
        Bound(("z",), "z", "give one side the whole screen", action="zoom"),
        Bound(("t",), "t", "times since the start, since the event before, or of the day", next_clock),
    ),
    "Find and compare": (
        Bound(
            ("slash",), "/", "search: words, type:STEP_*, call:fetch, is:failure, by:ada", action="search", short="find"
        ),
        Bound(("n",), "n", "the next one that was found", to_match(back=False), wide="next found"),
        Bound(("N",), "N", "the one before that was found", to_match(back=True)),
        Bound(("ampersand",), "&", "show only what was found, or everything again", filtered, wide="only found"),
        Bound(("m",), "m", "mark this event, or take the mark off: changes are from it on", marked, short="mark"),
        Bound(("apostrophe",), "'", "go to the mark", to_mark),
        Bound(("D",), "D", "name the state here by its digest", action="digest"),
    ),
    "Act": (
        Bound(("B",), "B", "begin a fork here", action="fork", short="fork"),
        Bound(("E",), "E", "begin a fork in which this call came out otherwise", action="edit", wide="other outcome"),
        Bound(("A",), "A", "answer a gate that is open", action="answer", short="answer"),
        Bound(("R",), "R", "retry a run that failed, or go on with one that can", action="go_on", wide="retry"),
        Bound(("P",), "P", "stop in the flow where it stood here, with pdb", action="pdb"),
        Bound(("o",), "o", "look at another run: the next link, a fork, a child, by its id", action="open"),
        Bound(("e",), "e", "export the view: SVG, text or JSON", action="export", wide="export"),
        Bound(("question_mark", "f1"), "?", "this help", action="help", short="help"),
        Bound(("q", "ctrl+c", "ctrl+q"), "q", "leave", action="leave", short="leave"),
    ),
}
"""By what they are for, in the order of the help."""

BY_KEY: Final = {key: bound for group in KEYS.values() for bound in group for key in bound.keys}
FOOT: Final = tuple(bound for group in KEYS.values() for bound in group if bound.short)


def foot(width: int) -> list[tuple[Bound, str]]:
    """Return the keys that stand below the panes of *width* cells, each with its word: the needed ones first, then what there is room for."""
    room, told = width, {}
    for bound, word in (*((each, each.short) for each in FOOT), *((each, each.wide) for each in BY_KEY.values())):
        size = len(bound.shown) + len(word) + 3
        if word and size <= room and bound.shown not in told:
            told[bound.shown] = bound, word
            room -= size
    return [told[bound.shown] for group in KEYS.values() for bound in group if bound.shown in told]
