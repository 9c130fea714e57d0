"""The calls of a run as they stood at the cursor, a bar each on the time of the run. Pure.

The list is as long as the run has calls, and a line is made when it is seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from loom.lenses.timeline import Attempt, Call, call_status
from loom_cli.screen import Styled, cell_len
from loom_cli.times import duration
from loom_cli.tui.event_pane import STATUS_WORDS
from loom_cli.tui.model import Model
from loom_cli.tui.open_log import OpenLog
from loom_cli.tui.rows import lane_style

_NAME_WIDTH: Final = 30
_BAR_MIN: Final = 8


class CallLines:
    """The lines of the pane: one a call, in the order asked."""

    def __init__(self, log: OpenLog, model: Model) -> None:
        self._log, self._model = log, model
        self._calls: Sequence[Call] = list(log.timeline.calls.values())
        self._state = log.state(model.at) if log.rows else None
        self._begin = log.rows[0].at if log.rows else 0
        self._end = max(log.rows[-1].at if log.rows else 1, self._begin + 1)

    def __len__(self) -> int:
        return len(self._calls)

    def event_of(self, at: int) -> int:
        """Return the event that line *at* leads to: that which asked the call."""
        return self._log.index(self._calls[at].start)

    def at_cursor(self) -> int:
        """Return the line of the call at the cursor, or of the last one asked before."""
        here = self._log.rows[self._model.at]
        wanted = here.call if here.call is not None else here.sequence
        asked = [at for at in self._around(wanted) if self._calls[at].start <= wanted]
        return asked[-1] if asked else 0

    def _around(self, start: int) -> range:
        low, high = 0, len(self._calls)
        while low < high:
            middle = (low + high) // 2
            if self._calls[middle].start <= start:
                low = middle + 1
            else:
                high = middle
        return range(max(low - 1, 0), min(low, len(self._calls)))

    def line(self, at: int, width: int) -> Iterator[Styled]:
        """Yield the line of one call: its sign, name, how long it took, and its attempts as a bar."""
        call = self._calls[at]
        status = call_status(call, self._state) if self._state is not None else "void"
        sign, style, words = STATUS_WORDS[status]
        is_ahead = status == "ahead"
        name_width = min(_NAME_WIDTH, max(width // 3, 12))
        yield Styled(f" {sign} ", style)
        yield from _fitted(call, name_width, is_quiet=is_ahead)
        yield Styled(f"{self._took(call, status):>8} ", "quiet" if is_ahead else "took")
        room = width - name_width - 13 - 12
        if room >= _BAR_MIN:
            yield from self._bar(call, room, is_ahead=is_ahead)
        tries = len(call.attempts_at(self._state.sequence)) if self._state is not None else 0
        told = words if status not in ("done", "running") else ""
        told = f"{tries} attempts" if tries > 1 and not told else told
        yield Styled(f" {told}", style if not is_ahead else "quiet")

    def _took(self, call: Call, status: str) -> str:
        if self._state is None or status in ("ahead", "void") or call.kind in ("decision", "event", "stream"):
            return ""
        outcome = call.outcome_at(self._state.sequence) if call.start not in self._state.open else None
        if call.kind == "scope" and (outcome is None or outcome.end == call.start):
            return ""
        return duration((outcome.at if outcome is not None else self._state.at) - call.asked_at)

    def _bar(self, call: Call, room: int, *, is_ahead: bool) -> Iterator[Styled]:
        cells = [" "] * room
        styles = ["quiet"] * room
        for first, last, sign, style in self._parts(call):
            begin, end = self._column(first, room), max(self._column(last, room), self._column(first, room))
            for column in range(begin, end + 1):
                cells[column], styles[column] = sign, "quiet" if is_ahead else style
        here = self._column(self._log.rows[self._model.at].at, room)
        if cells[here] == " ":
            cells[here], styles[here] = "\u2502", "cursor"
        begin = 0
        for at in range(1, room + 1):
            if at == room or styles[at] != styles[begin]:
                yield Styled("".join(cells[begin:at]), styles[begin])
                begin = at

    def _parts(self, call: Call) -> Iterator[tuple[int, int, str, str]]:
        """Yield the parts of a bar, each with its times, its sign and its style: attempts, and the rests between them."""
        final = call.outcomes[-1].at if call.outcomes else self._end
        if call.kind == "step":
            yield call.asked_at, final, "\u2500", lane_style(call.lane)
            for attempt in call.attempts:
                yield attempt.began_at, attempt.ended_at or self._end, *_look(attempt, call)
        elif call.kind in ("decision", "event", "stream", "scope") and final == call.asked_at:
            yield final, final, "\u25c6", "accent"
        else:
            yield call.asked_at, final, "\u2504", "waits"

    def _column(self, at: int, room: int) -> int:
        part = (at - self._begin) / (self._end - self._begin)
        return min(max(int(part * room), 0), room - 1)


def _look(attempt: Attempt, call: Call) -> tuple[str, str]:
    if attempt.failure:
        return "\u2573", "bad"
    return "\u2501", lane_style(call.lane) if call.lane else "running"


def _fitted(call: Call, width: int, *, is_quiet: bool) -> Iterator[Styled]:
    lead = "  " * min(call.depth, 6)
    branch = call.id.split("/")[-2] + "/" if call.depth else ""
    name = f"{lead}{branch}{call.name}"
    cells = cell_len(name)
    if cells > width:
        name, cells = name[: width - 1] + "\u2026", width
    yield Styled(name + " " * (width - cells), "quiet" if is_quiet else "name")
