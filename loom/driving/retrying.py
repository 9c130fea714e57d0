"""What a retry of a failed run makes void (kernel rule 8.1). Pure."""

from __future__ import annotations

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
    branches' records and loses its cut. A scope whose time was over is asked anew, with all that is in it.

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
    cut = state.cuts.get(cause.sequence)
    is_late = cut is not None and cut.outcome.type == "SCOPE_TIMED_OUT"  # it needs its time anew
    if not reopened and (cause.type != "SCOPE_OPENED" or is_late):
        void.append(cause.sequence)
    # what was asked inside a scope that is itself void is void with it
    above = [starts[v] for v in void]
    void += [s for s, start in may_be.items() if s not in void and _inside(start, above)]
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


def _cleans_up(start: EventEnvelope[Any], cut: Settled) -> bool:
    return start.sequence > cut.outcome.sequence and _inside(start, [cut.start])


def _is_undo(start: EventEnvelope[Any]) -> bool:
    return "#compensate:" in start.payload.id  # a sign of its own inside a name is escaped


def _limits(cause: EventEnvelope[Any], starts: list[EventEnvelope[Any]]) -> dict[str, int]:
    """Return, for the scope of *cause* and each above it, the ordinal after which everything is void."""
    by_id = {start.payload.id: start for start in starts}
    limits: dict[str, int] = {}
    now: EventEnvelope[Any] | None = cause
    while now is not None:
        scope = scope_of(now.payload.id)
        limits[scope] = now.payload.ordinal
        now = by_id.get(scope.rstrip("/").rpartition("/")[0]) if scope else None
    return limits


def _inside(start: EventEnvelope[Any], scopes: list[EventEnvelope[Any]]) -> bool:
    text: str = start.payload.id
    return any(text.startswith(f"{scope.payload.id}/") for scope in scopes)
