"""What is different between two states: of one run at two events, or of two runs (spec 5.8, the replay inspector)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from loom.core.envelope import EventEnvelope
from loom.core.json import Json, JsonObject
from loom.core.missing import MISSING
from loom.core.state import Attempts, ExecutionState, RunFacts, Settled
from loom.lenses.folding import attempts_json, event_json, facts_json

Event = EventEnvelope[Any]
K = TypeVar("K")
V = TypeVar("V")


class Change(NamedTuple):
    """One field that differs: its *path* in the state, and what stands there *before* and *after* (`MISSING`: nothing)."""

    path: tuple[str, ...]
    before: Any
    after: Any


def changes(before: ExecutionState, after: ExecutionState, *, in_common: int = 0) -> list[Change]:
    """Return what differs between two states, in the order of the paths; none for states with the same digest.

    A call is found by the number of the event that asked it, so that one more settled call moves no other. *in_common* is how
    many of the calls that settled first both are known to have: they are not compared, so that it costs what differs.
    """
    return list(_changes((), *_sides(before, after, in_common)))


def change_json(change: Change) -> JsonObject:
    """Return *change* as JSON; a side on which there is nothing is left out."""
    sides = {"before": change.before, "after": change.after}
    return {"path": list(change.path)} | {name: side for name, side in sides.items() if side is not MISSING}


class _Items(NamedTuple):
    """Of a state, the items that another does not have or has otherwise."""

    settled: Mapping[int, Settled]
    open: Mapping[int, Event]
    attempts: Mapping[int, Attempts]
    cuts: Mapping[int, Settled]
    facts: Mapping[str, Any]


def _sides(before: ExecutionState, after: ExecutionState, in_common: int) -> tuple[JsonObject, JsonObject]:
    """Return the JSON of two states with their lists by what names their items, without items that are the same in both."""
    parts = (
        _apart(_settled(before, in_common), _settled(after, in_common)),
        _apart(_sorted(before.open), _sorted(after.open)),
        _apart(_sorted(before.attempts), _sorted(after.attempts)),
        _apart(_sorted(before.cuts), _sorted(after.cuts)),
        _apart(before.facts._asdict(), after.facts._asdict()),
    )
    left, right = (_Items(*items) for items in zip(*parts, strict=True))
    return _side(before, left), _side(after, right)


def _settled(state: ExecutionState, in_common: int) -> dict[int, Settled]:
    """Return the calls that settled after the first *in_common* that did, by their start."""
    newest = islice(state.settled, len(state.settled) - in_common)
    return {settled.start.sequence: settled for settled in sorted(newest, key=lambda settled: settled.start.sequence)}


def _sorted(by_start: Mapping[int, V]) -> dict[int, V]:
    return {start: by_start[start] for start in sorted(by_start)}


def _apart(before: dict[K, V], after: dict[K, V]) -> tuple[dict[K, V], dict[K, V]]:
    """Return two maps without the entries that are in both."""

    def without(one: dict[K, V], other: dict[K, V]) -> dict[K, V]:
        return {key: value for key, value in one.items() if key not in other or value != other[key]}

    return without(before, after), without(after, before)


def _side(state: ExecutionState, items: _Items) -> JsonObject:
    """Return the JSON of *state* with only these items of it; what it has none of at all is left out."""
    settled = items.settled
    by_outcome = sorted(settled.values(), key=lambda each: each.outcome.sequence)
    parts: list[tuple[str, object, Json]] = [
        ("execution_id", True, state.execution_id),
        ("status", True, state.status),
        ("sequence", True, state.sequence),
        ("at", True, state.at),
        ("open", state.open, {str(start): event_json(event) for start, event in items.open.items()}),
        ("settled", state.settled, {str(start): _settled_json(each) for start, each in settled.items()}),
        ("outcomes", state.settled, {str(each.outcome.sequence): event_json(each.outcome) for each in by_outcome}),
        ("gates", state.gates, sorted(state.gates)),
        ("attempts", state.attempts, {str(start): attempts_json(each) for start, each in items.attempts.items()}),
        ("cuts", state.cuts, {str(start): event_json(cut.outcome) for start, cut in items.cuts.items()}),
        ("facts", state.facts != RunFacts(), facts_json(state.facts, items.facts)),
    ]
    return {name: part for name, has_some, part in parts if has_some}


def _settled_json(settled: Settled) -> JsonObject:
    return {"start": event_json(settled.start), "by": settled.outcome.sequence}


def _changes(path: tuple[str, ...], before: Json, after: Json) -> Iterator[Change]:
    if before == after:
        return
    if not (isinstance(before, dict) and isinstance(after, dict)):
        yield Change(path, before, after)
        return
    for name in sorted(
        {*before, *after}, key=lambda name: (name.isdecimal(), int(name) if name.isdecimal() else 0, name)
    ):
        yield from _changes((*path, name), before.get(name, MISSING), after.get(name, MISSING))
