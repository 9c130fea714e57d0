"""What is different between two states: of one run at two events, or of two runs (spec 5.8, the replay inspector)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from loom.core.json import Json, JsonObject
from loom.core.missing import MISSING
from loom.core.state import ExecutionState
from loom.lenses.folding import state_json

_BY_SEQUENCE: Final = frozenset({"open", "outcomes"})
_BY_FIRST: Final = frozenset({"attempts", "cuts"})


class Change(NamedTuple):
    """One field that differs: its *path* in the state, and what stands there *before* and *after* (`MISSING`: nothing)."""

    path: tuple[str, ...]
    before: Any
    after: Any


def changes(before: ExecutionState, after: ExecutionState) -> list[Change]:
    """Return what differs between two states, in the order of the paths; none for states with the same digest.

    A call is found by the number of the event that asked it, so that one more settled call moves no other.
    """
    return list(_changes((), _keyed(state_json(before)), _keyed(state_json(after))))


def change_json(change: Change) -> JsonObject:
    """Return *change* as JSON; a side on which there is nothing is left out."""
    sides = {"before": change.before, "after": change.after}
    return {"path": list(change.path)} | {name: side for name, side in sides.items() if side is not MISSING}


def _keyed(state: JsonObject) -> JsonObject:
    """Return the JSON of a state with its lists by what names their items."""
    keyed = dict(state)
    for name in _BY_SEQUENCE & state.keys():
        keyed[name] = {str(event["sequence"]): event for event in state[name]}
    for name in _BY_FIRST & state.keys():
        keyed[name] = {str(key): value for key, value in state[name]}
    if "settled" in state:
        keyed["settled"] = {str(start["sequence"]): {"start": start, "by": by} for start, by in state["settled"]}
    return keyed


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
