"""What a retry of a failed run makes void (kernel rule 8.1). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loom.core.envelope import EventEnvelope
from loom.core.facts import ExecutionRetried
from loom.core.identity import scope_of
from loom.core.state import ExecutionState, Settled
from loom.driving.errors import ExecutionCompensated, ExecutionNotFailed


def retried(state: ExecutionState) -> ExecutionRetried:
    """Return the fact that a retry of *state* adds.

    Void are: the failure that escaped (a step keeps its start, and its key; anything else is asked anew), what its scope
    asked after it, what each enclosing scope asked after the inner scope opened, and the cuts it caused. Siblings
    keep their records. An error of the author's own makes void what came after it: the scope it left, if any, keeps its
    branches' records and loses its cut. So does a scope whose time was over: it goes on where it stood, with its time anew.
    What is not idempotent keeps its record, and so does all that the body has to ask again on its way there.

    Raises:
        ExecutionNotFailed: the run is not failed.
        ExecutionCompensated: what a retry would build on was undone.
    """
    if state.status != "failed":
        raise ExecutionNotFailed(execution_id=state.execution_id, status=state.status)
    starts = {s.start.sequence: s.start for s in state.settled} | dict(state.open.items())
    generation = state.facts.generation + 1
    cause = starts.get(state.facts.cause) if state.facts.cause is not None else None
    if cause is None:
        return ExecutionRetried(generation=generation, void=[], reopened=[], cuts=[])
    limits = _limits(cause, list(starts.values()))
    # What is not idempotent is never made void: asked again at its place, its record, or its doubt, is served again.
    may_be = {s: start for s, start in starts.items() if _is_undo(start) or not getattr(start.payload, "once", None)}
    void = [s for s, start in may_be.items() if start.payload.ordinal > limits.get(scope_of(start.payload.id), 1 << 62)]
    reopened = [cause.sequence] if cause.type == "STEP_STARTED" else []
    if not reopened and cause.type != "SCOPE_OPENED":
        void.append(cause.sequence)
    # what was asked inside a scope that is itself void is void with it
    above = [starts[v] for v in void]
    void += [s for s, start in may_be.items() if s not in void and _inside(start, above)]
    if void:
        needed = _on_the_way(starts, cause)
        void = [v for v in void if v not in needed]
    cuts = {
        sequence: cut
        for sequence, cut in state.cuts.items()
        if sequence in void or sequence == cause.sequence or _inside(cause, [cut.start])
    }
    # ... and so is the clean-up of a branch that was cut and is now to go on where it stood
    void += [s for s, start in may_be.items() if s not in void and any(_cleans_up(start, c) for c in cuts.values())]
    if any(_is_undo(starts[sequence]) for sequence in void):
        raise ExecutionCompensated(execution_id=state.execution_id)
    return ExecutionRetried(generation, sorted(void), reopened, sorted(cuts))


def _on_the_way(starts: Mapping[int, EventEnvelope[Any]], cause: EventEnvelope[Any]) -> set[int]:
    """Return what comes, in its scope and in each above it, before something that keeps its record for good."""
    by_id = {start.payload.id: start for start in starts.values()}
    until: dict[str, int] = {}
    for kept in (start for start in starts.values() if getattr(start.payload, "once", None)):
        for each in _upward(kept, by_id):
            if each is cause:
                break
            scope = scope_of(each.payload.id)
            until[scope] = max(until.get(scope, -1), each.payload.ordinal)

    def is_needed(start: EventEnvelope[Any]) -> bool:
        own, *above = [
            (until.get(scope_of(each.payload.id), -1), each.payload.ordinal) for each in _upward(start, by_id)
        ]
        return own[1] <= own[0] or any(ordinal < last for last, ordinal in above)

    return {sequence for sequence, start in starts.items() if start is not cause and is_needed(start)}


def _upward(start: EventEnvelope[Any], by_id: Mapping[str, EventEnvelope[Any]]) -> Iterator[EventEnvelope[Any]]:
    """Yield *start*, and the opening of each scope that it is in, from the inside out."""
    now: EventEnvelope[Any] | None = start
    while now is not None:
        yield now
        scope = scope_of(now.payload.id)
        now = by_id.get(scope.rstrip("/").rpartition("/")[0]) if scope else None


def _cleans_up(start: EventEnvelope[Any], cut: Settled) -> bool:
    return start.sequence > cut.outcome.sequence and _inside(start, [cut.start])


def _is_undo(start: EventEnvelope[Any]) -> bool:
    return "#compensate:" in start.payload.id  # a sign of its own inside a name is escaped


def _limits(cause: EventEnvelope[Any], starts: list[EventEnvelope[Any]]) -> dict[str, int]:
    """Return, for the scope of *cause* and each above it, the ordinal after which everything is void."""
    by_id = {start.payload.id: start for start in starts}
    return {scope_of(each.payload.id): each.payload.ordinal for each in _upward(cause, by_id)}


def _inside(start: EventEnvelope[Any], scopes: list[EventEnvelope[Any]]) -> bool:
    text: str = start.payload.id
    return any(text.startswith(f"{scope.payload.id}/") for scope in scopes)
