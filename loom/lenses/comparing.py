"""Runs side by side, aligned by the identity of their syscalls: the first difference, and what it led to (spec D10).

Two runs are compared by what was asked and what came of it, and not by their events: when a thing happened, after how many
attempts and on which machine makes no difference, though all that is told beside. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from loom.core.json import Json, JsonObject
from loom.core.state import ExecutionState
from loom.lenses.execution import CallView, ExecutionView
from loom.lenses.folding import Event, event_json

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
    """One of the runs that are compared, as a whole: its state, how long it took, and the events that it shares with the first.

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


def compare(runs: Sequence[tuple[ExecutionState, ExecutionView, Sequence[Event]]]) -> Comparison:
    """Return *runs*, each with its state, its view and its events, side by side; the first one is what the others are held against."""
    first = runs[0][2]
    tables = [{call.id: call for call in view.calls} for _, view, _ in runs]
    places = {id: min(t[id].start for t in tables if id in t) for table in tables for id in table}
    ordered = sorted(places, key=lambda id: (places[id], id))
    found = [_difference(id, [table.get(id) for table in tables]) for id in ordered]
    differences = tuple(each for each in found if each is not None)
    is_whole = all(view.compacted is None for _, view, _ in runs)
    whole = tuple(
        _run(state, view, shared=_shared(first, events) if is_whole else None) for state, view, events in runs
    )
    return Comparison(runs=whole, alike=len(found) - len(differences), differences=differences)


def _run(state: ExecutionState, view: ExecutionView, *, shared: int | None) -> Run:
    forked, tried = state.facts.forked, [call.attempts for call in view.calls]
    return Run(
        id=view.id,
        flow=view.flow,
        status=view.status,
        digest=view.digest,
        length=view.last + 1,
        shared=shared,
        took_ms=view.at - view.started_at,
        calls=len(view.calls),
        attempts=None if None in tried else sum(filter(None, tried)),
        result=view.result,
        failure=view.failure,
        source=dict(forked.payload.source) if forked is not None else None,
        simulated=state.facts.simulated,
    )


def _shared(first: Sequence[Event], other: Sequence[Event]) -> int:
    """Return how many events both logs begin with, whosever they are."""
    count = 0
    for ours, theirs in zip(first, other, strict=False):
        if _content(ours) != _content(theirs):
            break
        count += 1
    return count


def _content(event: Event) -> JsonObject:
    return {name: value for name, value in event_json(event).items() if name != "execution_id"}


def _difference(id: str, calls: Sequence[CallView | None]) -> Difference | None:
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


def _side(call: CallView) -> Side:
    took = None if call.ended_at is None else call.ended_at - call.asked_at
    return Side(call.start, call.end, call.status, took, call.attempts, _essence(call.asked), _essence(call.outcome))


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
