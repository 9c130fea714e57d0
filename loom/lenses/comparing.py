"""Runs side by side, aligned by the identity of their syscalls: the first difference, and what it led to (spec D10).

Two runs are compared by what was asked and what came of it, and not by their events: when a thing happened, after how many
attempts and on which machine makes no difference, though all that is told beside. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from loom.core.collecting import collected_later
from loom.core.json import Json, JsonObject
from loom.driving.stored_log import StoredLog
from loom.lenses.execution import Asked, CallView, asked_of
from loom.lenses.folding import Event, fold_at, legible, state_digest

Pair: TypeAlias = tuple[Event, Event | None]
What: TypeAlias = Literal["asked", "outcome", "missing"]
"""How a call differs: in what it was asked with, in what came of it, or in being there at all."""

_INCIDENTAL: Final = frozenset(
    {"ordinal", "digest", "gen", "due_at", "start", "number", "sent_at", "attempts", "shown"}
)
"""Fields of payloads that say where or when, and not what."""


class Side(NamedTuple):
    """A call in one of the runs: where it starts, how it stands, what it was asked with and what came of it, as on the log.

    *attempts* is None where the log does not tell any more.
    """

    sequence: int
    end: int | None
    status: str
    took_ms: int | None
    attempts: int | None
    asked: JsonObject
    outcome: JsonObject


class Difference(NamedTuple):
    """A call that is not alike in all runs: its *id* and kind, *what* differs, and its side in each run (None: it is not there)."""

    id: str
    kind: str
    what: What
    sides: tuple[Side | None, ...]


class Run(NamedTuple):
    """One of the runs that are compared, as a whole: its state, how long it took (a fork: since it was forked), and the events that it shares with the first.

    *shared* and *attempts* are None where they cannot be known, since events were moved to an archive.
    """

    id: str
    flow: str
    status: str
    digest: str
    length: int
    shared: int | None
    took_ms: int
    calls: int
    attempts: int | None
    result: Json
    failure: Mapping[str, Any] | None
    source: JsonObject | None
    simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Several runs side by side; *alike* is how many calls they have in common in every respect.

    *differences* are in the order in which the runs came to them: the first one is where they part.
    """

    runs: tuple[Run, ...]
    alike: int
    differences: tuple[Difference, ...]

    @property
    def is_same(self) -> bool:
        """Whether the runs did the same, and came to the same."""
        ends = {(run.status, repr(run.result), repr(run.failure)) for run in self.runs}
        return not self.differences and len(ends) == 1


def compare(logs: Sequence[StoredLog]) -> Comparison:
    """Return the runs of *logs* side by side; the first one is what the others are held against.

    Raises:
        LogCorrupt: an event does not fit those before it.
    """
    with collected_later():
        runs = [_asked(log) for log in logs]
        tables = [{_id(start): place for place, (start, _) in asked.pairs.items()} for asked in runs]
        places: dict[str, int] = {}
        for table in tables:
            for id, place in table.items():
                places[id] = min(place, places.get(id, place))
        ordered = sorted(places, key=lambda id: (places[id], id))
        found = (_difference(id, runs, [table.get(id) for table in tables]) for id in ordered)
        differences = tuple(each for each in found if each is not None)
        is_whole = all(log.base is None for log in logs)
        whole = tuple(
            _run(asked, log, shared=_shared(logs[0].events, log.events) if is_whole else None)
            for asked, log in zip(runs, logs, strict=True)
        )
    return Comparison(runs=whole, alike=len(ordered) - len(differences), differences=differences)


def _asked(log: StoredLog) -> Asked:
    return asked_of(fold_at(log.events, base=log.base), log.events, base=log.base)


def _id(start: Event) -> str:
    id: str = (start if type(start.payload) is not dict else legible(start)).payload.id
    return id


def _run(asked: Asked, log: StoredLog, *, shared: int | None) -> Run:
    state, facts = asked.state, asked.state.facts
    tried = [asked.attempts(*pair) for pair in asked.pairs.values()]
    return Run(
        id=state.execution_id,
        flow=facts.flow,
        status=state.status,
        digest=state_digest(state),
        length=log.length,
        shared=shared,
        took_ms=max(state.at - (facts.forked.at if facts.forked is not None else facts.started_at), 0),
        calls=len(tried),
        attempts=None if None in tried else sum(filter(None, tried)),
        result=facts.result,
        failure=facts.failure,
        source=dict(facts.forked.payload.source) if facts.forked is not None else None,
        simulated=facts.simulated,
    )


def _shared(first: Sequence[Event], other: Sequence[Event]) -> int:
    """Return how many events both logs begin with, whosever they are."""
    count = 0
    for ours, theirs in zip(first, other, strict=False):
        if ours[1:] != theirs[1:]:
            break
        count += 1
    return count


def _difference(id: str, runs: Sequence[Asked], places: Sequence[int | None]) -> Difference | None:
    """Return how the calls differ that are at these *places* of the *runs*, None: not at all."""
    pairs = [asked.pairs[place] if place is not None else None for asked, place in zip(runs, places, strict=True)]
    if all(_is_alike(pairs[0], pair) for pair in pairs[1:]):
        return None
    calls = [asked.call(place) if place is not None else None for asked, place in zip(runs, places, strict=True)]
    there = [call for call in calls if call is not None]
    if len(there) < len(calls):
        what: What = "missing"
    elif any(_essence(call.asked) != _essence(there[0].asked) for call in there):
        what = "asked"
    elif any((call.status, _essence(call.outcome)) != (there[0].status, _essence(there[0].outcome)) for call in there):
        what = "outcome"
    else:
        return None
    return Difference(id, there[0].kind, what, tuple(None if call is None else _side(call) for call in calls))


def _is_alike(one: Pair | None, other: Pair | None) -> bool:
    """Whether two calls are seen to be alike at a glance, as nearly all are; those that are not are looked at."""
    if one is None or other is None or one[1] is None or other[1] is None:
        return False
    return all(
        ours.type == theirs.type
        and type(ours.payload) is type(theirs.payload) is not dict
        and _essential(ours.payload) == _essential(theirs.payload)
        for ours, theirs in ((one[0], other[0]), (one[1], other[1]))
    )


def _essential(payload: Any) -> Any:
    """Return what a *payload* says, without where and when."""
    return _getter(payload._fields)(payload)


@cache
def _getter(fields: tuple[str, ...]) -> Callable[[Any], Any]:
    kept = [place for place, name in enumerate(fields) if name not in _INCIDENTAL and name != "id"]
    return itemgetter(*kept) if kept else lambda payload: None


def _side(call: CallView) -> Side:
    return Side(
        call.start, call.end, call.status, call.took_ms, call.attempts, _essence(call.asked), _essence(call.outcome)
    )


def _essence(payload: Mapping[str, Any]) -> JsonObject:
    """Return what a payload says, without where and when; a failure without the places in the code it came from."""
    kept = {name: value for name, value in payload.items() if name not in _INCIDENTAL and name != "id"}
    if isinstance(failure := kept.get("failure"), Mapping):
        kept["failure"] = {name: failure[name] for name in ("type", "message", "channel", "payload") if name in failure}
    return kept


def comparison_json(comparison: Comparison) -> JsonObject:
    """Return the whole of *comparison* as JSON."""
    return {
        "same": comparison.is_same,
        "alike": comparison.alike,
        "runs": [run._asdict() for run in comparison.runs],
        "differences": [
            {
                "id": each.id,
                "kind": each.kind,
                "what": each.what,
                "sides": [None if side is None else side._asdict() for side in each.sides],
            }
            for each in comparison.differences
        ],
    }
