"""The rows of the timeline, and the line above them. Pure.

Nothing is told by colour alone: each kind of event has a sign of its own, and each status its word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from loom.core.envelope import EventEnvelope
from loom.lenses.timeline import Row
from loom_cli.event_lines import event_line
from loom_cli.screen import Styled
from loom_cli.times import duration, time_of_day
from loom_cli.tui.model import Clock, Model, is_match
from loom_cli.tui.nodes import as_read, brief
from loom_cli.tui.open_log import OpenLog
from loom_cli.wording import one_line

Event = EventEnvelope[Any]

COLUMNS_SHOWN: Final = 12
"""So many lanes at most are drawn side by side; the others are counted."""
LANES: Final = ("lane0", "lane1", "lane2", "lane3", "lane4", "lane5")
_TYPE_WIDTH: Final = 19
_SIGNS: Final[Mapping[str, tuple[str, str]]] = {
    "STEP_STARTED": ("\u25cf", "running"),
    "STEP_ATTEMPTED": ("\u25cf", "running"),
    "STEP_ATTEMPT_FAILED": ("\u2717", "bad"),
    "STEP_COMPLETED": ("\u2713", "good"),
    "STEP_FAILED": ("\u2717", "bad"),
    "EFFECT_INDOUBT": ("?", "doubt"),
    "EFFECT_RESOLVED": ("\u2713", "good"),
    "GATE_OPENED": ("\u25cb", "waits"),
    "GATE_ANSWERED": ("\u2713", "good"),
    "GATE_TIMED_OUT": ("\u2717", "waits"),
    "TIMER_SET": ("\u25cb", "waits"),
    "TIMER_FIRED": ("\u2713", "good"),
    "MESSAGE_AWAITED": ("\u25cb", "waits"),
    "MESSAGE_RECEIVED": ("\u2713", "good"),
    "MESSAGE_TIMED_OUT": ("\u2717", "waits"),
    "SCOPE_OPENED": ("\u252c", "quiet"),
    "SCOPE_CLOSED": ("\u2534", "quiet"),
    "SCOPE_CUT": ("\u2717", "bad"),
    "SCOPE_TIMED_OUT": ("\u2717", "waits"),
    "DECISION_RECORDED": ("\u25c6", "accent"),
    "STREAM_SETTLED": ("\u2713", "good"),
    "EXECUTION_STARTED": ("\u25b8", "running"),
    "EXECUTION_COMPLETED": ("\u2713", "good"),
    "EXECUTION_FAILED": ("\u2717", "bad"),
    "EXECUTION_CANCELLED": ("\u2717", "bad"),
    "EXECUTION_DIVERGED": ("\u2717", "bad"),
    "EXECUTION_DENIED": ("\u2717", "bad"),
    "EXECUTION_SUSPENDED": ("\u25cb", "waits"),
    "EXECUTION_RESUMED": ("\u25b8", "running"),
}
_PLAIN: Final = ("\u00b7", "quiet")
STATUS_SIGNS: Final[Mapping[str, tuple[str, str]]] = {
    "new": ("\u00b7", "quiet"),
    "running": ("\u25cf", "running"),
    "suspended": ("\u25cb", "waits"),
    "in_doubt": ("?", "doubt"),
    "diverged": ("\u2717", "bad"),
    "forked": ("\u25cb", "waits"),
    "paused": ("\u25cb", "waits"),
    "completed": ("\u2713", "good"),
    "failed": ("\u2717", "bad"),
    "cancelled": ("\u2717", "bad"),
    "continued": ("\u2713", "good"),
}


def row_line(log: OpenLog, model: Model, index: int, width: int) -> Iterator[Styled]:
    """Yield what the timeline shows of an event: number, time, lanes, type, what it is about and what it says."""
    row = log.rows[index]
    is_found = bool(log.sift.terms) and not model.only_matches and is_match(log, index)
    begin = "\u25c8" if index == model.mark else "\u2502" if is_found else " "
    yield Styled(begin, "mark" if index == model.mark else "accent")
    digits = max(len(str(max(log.moments.last, log.total - 1, 0))), 3)
    yield Styled(f"{row.sequence:>{digits}} ", "quiet")
    if width >= 60:
        yield Styled(f"{_clock(log, index, model.clock):>12} ", "quiet")
    yield Styled(" ")
    yield from _lanes(log, row)
    yield Styled(row.type.ljust(_TYPE_WIDTH), _SIGNS.get(row.type, _PLAIN)[1])
    yield from _about(log, row, log.event(index), width)


def _clock(log: OpenLog, index: int, clock: Clock) -> str:
    at = log.rows[index].at
    if clock == "time":
        return time_of_day(at)
    before = log.rows[0].at if clock == "since" else log.rows[max(index - 1, 0)].at
    return f"+{span(at - before)}"


def span(ms: int) -> str:
    """Return how long *ms* are, to the millisecond where that is told: `0.312`, `12.004`, `3m 20s`, `2d 4h`."""
    return f"{ms / 1000:.3f}" if abs(ms) < 60_000 else duration(ms)


def _lanes(log: OpenLog, row: Row) -> Iterator[Styled]:
    sign, style = _SIGNS.get(row.type, ("\u25c7", "accent") if row.type.startswith("user.") else _PLAIN)
    for column, lane in enumerate(row.live[:COLUMNS_SHOWN]):
        if column == row.column:
            yield Styled(sign, f"{style} strong")
        else:
            yield Styled("\u2502" if lane >= 0 else " ", lane_style(lane))
    if row.column < 0 or row.column >= COLUMNS_SHOWN:
        yield Styled(sign, f"{style} strong")
    more = len(row.live) - COLUMNS_SHOWN
    yield Styled(f" +{more} " if more > 0 else "  ", "quiet")


def lane_style(lane: int) -> str:
    """Return the style of a lane: beside each other they differ, the flow's own is quiet."""
    return "quiet" if lane <= 0 else LANES[lane % len(LANES)]


