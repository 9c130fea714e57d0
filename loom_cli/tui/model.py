"""Where a person is in a log, and how what they do moves that. Pure: `moved(model, log, move)` gives the next model."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from loom_cli.tui.nodes import Key
from loom_cli.tui.open_log import OpenLog

Pane: TypeAlias = Literal["state", "changes", "event", "calls", "source", "gates"]
Clock: TypeAlias = Literal["since", "delta", "time"]

PANES: Final[Mapping[Pane, str]] = {
    "state": "State",
    "changes": "Changes",
    "event": "Event",
    "calls": "Calls",
    "source": "Source",
    "gates": "Gates",
}
"""The panes by the order of their number keys, with their titles."""
CLOCKS: Final[tuple[Clock, ...]] = ("since", "delta", "time")


@dataclass(frozen=True, slots=True)
class Model:
    """Where somebody is: the event under the cursor, by its index, and what is shown of it.

    *mark* is the event that others are compared with, None: each with the one before. With *only_matches*, the timeline has
    what the search finds and nothing else. *toggled* are the nodes that were opened or closed. *follows*: the cursor stays on the last event as more come. *says* is the message of the last thing done.
    """

    at: int = 0
    mark: int | None = None
    pane: Pane = "state"
    clock: Clock = "since"
    only_matches: bool = False
    toggled: frozenset[Key] = frozenset()
    follows: bool = False
    says: str = ""


def event_of_row(model: Model, log: OpenLog, row: int) -> int:
    """Return the event that is shown in a row of the timeline."""
    return log.matches[row] if model.only_matches and row < len(log.matches) else row


def rows_shown(model: Model, log: OpenLog) -> int:
    """Return how many rows the timeline has."""
    return len(log.matches) if model.only_matches else len(log.rows)


def row_of_event(model: Model, log: OpenLog) -> int:
    """Return the row of the event under the cursor, or of the last one before it that is shown."""
    if not model.only_matches:
        return model.at
    return max(bisect_right(log.matches, model.at) - 1, 0)


def at_event(model: Model, log: OpenLog, index: int, *, says: str = "") -> Model:
    """Return *model* with the cursor on an event; it follows exactly when that is the last.

    Where only what was found is shown, and this event was not, everything is shown again.
    """
    last = len(log.rows) - 1
    index = min(max(index, 0), max(last, 0))
    only = model.only_matches and is_match(log, index)
    if model.only_matches and not only:
        says = says or "everything is shown again"
    return replace(model, at=index, follows=index == last, only_matches=only, says=says)


def is_match(log: OpenLog, index: int) -> bool:
    """Tell whether a search has found this event."""
    at = bisect_right(log.matches, index) - 1
    return at >= 0 and log.matches[at] == index


Move: TypeAlias = Callable[[Model, OpenLog], Model]


def by_rows(count: int) -> Move:
    """Move the cursor by so many rows of the timeline."""

    def move(model: Model, log: OpenLog) -> Model:
        row = min(max(row_of_event(model, log) + count, 0), max(rows_shown(model, log) - 1, 0))
        return at_event(model, log, event_of_row(model, log, row))

    return move


def by_events(count: int) -> Move:
    """Move the cursor by so many events, whichever are shown."""
    return lambda model, log: at_event(model, log, model.at + count)


def to_first(model: Model, log: OpenLog) -> Model:
    return at_event(model, log, event_of_row(model, log, 0))


def to_last(model: Model, log: OpenLog) -> Model:
    return at_event(model, log, event_of_row(model, log, max(rows_shown(model, log) - 1, 0)))


def to_failure(*, back: bool) -> Move:
    def move(model: Model, log: OpenLog) -> Model:
        found = log.timeline.failure(model.at, back=back)
        if found is not None:
            return at_event(model, log, found)
        beyond = log.timeline.failure(len(log.rows) if back else -1, back=back)
        if beyond is None or not log.is_read:
            return replace(model, says=f"nothing has gone wrong {'before' if back else 'after'} this event")
        if beyond == model.at:
            return replace(model, says="nothing else has gone wrong")
        return at_event(
            model, log, beyond, says=f"on from the {'end: the last' if back else 'beginning: the first'} failure"
        )

    return move


def to_match(*, back: bool) -> Move:
    def move(model: Model, log: OpenLog) -> Model:
        found = log.match(model.at, back=back)
        if found is None:
            return replace(model, says="search for something first: /" if not log.sift.terms else "nothing was found")
        return at_event(model, log, found)

    return move


def along_call(*, back: bool) -> Move:
    """Move to the next, or the last, event of the same call."""

    def move(model: Model, log: OpenLog) -> Model:
        call = log.call(model.at)
        if call is None:
            return replace(model, says="this event is of no call")
        told = {call.start}
        told |= {attempt.start for attempt in call.attempts} | {a.end for a in call.attempts if a.end is not None}
        told |= {outcome.end for outcome in call.outcomes}
        here = log.rows[model.at].sequence
        numbers = sorted(number for number in told if (number < here if back else number > here))
        if not numbers:
            return replace(model, says=f"{'the first' if back else 'the last'} event of {call.id}")
        return at_event(model, log, log.index(numbers[-1] if back else numbers[0]))

    return move


def marked(model: Model, log: OpenLog) -> Model:
    """Mark the event under the cursor, or take the mark off it."""
    if model.mark == model.at:
        return replace(model, mark=None, says="compared with the event before")
    return replace(model, mark=model.at, says=f"marked: changes are from event {log.rows[model.at].sequence} on")


def with_mark(model: Model, log: OpenLog, n: int) -> Model:
    """Return *model* with event number *n* marked."""
    return replace(model, mark=log.index(n))


def to_mark(model: Model, log: OpenLog) -> Model:
    if model.mark is None:
        return replace(model, says="no event is marked: m marks one")
    return at_event(model, log, model.mark)


def toggled(key: Key) -> Move:
    """Open the node with *key*, or close it."""
    return lambda model, log: replace(model, toggled=model.toggled ^ {key}, says="")


def shows(pane: Pane) -> Move:
    return lambda model, log: replace(model, pane=pane, says="")


def next_pane(step: int) -> Move:
    def move(model: Model, log: OpenLog) -> Model:
        names = list(PANES)
        return replace(model, pane=names[(names.index(model.pane) + step) % len(names)], says="")

    return move


def next_clock(model: Model, log: OpenLog) -> Model:
    clock = CLOCKS[(CLOCKS.index(model.clock) + 1) % len(CLOCKS)]
    told = {"since": "since the run began", "delta": "since the event before", "time": "of the day"}[clock]
    return replace(model, clock=clock, says=f"times are {told}")


def filtered(model: Model, log: OpenLog) -> Model:
    """Show only what the search finds, or everything again."""
    if not model.only_matches and not log.sift.terms:
        return replace(model, says="search for something first: /")
    if not model.only_matches and not log.matches:
        return replace(model, says="nothing was found")
    only = not model.only_matches
    moved = replace(model, only_matches=only)
    nearest = event_of_row(moved, log, row_of_event(moved, log)) if only else model.at
    return replace(at_event(moved, log, nearest), says="only what was found is shown" if only else "")


def unfiltered(model: Model) -> Model:
    """Return *model* with every event shown."""
    return replace(model, only_matches=False, says="")


def saying(words: str) -> Move:
    """Move nothing, and say something."""
    return lambda model, log: replace(model, says=words)


def grown(model: Model, log: OpenLog) -> Model:
    """Return *model* once more events have come."""
    if not model.follows or model.only_matches or not log.rows:
        return model
    return replace(model, at=len(log.rows) - 1)


_TIME: Final = re.compile(r"\+(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def going_to(text: str, clock_of: Callable[[str], int | None]) -> Move:
    """Move to what was typed: the number of an event, `+2.5s` after the start, a time of day, or the name of a call.

    *clock_of* gives the time (ms since the epoch) that a text means, None: it is none.
    """

    def move(model: Model, log: OpenLog) -> Model:
        wanted = text.strip()
        if wanted.isdecimal():
            number = int(wanted)
            if not log.rows or number > log.rows[-1].sequence:
                return replace(model, says=f"there is no event {wanted}; the last one is {log.moments.last}")
            return at_event(model, log, log.index(number))
        if after := _TIME.fullmatch(wanted):
            ms = float(after[1]) * _UNITS_MS[after[2] or "s"]
            return at_event(model, log, log.timeline.at_time(round(log.rows[0].at + ms)))
        if (at := clock_of(wanted)) is not None:
            return at_event(model, log, log.timeline.at_time(at))
        return _to_call(model, log, wanted)

    return move


def _to_call(model: Model, log: OpenLog, wanted: str) -> Model:
    calls = log.timeline.named(wanted)
    if not calls:
        return replace(model, says=f"there is no call {wanted}, and it is no number and no time")
    here = log.rows[model.at].sequence
    found = next((call for call in calls if call.start > here), calls[0])
    more = f", one of {len(calls)}: again for the next" if len(calls) > 1 else ""
    return at_event(model, log, log.index(found.start), says=f"{found.id}{more}")
