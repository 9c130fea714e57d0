"""What a run is doing, as a tree: a fold of its durable events, and the lines that show it.

    update(progress, event) -> progress      one more durable event
    view(progress, now_ms) -> lines          the whole tree, as a terminal redraws it

The state is the kernel's own fold; beside it stands only what a fold need not remember: how often a settled step was tried.
Nothing here knows a terminal: a line is a mark, a name, a time and a note, and who draws it chooses the signs. Text of
authors and tools is passed on as it is; the screen makes it harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Literal, NamedTuple

from rpds import HashTrieMap

from loom.core.envelope import EDITED
from loom.core.identity import unescape
from loom.core.ids import ExecutionId
from loom.core.state import UNTRIED, ExecutionState, empty_state
from loom.kernel.fold import evolve
from loom_cli.times import duration
from loom_cli.wording import (
    Event,
    attempt_words,
    awaited_words,
    branches_words,
    counted,
    end_words,
    failure_of,
    failure_text,
    identity,
    joined,
    one_line,
    outcome_words,
    rest_words,
    until_words,
)

Mark = Literal["done", "failed", "running", "resting", "waiting", "sleeping", "in_doubt", "cut", "scope", "folded"]


class Progress(NamedTuple):
    """A run as of its last durable event.

    *tries* is how many attempts each step had, *again* those of which a person had the same attempt begin again,
    *attempts_max* how many the declaration of a step allows, by step id, as far as that is known.
    """

    state: ExecutionState
    tries: HashTrieMap[int, int]
    attempts_max: Mapping[str, int] = {}
    again: frozenset[int] = frozenset()


class Line(NamedTuple):
    """One line of the tree, *depth* levels below the flow."""

    depth: int
    mark: Mark
    name: str
    time: str = ""
    note: str = ""


def progress_of(
    events: Iterable[Event], *, base: ExecutionState | None = None, attempts_max: Mapping[str, int] | None = None
) -> Progress:
    """Return the progress that *events*, a log from its start or from *base* on, make."""
    nothing: HashTrieMap[int, int] = HashTrieMap()
    first = Progress(base or empty_state(ExecutionId("")), nothing, attempts_max or {})
    return reduce(update, events, first)


def update(progress: Progress, event: Event) -> Progress:
    """Return the progress once *event* is durable."""
    tries, again = progress.tries, progress.again
    if event.type == "STEP_ATTEMPT_FAILED":
        tries, again = tries.insert(event.payload.start, event.payload.attempt + 1), again - {event.payload.start}
    elif event.type == "EFFECT_RESOLVED" and event.payload.verdict == "retry":
        again |= {event.payload.start}
    return progress._replace(state=evolve(progress.state, event), tries=tries, again=again)


class _Place(NamedTuple):
    """A node of the tree: a syscall, from its *start* to its *outcome* (None: open), or a branch (no *start*)."""

    name: str
    start: Event | None
    outcome: Event | None
    below: dict[str, _Place]


class _Look(NamedTuple):
    """How to look at the tree: as of *now_ms*, with *kept* settled lines a level (None: all)."""

    progress: Progress
    now_ms: int
    kept: int | None


def view(progress: Progress, now_ms: int, *, rows: int | None = None) -> list[Line]:
    """Return the lines of the tree as of *now_ms*, at most *rows*: what is settled is folded first, then the oldest."""
    root = _tree(progress.state)
    lines: list[Line] = []
    for kept in (None, 12, 5, 2, 0):
        lines = list(_lines(_Look(progress, now_ms, kept), root, 0))
        if rows is None or len(lines) <= rows:
            return lines
    assert rows is not None
    hidden = len(lines) - max(rows - 1, 0)
    return [Line(0, "folded", f"{hidden} more"), *lines[hidden:]][:rows]


def _tree(state: ExecutionState) -> _Place:
    root = _Place("", None, None, {})
    asked: list[tuple[Event, Event | None]] = [(settled.start, settled.outcome) for settled in state.settled]
    asked += [(start, None) for start in state.open.values()]
    for start, outcome in sorted(asked, key=lambda pair: pair[0].sequence):
        *path, name = identity(start).split("/")
        place = root
        for part in path:
            place = place.below.setdefault(part, _Place(unescape(part), None, None, {}))
        known = place.below.get(name)
        place.below[name] = _Place(unescape(name), start, outcome, known.below if known else {})
    return root


def _lines(look: _Look, above: _Place, depth: int) -> Iterator[Line]:
    places = list(above.below.values())
    settled = [place.name for place in places if _is_settled(place)]
    folded = set(settled[: len(settled) - look.kept]) if look.kept is not None and len(settled) > look.kept + 1 else ()
    if folded:
        yield Line(depth, "folded", f"{len(folded)} done")
    for place in places:
        if place.name not in folded:
            yield from _place_lines(look, place, depth)


def _place_lines(look: _Look, place: _Place, depth: int) -> Iterator[Line]:
    if place.start is None and len(place.below) == 1:  # a branch of one syscall is one line
        [only] = place.below.values()
        yield from _place_lines(look, only._replace(name=f"{place.name}/{only.name}"), depth)
        return
    yield _line(look, place)._replace(depth=depth)
    yield from _lines(look, place, depth + 1)


def _is_settled(place: _Place) -> bool:
    """Whether all of *place* is done; a failure is never folded away."""
    if place.start is not None and (place.outcome is None or failure_of(place.outcome) is not None):
        return False
    return all(_is_settled(below) for below in place.below.values())


def _line(look: _Look, place: _Place) -> Line:
    start, outcome, name = place.start, place.outcome, place.name
    if start is None:
        return Line(0, "scope", name)
    if start.type == "SCOPE_OPENED":
        return _scope_line(look, start, name)
    if outcome is None:
        return _open_line(look, start, name)
    failure = failure_of(outcome)
    is_own = outcome is not start and EDITED not in outcome.metadata  # an edit puts an outcome there, whenever that is
    time = duration(outcome.at - start.at) if is_own else ""
    tried = tried_words(look.progress, start)
    if failure is not None:
        return Line(0, "failed", name, time, joined(tried, one_line(failure)))
    return Line(0, "done", name, time, joined(tried, outcome_words(outcome)))


def _scope_line(look: _Look, start: Event, name: str) -> Line:
    cut = look.progress.state.cuts.get(start.sequence)
    if cut is not None:
        why = end_words(cut.outcome.type, cut.outcome.payload._asdict())
        is_closed = cut.outcome.type == "SCOPE_CLOSED"
        return Line(0, "scope" if is_closed else "cut", name, "", why if is_closed else f"cut, because {why}")
    return Line(0, "scope", name, "", branches_words(start))


def _open_line(look: _Look, start: Event, name: str) -> Line:
    state, due_at = look.progress.state, getattr(start.payload, "due_at", None)
    if any(identity(start).startswith(f"{identity(cut.start)}/") for cut in state.cuts.values()):
        return Line(0, "cut", name, "", "cut")
    if start.type == "GATE_OPENED":
        waited = duration(max(look.now_ms - start.at, 0))
        return Line(0, "waiting", name, waited, joined("waits for an answer", until_words(due_at, look.now_ms)))
    if start.type == "MESSAGE_AWAITED":
        waited = duration(max(look.now_ms - start.at, 0))
        awaited = f"waits for {awaited_words(start.payload.topic)}"
        return Line(0, "waiting", name, waited, joined(awaited, until_words(due_at, look.now_ms)))
    if start.type == "TIMER_SET":
        return Line(0, "sleeping", name, "", until_words(due_at, look.now_ms))
    return _step_line(look, start, name)


def _step_line(look: _Look, start: Event, name: str) -> Line:
    progress, waited = look.progress, duration(max(look.now_ms - start.at, 0))
    known = progress.state.attempts.get(start.sequence, UNTRIED)
    attempt = attempt_words(known.failed + 1, start, progress.attempts_max)
    if known.doubt is not None:
        return Line(0, "in_doubt", name, waited, f"in doubt: {one_line(known.doubt.payload.reason)}")
    if known.last is not None and not known.in_flight and known.due_at > look.now_ms:
        rest = f"{attempt} in {rest_words(known.due_at - look.now_ms)}"
        return Line(0, "resting", name, waited, joined(rest, one_line(failure_text(known.last))))
    if progress.state.status != "running":
        return Line(0, "running", name, "", "not ended")
    again = "again" if start.sequence in progress.again else ""
    return Line(0, "running", name, waited, joined(attempt if known.failed else "", again))


def tried_words(progress: Progress, start: Event) -> str:
    """Return how many attempts a settled step took, empty for one."""
    tries = progress.tries.get(start.sequence, 1)
    return counted(tries, "attempt", "attempts") if tries > 1 else ""
