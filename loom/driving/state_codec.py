"""Between the state of an execution and bytes: `decode(encode(state)) == state`, with what was one object one object again.

The events that a state holds are written by type, and the events of a type by column: all sequences, all times, then each
field of the payload. So names are written once, equal values once, numbers that grow as their differences; and reading a
column back is work for the interpreter's own loops, not for ours. All the rest of the state names its events by their place.
A column has the name of its field with it: a payload that got more optional fields since reads an old snapshot.

What this file knows of the state is its present shape; whoever changes that changes `FOLD_VERSION` or `STATE_CODEC_VERSION`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, repeat
from operator import itemgetter, sub
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import orjson
from rpds import HashTrieMap, List

from loom.core.child_names import CHILD_TOPIC, SPAWN
from loom.core.collecting import collected_later
from loom.core.envelope import NO_METADATA, EventEnvelope
from loom.core.facts import UserEvent
from loom.core.ids import ExecutionId, Incarnation
from loom.core.json import JsonObject
from loom.core.state import Attempts, ExecutionState, RunFacts, Settled
from loom.core.upcasting import upcast
from loom.kernel.fold import EVENTS, USER_PREFIX

STATE_CODEC_VERSION: Final = "1.0.0"

Event: TypeAlias = EventEnvelope[Any]
Places: TypeAlias = Mapping[int, int]
"""The place of an event among those that are written, by the identity of the object."""


class _Events(Protocol):
    """The events that a state names by their place."""

    def __getitem__(self, place: int, /) -> Event: ...


_EXACT_MAX: Final = 1 << 53
"""The differences of numbers below fit into 64 bits."""
_SAME: Final = "="
_GROWING: Final = "+"
_EVEN: Final = "++"


class NotAState(ValueError):
    """The bytes are no state that this code can read, or the state is none that it can write."""


def encode(state: ExecutionState) -> bytes:
    """Return *state* as JSON text, the same for equal states with their events in the same order.

    Raises:
        NotAState: it holds what has no place in a log: the state was not made by folding one.
    """
    try:
        with collected_later():
            return orjson.dumps(_written(state))
    except (TypeError, ValueError, AttributeError) as error:
        raise NotAState(f"{type(error).__name__}: {error}") from error


def decode(body: bytes) -> ExecutionState:
    """Return the state that *body* was encoded from.

    Raises:
        NotAState: it is no JSON, lacks something, or was written by code that knows more.
    """
    return _decoded(body, _whole)


def decode_unsettled(body: bytes) -> ExecutionState:
    """Return the state that *body* was encoded from, with those of its settled calls alone that may tell of children.

    A long run has settled nearly all that it asked, and who does not look at that need not have it made: of the rest there is
    little, and only that is read.

    Raises:
        As `decode`.
    """
    return _decoded(body, _unsettled)


def _decoded(body: bytes, read: Callable[[JsonObject], ExecutionState]) -> ExecutionState:
    try:
        with collected_later():
            return read(orjson.loads(body))
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise NotAState(f"{type(error).__name__}: {error}") from error


# ---- writing


def _written(state: ExecutionState) -> JsonObject:
    settled = list(state.settled)[::-1]
    cuts = [state.cuts[start] for start in sorted(state.cuts)]
    opened, gates = ([each[start] for start in sorted(each)] for each in (state.open, state.gates))
    by_type: dict[str, list[Event]] = {}
    for event in {id(event): event for event in _events_of(state, [*settled, *cuts], [*opened, *gates])}.values():
        by_type.setdefault(event.type, []).append(event)
    places = {id(event): place for place, event in enumerate(chain.from_iterable(by_type.values()))}
    return {
        "execution_id": state.execution_id,
        "status": state.status,
        "sequence": state.sequence,
        "at": state.at,
        "events": [_group(type_, events) for type_, events in by_type.items()],
        "settled": [_column([places[id(each[side])] for each in settled]) for side in (0, 1)],
        "cuts": [_column([places[id(each[side])] for each in cuts]) for side in (0, 1)],
        "open": _column([places[id(event)] for event in opened]),
        "gates": _column([places[id(event)] for event in gates]),
        "attempts": [[start, _changed(state.attempts[start], places)] for start in sorted(state.attempts)],
        "facts": _changed(state.facts, places),
    }


def _events_of(state: ExecutionState, pairs: Sequence[Settled], asked: Sequence[Event]) -> Iterator[Event]:
    """Return all events that *state* holds, some more than once; always in the same order."""
    yield from chain(map(itemgetter(0), pairs), map(itemgetter(1), pairs), asked, state.facts.outcomes)
    doubts = (state.attempts[start].doubt for start in sorted(state.attempts))
    odd = (state.facts.cancel, state.facts.grace_ended, state.facts.forked)
    yield from (event for event in (*doubts, *odd) if event is not None)


def _group(type_: str, events: Sequence[Event]) -> JsonObject:
    kind, version = _row(type_)
    if any(type(event.payload) is not kind for event in events):
        raise TypeError(f"a {type_} without its payload")
    columns = zip(*(event.payload for event in events), strict=True)
    about = {str(place): event.metadata for place, event in enumerate(events) if event.metadata}
    group = {
        "type": type_,
        "version": version,
        "sequence": _column([event.sequence for event in events]),
        "at": _column([event.at for event in events]),
        "fields": dict(zip(kind._fields, map(_column, columns), strict=True)),
    }
    return {**group, "metadata": about} if about else group


def _row(type_: str) -> tuple[Any, int]:
    """Return the payload of a type, and its version."""
    row = EVENTS.get(type_)
    if row is not None:
        return row.payload, row.version
    if type_.startswith(USER_PREFIX):
        return UserEvent, 1
    raise ValueError(f"{type_!r} is no known type")


def _column(values: Sequence[Any]) -> Any:
    """Return *values* in the shortest way: one value for all, even steps, the differences of integers, or as they are."""
    kinds = set(map(type, values))
    if len(kinds) == 1:
        [kind] = kinds
        if kind in {type(None), bool, int, str} and len(values) > 1 and values.count(values[0]) == len(values):
            return {_SAME: [values[0], len(values)]}
        if kind is int and min(values) > -_EXACT_MAX and max(values) < _EXACT_MAX:
            steps = list(map(sub, values[1:], values))
            if steps and steps.count(steps[0]) == len(steps):
                return {_EVEN: [values[0], steps[0], len(values)]}
            return {_GROWING: [values[0], *steps]}
    return list(values)


def _changed(record: RunFacts | Attempts, places: Places) -> JsonObject:
    """Return the fields of *record* that are not as they begin."""
    begin = record._field_defaults
    changed = {name: value for name, value in record._asdict().items() if value != begin[name]}
    return {name: _ODD[name].write(value, places) if name in _ODD else value for name, value in changed.items()}


# ---- reading


def _whole(whole: JsonObject) -> ExecutionState:
    run_id = ExecutionId(whole["execution_id"])
    events = list(chain.from_iterable(_events(run_id, group) for group in whole["events"]))
    return _read(whole, events, _pairs(whole["settled"], events))


def _unsettled(whole: JsonObject) -> ExecutionState:
    events = _OneByOne(ExecutionId(whole["execution_id"]), whole["events"])
    about = set(_about_children(whole["events"]))
    places = [pair for pair in zip(*map(_values, whole["settled"]), strict=True) if pair[0] in about] if about else []
    return _read(whole, events, [Settled(events[start], events[outcome]) for start, outcome in places])


def _read(whole: JsonObject, events: _Events, settled: Sequence[Settled]) -> ExecutionState:
    run_id = ExecutionId(whole["execution_id"])
    newest_first: List[Settled] = List(settled[::-1])
    attempts: dict[int, Attempts] = {s: _record(Attempts, changed, events) for s, changed in whole["attempts"]}
    return ExecutionState(
        run_id,
        whole["status"],
        whole["sequence"],
        whole["at"],
        _by_start(whole["open"], events),
        newest_first,
        _by_start(whole["gates"], events),
        HashTrieMap(attempts),
        HashTrieMap({each.start.sequence: each for each in _pairs(whole["cuts"], events)}),
        _record(RunFacts, whole["facts"], events),
    )


def _about_children(groups: Sequence[JsonObject]) -> Iterator[int]:
    """Return the places of what may have started a child, or waited for the end of one."""
    for begin, group in zip(_begins(groups), groups, strict=False):
        fields = group["fields"]
        if group["version"] < _row(group["type"])[1]:  # its fields may have had other names
            yield from range(begin, begin + _length(group["sequence"]))
        yield from (begin + at for at, id in enumerate(_values(fields.get("id", []))) if SPAWN in id)
        yield from (begin + at for at, topic in enumerate(_values(fields.get("topic", []))) if CHILD_TOPIC in topic)


def _begins(groups: Sequence[JsonObject]) -> list[int]:
    """Return the place of the first event of each group, and at last the number of all events."""
    return list(accumulate((_length(group["sequence"]) for group in groups), initial=0))


class _OneByOne:
    """The events of all *groups* by their place, each made when it is asked for first."""

    def __init__(self, run_id: ExecutionId, groups: Sequence[JsonObject]) -> None:
        self._run_id, self._groups, self._begins = run_id, groups, _begins(groups)
        self._opened: dict[int, JsonObject] = {}
        self._made: dict[int, Event] = {}

    def __getitem__(self, place: int) -> Event:
        if place not in self._made:
            number = bisect_right(self._begins, place) - 1
            if number not in self._opened:
                self._opened[number] = _opened(self._groups[number])
            [self._made[place]] = _events(self._run_id, _single(self._opened[number], place - self._begins[number]))
        return self._made[place]


def _opened(group: JsonObject) -> JsonObject:
    """Return a group whose columns are as long as they say, so that any of its events is found."""
    fields = {name: _values(column) for name, column in group["fields"].items()}
    return {**group, "sequence": _values(group["sequence"]), "at": _values(group["at"]), "fields": fields}


def _single(group: JsonObject, at: int) -> JsonObject:
    """Return of an opened group the event *at* that place alone."""
    about = group.get("metadata", {}).get(str(at), NO_METADATA)
    fields = {name: [column[at]] for name, column in group["fields"].items()}
    return {
        **group,
        "sequence": [group["sequence"][at]],
        "at": [group["at"][at]],
        "fields": fields,
        "metadata": {"0": about},
    }


def _events(run_id: ExecutionId, group: JsonObject) -> Sequence[Event]:
    type_, sequences, ats = group["type"], _values(group["sequence"]), _values(group["at"])
    about: Any = repeat(NO_METADATA, len(sequences))
    if "metadata" in group:
        about = [group["metadata"].get(str(place), NO_METADATA) for place in range(len(sequences))]
    payloads = _payloads(type_, group["version"], group["fields"], count=len(sequences))
    columns = zip(repeat(run_id, len(ats)), sequences, repeat(type_, len(ats)), ats, payloads, about, strict=True)
    return list(map(_new, repeat(EventEnvelope), columns))


def _payloads(type_: str, version: int, fields: JsonObject, *, count: int) -> Iterator[Any]:
    kind, present = _row(type_)
    if version > present:
        raise ValueError(f"{type_} version {version}")
    columns = {name: _values(column) for name, column in fields.items()}
    if version < present:
        return _upcast(type_, version, columns, count=count)
    if unknown := columns.keys() - set(kind._fields):
        raise ValueError(f"{type_} with {', '.join(sorted(unknown))}")
    begin = kind._field_defaults
    ordered = [columns[name] if name in columns else repeat(begin[name], count) for name in kind._fields]
    return map(_new, repeat(kind), zip(*ordered, strict=True) if ordered else repeat((), count))


def _upcast(type_: str, version: int, columns: Mapping[str, Sequence[Any]], *, count: int) -> Iterator[Any]:
    """Return payloads that were written in an earlier *version*, as the present one has them."""
    kind, present = _row(type_)
    for place in range(count):
        fields = {name: column[place] for name, column in columns.items() if column[place] is not None}
        yield kind(**upcast(type_, fields, written=version, present=present))


def _values(column: Any) -> Sequence[Any]:
    if type(column) is list:
        return column
    if _GROWING in column:
        return list(accumulate(column[_GROWING]))
    if _EVEN in column:
        first, step, count = column[_EVEN]
        return range(first, first + step * count, step)
    value, count = column[_SAME]
    return [value] * count


def _length(column: Any) -> int:
    """Return how many values a *column* has."""
    if type(column) is list:
        return len(column)
    return len(column[_GROWING]) if _GROWING in column else int(next(iter(column.values()))[-1])


def _picked(column: Any, events: _Events) -> Sequence[Event]:
    """Return the events at the places that *column* names."""
    return list(map(events.__getitem__, _values(column)))


def _pairs(columns: Any, events: _Events) -> list[Settled]:
    starts, outcomes = columns
    return list(map(_new, repeat(Settled), zip(_picked(starts, events), _picked(outcomes, events), strict=True)))


def _by_start(column: Any, events: _Events) -> HashTrieMap[int, Event]:
    return HashTrieMap({event.sequence: event for event in _picked(column, events)})


def _record(kind: Any, changed: JsonObject, events: _Events) -> Any:
    if unknown := changed.keys() - set(kind._fields):
        raise ValueError(f"{kind.__name__} with {', '.join(sorted(unknown))}")
    return kind(**{name: _ODD[name].read(value, events) if name in _ODD else value for name, value in changed.items()})


class _Odd(NamedTuple):
    """How a field is written and read that is no JSON."""

    write: Callable[[Any, Places], Any]
    read: Callable[[Any, _Events], Any]


_new: Final[Any] = tuple.__new__
_EVENT: Final = _Odd(lambda event, places: places[id(event)], lambda place, events: events[place])
_ODD: Final[Mapping[str, _Odd]] = {
    "cancel": _EVENT,
    "grace_ended": _EVENT,
    "doubt": _EVENT,
    "forked": _EVENT,
    "seeds": _Odd(
        lambda seeds, _: [list(each) for each in seeds], lambda pairs, _: tuple(tuple(pair) for pair in pairs)
    ),
    "outcomes": _Odd(
        lambda outcomes, places: [places[id(event)] for event in outcomes],
        lambda column, events: tuple(events[place] for place in column),
    ),
    "held": _Odd(lambda topics, _: sorted(topics), lambda topics, _: frozenset(topics)),
    "noted": _Odd(lambda noted, _: [list(pair) for pair in noted.items()], lambda pairs, _: dict(pairs)),
    "chain": _Odd(lambda lane, _: list(lane), lambda lane, _: (ExecutionId(lane[0]), Incarnation(lane[1]))),
}
"""The fields of the facts and the attempts that hold events, sets or keys that are no text."""
