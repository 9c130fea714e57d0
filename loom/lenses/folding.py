"""The state at any event, and its name. Every tool that shows a state gets it here, so that no two can disagree.

A log written by a newer Loom can be looked at: what this code does not know moves the sequence and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from loom.core.envelope import EventEnvelope
from loom.core.json import JsonObject
from loom.core.state import Attempts, ExecutionState, RunFacts, empty_state
from loom.driving.errors import LogCompacted
from loom.kernel.codec import EXTRA, payload_json
from loom.kernel.errors import LogCorrupt
from loom.kernel.fold import EVENTS, evolve
from loom.values import digest
from loom.values.canonical import assembled, digest_of_written, part

Event = EventEnvelope[Any]

_UNKNOWN: Final = "?"


def fold_at(events: Sequence[Event], n: int | None = None, *, base: ExecutionState | None = None) -> ExecutionState:
    """Return the state once event number *n* (None: the last) of a log has happened.

    *events* begin with number 0. With *base*, those up to its own may be missing, and are not looked at.

    Raises:
        IndexError: there is no event *n*.
        LogCompacted: it is before that of *base*.
        LogCorrupt: an event does not fit those before it.
    """
    tail = events if base is None else [event for event in events if event.sequence > base.sequence]
    first = 0 if base is None else base.length
    last = first + len(tail) - 1 if n is None else n
    if not 0 <= last < first + len(tail):
        raise IndexError(last)
    if base is not None and last <= base.sequence:
        if last == base.sequence:
            return base
        what = f"the state after event {last} is not known here"
        raise LogCompacted(execution_id=base.execution_id, through=base.sequence, what=what)
    [state] = deque(states(tail[: last - first + 1], base=base), maxlen=1)
    return state


def states(events: Iterable[Event], *, base: ExecutionState | None = None) -> Iterator[ExecutionState]:
    """Yield the state after each event of a log, from its first one on. They share what they have in common.

    With *base* they are the events after that one's.

    Raises:
        LogCorrupt: an event does not fit those before it.
    """
    state = base
    newer = False
    for event in events:
        newer = newer or is_newer(event)
        before = state if state is not None else empty_state(event.execution_id)
        state = evolved(before, event, forgiving=newer)
        yield state


def is_newer(event: Event) -> bool:
    """Tell whether *event* is of a kernel type, or of a version of one, that this code does not know."""
    return isinstance(event.payload, dict)


def legible(event: Event) -> Event:
    """Return *event* with a payload of its own type, as far as this code knows it; an unknown type as one of no meaning."""
    if not is_newer(event):
        return event
    row = EVENTS.get(event.type)
    known = {name: event.payload[name] for name in row.payload._fields if name in event.payload} if row else {}
    try:
        return event._replace(payload=row.payload(**known)) if row else event._replace(type=_UNKNOWN)
    except TypeError:  # it lacks what this version of the type has
        return event._replace(type=_UNKNOWN)


def event_json(event: Event) -> JsonObject:
    """Return *event* as the JSON object that it is for the world: payload as on the log, metadata when there is some."""
    payload, metadata = payload_json(event.payload), dict(event.metadata)
    payload = payload | metadata.pop(EXTRA, {}) if isinstance(payload, dict) else payload
    json = {"execution_id": event.execution_id, "sequence": event.sequence, "type": event.type, "at": event.at}
    return {**json, "payload": payload, **({"metadata": metadata} if metadata else {})}


def state_json(state: ExecutionState) -> JsonObject:
    """Return *state* as JSON: equal states give equal JSON, whatever order their maps have.

    What is empty, or as it is before anything happened, is left out: a field that a later version adds to the state
    does not rename the states of old logs.
    """
    return _state_json(state, event_json, lambda each: each)


def _state_json(state: ExecutionState, told: Callable[[Event], Any], plain: Callable[[Any], Any]) -> JsonObject:
    """Return the JSON of *state*, its events as they are *told*, and what else is an author's as *plain* has it."""
    attempts = ((start, attempts_json(each)) for start, each in sorted(state.attempts.items()))
    whole = {
        "execution_id": state.execution_id,
        "status": state.status,
        "sequence": state.sequence,
        "at": state.at,
        "open": [told(state.open[start]) for start in sorted(state.open)],
        "settled": [[told(settled.start), settled.outcome.sequence] for settled in state.settled],
        "outcomes": [told(settled.outcome) for settled in state.settled],
        "gates": sorted(state.gates),
        "attempts": [[start, plain(each)] for start, each in attempts],
        "cuts": [[start, told(cut.outcome)] for start, cut in sorted(state.cuts.items())],
        "facts": {name: plain(each) for name, each in facts_json(state.facts).items()},
    }
    return {name: each for name, each in whole.items() if each not in ([], {})}


def attempts_json(attempts: Attempts) -> JsonObject:
    """Return how an open step stands, as it is in the JSON of a state."""
    changed = _changed(attempts, attempts._fields)
    return changed if attempts.doubt is None else {**changed, "doubt": attempts.doubt.sequence}


def facts_json(facts: RunFacts, names: Iterable[str] = RunFacts._fields) -> JsonObject:
    """Return what is known of a run, as it is in the JSON of a state; of *names* alone."""
    return _changed(facts, names)


def _changed(record: RunFacts | Attempts, names: Iterable[str]) -> JsonObject:
    """Return those of the fields *names* of *record* that are not as they begin."""
    begin = record._field_defaults
    values = ((name, getattr(record, name)) for name in names)
    return {name: _as_json(value) for name, value in values if value != begin[name]}


def _as_json(value: Any) -> Any:
    """Return a field of the state, which may hold events and sets, as JSON."""
    match value:
        case EventEnvelope():
            return event_json(value)
        case frozenset():
            return sorted(value)
        case tuple():
            return [_as_json(each) for each in value]
        case Mapping():
            return {str(key): _as_json(each) for key, each in value.items()}
        case _:
            return value


def state_digest(state: ExecutionState) -> str:
    """Return the name of *state*'s content: equal exactly for equal states, on any machine."""
    return digest(state_json(state))


class StateDigests:
    """Names the states of one log, each as `state_digest` does: an event that is in many of them is written once."""

    def __init__(self) -> None:
        self._written: dict[int, tuple[Event, Any]] = {}

    def of(self, state: ExecutionState) -> str:
        """Return the name of *state*'s content."""
        return digest_of_written(assembled(_state_json(state, self._told, part)))

    def _told(self, event: Event) -> Any:
        known = self._written.get(id(event))
        if known is None:  # kept with the event itself, so that no other one gets its id
            known = self._written[id(event)] = event, part(event_json(event))
        return known[1]


def log_chain(events: Iterable[Event]) -> str:
    """Return the name of a log so far: each event is hashed with the name of all before it, so none can be changed."""
    chain = ""
    for event in events:
        chain = digest([chain, event_json(event)])
    return chain


def evolved(state: ExecutionState, event: Event, *, forgiving: bool) -> ExecutionState:
    """Return *state* once *event* has happened; *forgiving* once an event of the log was of a newer Loom.

    Raises:
        LogCorrupt: it does not fit those before it.
    """
    known = legible(event)
    try:
        return evolve(state, known)._replace(execution_id=event.execution_id)
    except LogCorrupt:
        if not forgiving:
            raise
        return evolve(state, event._replace(type=_UNKNOWN))  # what it refers to was of a kind that is not known here
