"""What the page asks about runs: read from a store that it has no way to write to (spec 5.8, the replay inspector)."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from loom.core.errors import InvalidDeclaration, LoomError
from loom.core.ids import execution_id
from loom.core.state import ExecutionState
from loom.driving.run_reader import RunReader
from loom.lenses.folding import event_json, state_digest, state_json
from loom.lenses.sifting import SiftInvalid, fits, sift_of
from loom.spi.event_store import ExecutionQuery
from loom.spi.where import Where
from loom.spi.where_text import WhereInvalid, parse_where
from loom_cli.branches import branches_of
from loom_cli.deadlines import with_deadlines
from loom_cli.ids import meant_id
from loom_cli.readable import readable
from loom_cli.reading import children_of
from loom_cli.rows import cursor_of, row_json
from loom_cli.standing import stood, view_of, whole_json
from loom_cli.trials import stopped_trials
from loom_cli.web.kept_runs import KeptRun, KeptRuns
from loom_cli.web.shortening import at_path, compact, short
from loom_cli.web.views import branches_json, call_full, call_short, gates_json, line_json, moment_json, run_json

Json: TypeAlias = Any
Path: TypeAlias = Sequence[str | int]

LINES_MAX: Final = 500
CALLS_MAX: Final = 2_000
FOUND_MAX: Final = 1_000

WHOLE_MAX: Final = 64 << 20
"""So many bytes of one value are sent at most, when all of it is asked for."""


class NotThere(LoomError):
    """A run has no such event, or an event no such value."""

    code = "not-there"

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.hint = hint
        super().__init__(message)


class Wanted(NamedTuple):
    """Which runs a list shows; *text* is a condition, or what is in an id or a flow."""

    text: str = ""
    statuses: Sequence[str] = ()
    with_gates: bool = False
    before: str | None = None
    limit: int = 50


class Inspector:
    """Answers the page. Its store has no `append`: nothing here can change a run."""

    def __init__(self, store: RunReader, *, now_ms: Callable[[], int]) -> None:
        self.store, self._now_ms = store, now_ms
        self.kept = KeptRuns(store)

    async def runs(self, wanted: Wanted) -> Json:
        """Return the runs that are *wanted*, the newest first, and the cursor of those that follow.

        Raises:
            WhereInvalid: the text reads like a condition, and is none.
        """
        query = ExecutionQuery(
            statuses=wanted.statuses,
            with_gates=wanted.with_gates,
            tips=True,
            where=where_of(wanted.text, self._now_ms()),
            limit=wanted.limit + 1,
            before=cursor_of(wanted.before),
        )
        found = await with_deadlines(self.store, await self.store.find(query), self._now_ms())
        stopped = await stopped_trials(self.store, found[: wanted.limit])
        rows = [row_json(row, stopped=row.execution_id in stopped) for row in found[: wanted.limit]]
        more = rows[-1]["cursor"] if len(found) > wanted.limit else None
        return {"runs": rows, "more": more, "now": self._now_ms()}

    async def run(self, text: str) -> Json:
        """Return the head of a run's page: where it stands, what waits for a person, which runs it has to do with."""
        kept = await self._kept(text)
        state = kept.moments.now
        row = await self.store.row(kept.run_id)
        children = await children_of(self.store, kept.moments.events)
        kin = [{"id": each.execution_id, "flow": each.index.flow, "status": each.index.status} for each in children]
        told = run_json(state, row, kept.moments)
        stopped = bool(await stopped_trials(self.store, [] if row is None else [row]))
        return {**told, "stopped": stopped, "children": kin, "gates": gates_json(state), "now": self._now_ms()}

    async def lines(self, text: str, *, start: int, limit: int) -> Json:
        """Return up to *limit* events from the *start*-th that is there on, a line each, and how many there are."""
        kept = await self._kept(text)
        rows, events = kept.timeline.rows, kept.moments.events
        chosen = range(max(start, 0), min(start + min(limit, LINES_MAX), len(rows)))
        lines = [line_json(events[at], rows[at], kept.moments) for at in chosen]
        return {"start": chosen.start, "lines": lines, "total": len(rows), "last": kept.moments.last}

    async def found(self, text: str, words: str) -> Json:
        """Return the places of the events that *words* find, among all that are there, and which words must not be there.

        Raises:
            NotThere: they are no search.
        """
        kept = await self._kept(text)
        try:
            sift = sift_of(words)
        except SiftInvalid as invalid:
            raise NotThere(str(invalid)) from None
        rows, events = [*kept.timeline.rows], kept.moments.events
        hits = (at for at, row in enumerate(rows) if fits(sift, kept.timeline, row, events[at]))
        found = await asyncio.to_thread(lambda: list(islice(hits, FOUND_MAX + 1)))
        return {"found": found[:FOUND_MAX], "more": len(found) > FOUND_MAX, "without": sift.without}

    async def moment(self, text: str, n: int, against: int | None) -> Json:
        """Return what happened at event *n*, and what it changed."""
        kept = await self._kept(text)
        try:
            return moment_json(kept.moments, kept.timeline, n, against)
        except IndexError:
            raise self._no_event(kept, n) from None

    async def state(self, text: str, n: int) -> Json:
        """Return the folded state after event *n*, shortened, and its digest."""
        kept = await self._kept(text)
        state = self._state(kept, n)
        return await asyncio.to_thread(
            _state_told, state
        )  # of a long run it takes seconds: others are answered meanwhile

    async def whole(self, text: str, n: int | None) -> Json:
        """Return what `loom show ID --at N --json` prints."""
        found = await stood(self.store, text)
        if n is not None and n >= found.log.length:
            raise NotThere(f"{found.log.run_id} has no event {n}", hint=f"The last one is {found.log.length - 1}.")
        return whole_json(found, view_of(found, n), n)

    async def value(self, text: str, n: int, path: Path, *, of: str, base: Path | None = None) -> bytes:
        """Return the whole value at *path* of event *n*, or of the state after it, as JSON text.

        With *base*, what stands there is read as a person reads it first, without the tags of its types.

        Raises:
            NotThere: nothing is there, or it is too large to show.
        """
        kept = await self._kept(text)
        state = self._state(kept, n)
        root = await asyncio.to_thread(state_json, state) if of == "state" else event_json(kept.moments.event(n))
        try:
            within = root if base is None else readable(at_path(root, base))
            written = compact(at_path(within, path)).encode()
        except LookupError:
            raise NotThere(f"there is no such value at event {n} of {kept.run_id}") from None
        if len(written) > WHOLE_MAX:
            hint = f"loom logs {kept.run_id} --from {n} --json prints it."
            raise NotThere(f"this value has {len(written)} bytes, too many for a page", hint=hint)
        return written

    async def timeline(self, text: str, *, start: int, end: int | None) -> Json:
        """Return the calls that were open somewhere from event *start* to *end*, and the lanes they stand in.

        Where there are more than the page can show, those that were asked first are left out.
        """
        kept = await self._kept(text)
        last = kept.moments.last if end is None else min(end, kept.moments.last)
        within = [
            call
            for call in kept.timeline.calls.values()
            if call.start <= last and (not call.outcomes or call.outcomes[-1].end >= start)
        ]
        chosen = within[-CALLS_MAX:]
        lanes = {call.lane: kept.timeline.lanes[call.lane] for call in chosen}
        return {
            "start": start,
            "end": last,
            "calls": [call_short(call) for call in chosen],
            "lanes": {str(at): lane.path for at, lane in lanes.items()},
            "left_out": len(within) - len(chosen),
            "times": [_time_of(kept, start), _time_of(kept, last)],
        }

    async def call(self, text: str, start: int, n: int) -> Json:
        """Return one call in full, as it stood after event *n*."""
        kept = await self._kept(text)
        state = self._state(kept, n)
        call = kept.timeline.calls.get(start)
        if call is None:
            raise NotThere(f"event {start} of {kept.run_id} asked for nothing")
        return call_full(call, state, kept.moments)

    async def branches(self, text: str) -> Json:
        """Return the family of a run as a tree; nothing where the store keeps no branches."""
        try:
            return branches_json(await branches_of(self.store, text))
        except InvalidDeclaration:
            return []

    async def _kept(self, text: str) -> KeptRun:
        return await self.kept.get(await meant_id(self.store, execution_id(text)))

    def _state(self, kept: KeptRun, n: int) -> ExecutionState:
        try:
            return kept.moments.state_at(n)
        except IndexError:
            raise self._no_event(kept, n) from None

    def _no_event(self, kept: KeptRun, n: int) -> NotThere:
        return NotThere(f"{kept.run_id} has no event {n}", hint=f"The last one is {kept.moments.last}.")


def _time_of(kept: KeptRun, n: int) -> int:
    """Return when event *n* happened, or the first one after it that is there."""
    events = kept.moments.events
    return events[min(bisect_left(events, n, key=lambda event: event.sequence), len(events) - 1)].at


def _state_told(state: ExecutionState) -> Json:
    return {"n": state.sequence, "state": short(state_json(state)).as_json(), "digest": state_digest(state)}


def where_of(text: str, now_ms: int) -> Where | None:
    """Return the condition that *text* is, or that it stands in an id or a flow; None for no text.

    Raises:
        WhereInvalid: it reads like a condition, and is none.
    """
    text = text.strip()
    if not text:
        return None
    try:
        return parse_where(text, now_ms=now_ms)
    except WhereInvalid:
        if any(sign in text for sign in "=<>~()") or " " in text:
            raise
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return parse_where(f'id ~ "{quoted}" or flow ~ "{quoted}"', now_ms=now_ms)