def _about(log: OpenLog, row: Row, event: Event, width: int) -> Iterator[Styled]:
    line = event_line(
        event, lambda start: log.timeline.calls[start].id if start in log.timeline.calls else f"event {start}"
    )
    yield Styled(f" {line.about}", "name")
    if row.took is not None:
        yield Styled(f"  {duration(row.took)}", "took")
    if line.says:
        yield Styled(f"  {one_line(line.says, width)}", "bad" if line.is_failure else "quiet")
    if line.value is not None:
        yield Styled(f"  {brief(as_read(line.value), width)}", "quiet")


# -- the line above ------------------------------------------------------------------------------------------------------


def head_line(log: OpenLog, model: Model) -> Iterator[Styled]:
    """Yield the first line: the run, how it stood at the cursor, and where that is."""
    yield Styled(f" {log.run_id} ", "title")
    if not log.rows:
        return
    state = log.state(model.at)
    facts = log.moments.now.facts
    yield Styled(f" {facts.flow}", "name")
    yield Styled(f" v{facts.version}  " if facts.version != "1" else "  ", "quiet")
    if state is not None:
        sign, style = STATUS_SIGNS.get(state.status, _PLAIN)
        yield Styled(f"{sign} {state.status}", f"{style} strong")
    now = log.moments.now.status
    if model.at != len(log.rows) - 1 and state is not None and now != state.status:
        yield Styled(f" (now {now})", "quiet")


def place_line(log: OpenLog, model: Model) -> Iterator[Styled]:
    """Yield where the cursor is: the event, when it was, and what it is compared with."""
    if not log.rows:
        yield Styled(" there is no event yet", "quiet")
        return
    row = log.rows[model.at]
    yield Styled(" event ", "quiet")
    yield Styled(f"{row.sequence}", "strong")
    yield Styled(f" of {log.moments.last}", "quiet")
    yield Styled(f"  {time_of_day(row.at)}", "quiet")
    yield Styled(f"  +{span(row.at - log.rows[0].at)}", "quiet")
    if model.mark is not None:
        yield Styled(f"  \u25c8 {log.rows[model.mark].sequence}", "mark")
    if log.sift.terms:
        going = "" if log.sifted >= len(log.rows) else " so far"
        yield Styled(f"  {len(log.matches):,} found{log.sift.without}{going}", "accent")
    if model.only_matches:
        yield Styled(" \u2261 filtered", "accent")
    if model.follows and not log.moments.now.is_terminal:
        yield Styled("  \u25cf live", "good")


def load_line(log: OpenLog, width: int) -> Iterator[Styled]:
    """Yield how much of the log was read, as a bar; nothing once all of it was."""
    if log.is_read or not log.total:
        return
    told = f" reading {len(log.rows):,} of {log.total:,} "
    room = max(width - len(told) - 1, 0)
    filled = room * len(log.rows) // log.total
    yield Styled(told, "quiet")
    yield Styled("\u2501" * filled, "accent")
    yield Styled("\u2500" * (room - filled), "quiet")
