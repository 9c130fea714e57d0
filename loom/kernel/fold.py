"""The fold: what each fact means for the state. `fold(events)` gives what `reduce(evolve, events, state)` gives.

Rules of this file: a handler is pure, takes the state and the event, and makes one new state. It never asks who is
looking. A syscall is *open* from the fact that asked it to the fact that settled it; a fact that is its own outcome
(a decision, an emit, the opening of a scope) is settled at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from typing import Any, Final, NamedTuple, TypeAlias

from rpds import HashTrieMap, List

from loom.core import facts as f
from loom.core.envelope import SIMULATED, EventEnvelope
from loom.core.state import UNTRIED, Attempts, ExecutionState, RunFacts, Settled, is_cut
from loom.kernel.errors import LogCorrupt

Event: TypeAlias = EventEnvelope[Any]
Handler: TypeAlias = Callable[[ExecutionState, Event], ExecutionState]

EVENT_SCHEMA_VERSION: Final = "1.0.0"
RULES: Final[Mapping[str, int]] = {"identity": 1, "delivery": 1, "derivation": 1}
"""The versions of the rules that a log is written under; a later kernel runs it by them (kernel rule 10.3)."""
USER_PREFIX: Final = "user."
"""Types of the author's own events start so; only they may be unknown to the kernel."""
_NO_GATES: Final[HashTrieMap[int, Event]] = HashTrieMap()
_new: Final[Callable[[tuple[Any, ...]], ExecutionState]] = partial(tuple.__new__, ExecutionState)
"""Makes a state without the frame that its own constructor is: one is made for every event."""


def fold(events: Iterable[Event], state: ExecutionState) -> ExecutionState:
    """Return the state once *events* have happened after *state*, in order.

    Most events are steps that end before anything else happens. For those the step is not opened first: the state in
    between, which nobody is given, is half of what a fold would make.
    """
    begun: Event | None = None
    for event in events:
        if begun is not None and type(event.payload) is f.StepCompleted and event.payload.start == begun.sequence:
            state, begun = _done_at_once(state, begun, event), None
            continue
        state, begun = state if begun is None else evolve(state, begun), None
        if event.type == "STEP_STARTED":
            begun = event
        else:
            state = evolve(state, event)
    return state if begun is None else evolve(state, begun)


def evolve(state: ExecutionState, event: Event) -> ExecutionState:
    """Return the state once *event* has happened; an unknown type moves the sequence only.

    Raises:
        LogCorrupt: the event cannot follow what is folded: it settles what was never asked, say.
    """
    handler = _HANDLERS.get(event.type)
    if handler is None:
        return _user_event(state, event) if event.type.startswith(USER_PREFIX) else _moved(state, event)
    try:
        return handler(state, event)
    except (KeyError, StopIteration, TypeError, AttributeError) as error:
        why = f"{event.type} does not fit what came before it ({type(error).__name__}: {error})"
        raise LogCorrupt(execution_id=event.execution_id, sequence=event.sequence, why=why) from error


def _moved(s: ExecutionState, e: Event) -> ExecutionState:
    return _new((s[0], s[1], e.sequence, e.at, *s[4:]))


def _facts(s: ExecutionState, e: Event, status: Any, gates: Any = None, **changes: Any) -> ExecutionState:
    facts, gates = s[9]._replace(**changes), s[6] if gates is None else gates
    return ExecutionState(s[0], status, e.sequence, e.at, s[4], s[5], gates, s[7], s[8], facts)


def _execution_started(s: ExecutionState, e: Event) -> ExecutionState:
    p: f.ExecutionStarted = e.payload
    principal = e.metadata.get("principal")
    known = {"rules": p.rules, "input": p.input, "defaulted": p.defaulted, "attributes": p.attributes or {}}
    known |= {"chain": tuple(p.chain) if p.chain else None, "link": p.link or 1, "parent": p.parent, "due_at": p.due_at}
    known["simulated"] = SIMULATED in e.metadata
    facts = RunFacts(p.flow, p.version, p.fingerprint, p.seed, principal=principal, started_at=e.at, drives=1, **known)
    return s._replace(execution_id=e.execution_id, status="running", sequence=e.sequence, at=e.at, facts=facts)


def _execution_suspended(s: ExecutionState, e: Event) -> ExecutionState:
    return _facts(s, e, _parked(s), wake_at=e.payload.wake_at, why=e.payload.why)


def _parked(s: ExecutionState) -> str:
    return "in_doubt" if any(start.type == "STEP_STARTED" for start in s.gates.values()) else "suspended"


def _execution_resumed(s: ExecutionState, e: Event) -> ExecutionState:
    changes: Any = {"recoveries": s.facts.recoveries if e.payload.cut_off else 0, "drives": s.facts.drives + 1}
    changes["simulated"] = s.facts.simulated or SIMULATED in e.metadata
    return _facts(s, e, "running", wake_at=None, why=None, difference=None, **changes)


def _execution_taken_over(s: ExecutionState, e: Event) -> ExecutionState:
    if e.payload.found == "released":  # its driver stopped softly: nothing was lost
        return _moved(s, e)
    attempts = s.attempts
    for sequence, start in s.open.items():
        known = attempts.get(sequence, UNTRIED)
        if start.type == "STEP_STARTED" and known.in_flight and known.doubt is None:
            attempts = attempts.insert(sequence, known._replace(crashes=known.crashes + 1))
    return _facts(s, e, s.status, recoveries=s.facts.recoveries + 1)._replace(attempts=attempts)


def _execution_paused(s: ExecutionState, e: Event) -> ExecutionState:
    return _facts(s, e, "paused", wake_at=None, why=None, is_paused=True)


def _execution_unpaused(s: ExecutionState, e: Event) -> ExecutionState:
    return _facts(s, e, "suspended", wake_at=e.at, is_paused=False)


def _cancel_requested(s: ExecutionState, e: Event) -> ExecutionState:
    return _facts(s, e, s.status, reduce(HashTrieMap.discard, e.payload.closed or (), s.gates), cancel=e)


def _grace_ended(s: ExecutionState, e: Event) -> ExecutionState:
    return _facts(s, e, s.status, _NO_GATES, grace_ended=e)


def _execution_cancelled(s: ExecutionState, e: Event) -> ExecutionState:
    changes: Any = {"failure": e.payload.failure, "cancel": s.facts.cancel or e}
    return _facts(s, e, "cancelled", _NO_GATES, wake_at=None, why=None, **changes)


def _execution_continued(s: ExecutionState, e: Event) -> ExecutionState:
    return _facts(s, e, "continued", _NO_GATES, wake_at=None, next=e.payload.next)


def _outcome_attached(s: ExecutionState, e: Event) -> ExecutionState:
    return _facts(s, e, s.status, outcomes=(*s.facts.outcomes, e))


def _topic_held(s: ExecutionState, e: Event) -> ExecutionState:
    return _facts(s, e, s.status, held=s.facts.held | {e.payload.topic})


def _topic_released(s: ExecutionState, e: Event) -> ExecutionState:
    return _facts(s, e, s.status, held=s.facts.held - {e.payload.topic})


def _execution_completed(s: ExecutionState, e: Event) -> ExecutionState:
    return _facts(s, e, "completed", _NO_GATES, wake_at=None, result=e.payload.result)


def _execution_failed(s: ExecutionState, e: Event) -> ExecutionState:
    return _facts(s, e, "failed", _NO_GATES, wake_at=None, failure=e.payload.failure, cause=e.payload.cause)


def _execution_retried(s: ExecutionState, e: Event) -> ExecutionState:
    p: f.ExecutionRetried = e.payload
    void, reopened = set(p.void), set(p.reopened)
    kept = [x for x in s.settled if x.start.sequence not in void and x.start.sequence not in reopened]
    opened, attempts = s.open, s.attempts
    for sequence in void:
        opened, attempts = opened.discard(sequence), attempts.discard(sequence)
    for settled in s.settled:
        if settled.start.sequence in reopened:
            opened = opened.insert(settled.start.sequence, settled.start)
            attempts = attempts.insert(settled.start.sequence, Attempts(in_flight=False))
    late = {c for c in p.cuts if c in s.cuts and s.cuts[c].outcome.type == "SCOPE_TIMED_OUT"}
    kept = [_with_time_anew(x, e.at) if x.start.sequence in late else x for x in kept]
    cuts = reduce(HashTrieMap.discard, p.cuts, s.cuts)
    gates: Any = HashTrieMap()
    for sequence, start in opened.items():
        doubted = attempts.get(sequence, UNTRIED).doubt is not None
        if doubted or (start.type == "GATE_OPENED" and not is_cut(start, cuts)):
            gates = gates.insert(sequence, start)
    facts = s.facts._replace(generation=p.generation, failure=None, cause=None)
    settled_list: List[Settled] = List(kept)
    return ExecutionState(s[0], "suspended", e.sequence, e.at, opened, settled_list, gates, attempts, cuts, facts)


def _with_time_anew(scope: Settled, at: int) -> Settled:
    """Return a scope, whose time was over, with as much time from now on as it once had."""
    start = scope.start
    due_at = at + start.payload.due_at - start.at
    opened = start._replace(payload=start.payload._replace(due_at=due_at))
    return Settled(opened, opened)


def _execution_forked(s: ExecutionState, e: Event) -> ExecutionState:
    p: f.ExecutionForked = e.payload
    seeds = (*s.facts.seeds, (e.sequence, s.facts.seed))
    changes: Any = {"seed": p.seed, "seeds": seeds, "parent": p.parent, "chain": None, "link": 1, "is_paused": False}
    changed = _facts(s, e, "forked", forked=e, wake_at=None, due_at=None, difference=None, recoveries=0, **changes)
    opened, attempts = reduce(HashTrieMap.discard, p.void, s.open), reduce(HashTrieMap.discard, p.void, s.attempts)
    if p.given is not None:
        start = opened[p.given["start"]]
        given = start._replace(payload=start.payload._replace(args=p.given["args"]))
        opened = opened.insert(start.sequence, given)
        attempts = attempts.insert(start.sequence, Attempts(in_flight=False))
    return changed._replace(open=opened, attempts=attempts, gates=HashTrieMap())


def _execution_migrated(s: ExecutionState, e: Event) -> ExecutionState:
    p: f.ExecutionMigrated = e.payload
    noted = {d["sequence"]: d["asked"]["digest"] for d in p.differences}
    patches = {**dict.fromkeys(p.unpatched or (), False), **s.facts.patches}
    changes: Any = {"fingerprint": p.after, "noted": {**s.facts.noted, **noted}, "patches": patches}
    if p.flow is None:
        return _facts(s, e, s.status, **changes)
    changes |= {"flow": p.flow, "version": p.version, "difference": None}
    if p.given is not None:
        changes |= {"input": p.given.get("input"), "defaulted": p.given.get("defaulted")}
    if s.status == "diverged":  # what it could not go on with is over
        return _facts(s, e, _parked(s), wake_at=e.at, **changes)
    return _facts(s, e, s.status, **changes)


def _patch_applied(s: ExecutionState, e: Event) -> ExecutionState:
    return _facts(s, e, s.status, patches={**s.facts.patches, e.payload.name: True})


def _execution_diverged(s: ExecutionState, e: Event) -> ExecutionState:
    return _facts(s, e, "diverged", wake_at=None, difference=e.payload.difference)


def _opened(s: ExecutionState, e: Event) -> ExecutionState:
    opened = s.open.insert(e.sequence, e)
    return _new((s[0], s[1], e.sequence, e.at, opened, s[5], s[6], s[7], s[8], s[9]))


def _settled(s: ExecutionState, e: Event) -> ExecutionState:
    start = e.payload.start
    opened = s.open
    settled = s[5].push_front(Settled(opened[start], e))
    attempts = s[7].discard(start) if s[7] else s[7]
    return _new((s[0], s[1], e.sequence, e.at, opened.remove(start), settled, s[6], attempts, s[8], s[9]))


def _done_at_once(s: ExecutionState, start: Event, e: Event) -> ExecutionState:
    return _new((s[0], s[1], e.sequence, e.at, s[4], s[5].push_front(Settled(start, e)), *s[6:]))


def _settled_at_once(s: ExecutionState, e: Event) -> ExecutionState:
    return _done_at_once(s, e, e)


_user_event = _settled_at_once


def _gate_opened(s: ExecutionState, e: Event) -> ExecutionState:
    opened, gates = s.open.insert(e.sequence, e), s.gates.insert(e.sequence, e)
    return ExecutionState(s[0], s[1], e.sequence, e.at, opened, s[5], gates, s[7], s[8], s[9])


def _gate_settled(s: ExecutionState, e: Event) -> ExecutionState:
    return _settled(s, e)._replace(gates=s.gates.discard(e.payload.start))


def _attempted(s: ExecutionState, e: Event) -> ExecutionState:
    before = s.attempts.get(e.payload.start, UNTRIED)
    attempts = s.attempts.insert(e.payload.start, before._replace(in_flight=True, doubt=None))
    return _moved(s, e)._replace(attempts=attempts)


def _attempt_failed(s: ExecutionState, e: Event) -> ExecutionState:
    now = Attempts(failed=e.payload.attempt, due_at=e.payload.due_at, in_flight=False, last=e.payload.failure)
    return _moved(s, e)._replace(attempts=s.attempts.insert(e.payload.start, now))


def _effect_in_doubt(s: ExecutionState, e: Event) -> ExecutionState:
    start = e.payload.start
    before = s.attempts.get(start, UNTRIED)
    attempts = s.attempts.insert(start, before._replace(doubt=e))
    return _moved(s, e)._replace(attempts=attempts, gates=s.gates.insert(start, s.open[start]))


def _effect_resolved(s: ExecutionState, e: Event) -> ExecutionState:
    start = e.payload.start
    if e.payload.verdict != "retry":
        return _gate_settled(s, e)
    before = s.attempts.get(start, UNTRIED)
    attempts = s.attempts.insert(start, before._replace(in_flight=False, doubt=None, due_at=0, crashes=0))
    return _moved(s, e)._replace(attempts=attempts, gates=s.gates.discard(start))


def _scope_cut(s: ExecutionState, e: Event) -> ExecutionState:
    scope = next(x.start for x in s.settled if x.start.sequence == e.payload.start)
    cut, gates = Settled(scope, e), s.gates
    for sequence, start in gates.items():
        # An effect in doubt is asked about though nobody waits for it any more.
        if start.type == "GATE_OPENED" and is_cut(start, {0: cut}):
            gates = gates.remove(sequence)
    return _moved(s, e)._replace(gates=gates, cuts=s.cuts.insert(e.payload.start, cut))


class EventType(NamedTuple):
    """One row of the table.

    A type's payload, what it means, its payload's version, whether it may follow a terminal event, and whether the
    flow may act on it, so that it is on disk before the next effect (kernel rule 3.2).
    """

    name: str
    payload: type[Any]
    handler: Handler
    version: int = 1
    after_end: bool = False
    acted_on: bool = False


EVENTS: Final[dict[str, EventType]] = {
    row.name: row
    for row in (
        EventType("EXECUTION_STARTED", f.ExecutionStarted, _execution_started),
        EventType("EXECUTION_SUSPENDED", f.ExecutionSuspended, _execution_suspended),
        EventType("EXECUTION_RESUMED", f.ExecutionResumed, _execution_resumed, acted_on=True),
        EventType("EXECUTION_TAKEN_OVER", f.ExecutionTakenOver, _execution_taken_over, acted_on=True),
        EventType("EXECUTION_PAUSED", f.ExecutionPaused, _execution_paused),
        EventType("EXECUTION_UNPAUSED", f.ExecutionUnpaused, _execution_unpaused),
        EventType("EXECUTION_CANCEL_REQUESTED", f.ExecutionCancelRequested, _cancel_requested, acted_on=True),
        EventType("EXECUTION_GRACE_ENDED", f.ExecutionGraceEnded, _grace_ended, acted_on=True),
        EventType("EXECUTION_CANCELLED", f.ExecutionCancelled, _execution_cancelled),
        EventType("EXECUTION_CONTINUED", f.ExecutionContinued, _execution_continued),
        EventType("EXECUTION_DENIED", f.ExecutionDenied, _moved, after_end=True),
        EventType("OUTCOME_ATTACHED", f.OutcomeAttached, _outcome_attached, after_end=True),
        EventType("EXECUTION_COMPLETED", f.ExecutionCompleted, _execution_completed),
        EventType("EXECUTION_FAILED", f.ExecutionFailed, _execution_failed),
        EventType("EXECUTION_RETRIED", f.ExecutionRetried, _execution_retried, after_end=True, acted_on=True),
        EventType("EXECUTION_FORKED", f.ExecutionForked, _execution_forked, acted_on=True),
        EventType("EXECUTION_MIGRATED", f.ExecutionMigrated, _execution_migrated, acted_on=True),
        EventType("EXECUTION_DIVERGED", f.ExecutionDiverged, _execution_diverged),
        EventType("PATCH_APPLIED", f.PatchApplied, _patch_applied, acted_on=True),
        EventType("STEP_STARTED", f.StepStarted, _opened),
        EventType("STEP_ATTEMPTED", f.StepAttempted, _attempted),
        EventType("STEP_ATTEMPT_FAILED", f.StepAttemptFailed, _attempt_failed, acted_on=True),
        EventType("STEP_COMPLETED", f.StepCompleted, _settled, acted_on=True),
        EventType("STEP_FAILED", f.StepFailed, _settled, acted_on=True),
        EventType("EFFECT_INDOUBT", f.EffectIndoubt, _effect_in_doubt),
        EventType("EFFECT_RESOLVED", f.EffectResolved, _effect_resolved, acted_on=True),
        EventType("GATE_OPENED", f.GateOpened, _gate_opened),
        EventType("GATE_ANSWERED", f.GateAnswered, _gate_settled, acted_on=True),
        EventType("GATE_TIMED_OUT", f.GateTimedOut, _gate_settled, acted_on=True),
        EventType("TIMER_SET", f.TimerSet, _opened),
        EventType("TIMER_FIRED", f.TimerFired, _settled, acted_on=True),
        EventType("MESSAGE_AWAITED", f.MessageAwaited, _opened),
        EventType("MESSAGE_RECEIVED", f.MessageReceived, _settled, acted_on=True),
        EventType("MESSAGE_TIMED_OUT", f.MessageTimedOut, _settled, acted_on=True),
        EventType("TOPIC_HELD", f.TopicHeld, _topic_held),
        EventType("TOPIC_RELEASED", f.TopicReleased, _topic_released),
        EventType("SCOPE_OPENED", f.ScopeOpened, _settled_at_once),
        EventType("SCOPE_CLOSED", f.ScopeClosed, _scope_cut, acted_on=True),
        EventType("SCOPE_TIMED_OUT", f.ScopeTimedOut, _scope_cut, acted_on=True),
        EventType("SCOPE_CUT", f.ScopeCut, _scope_cut, acted_on=True),
        EventType("DECISION_RECORDED", f.DecisionRecorded, _settled_at_once, acted_on=True),
        EventType("STREAM_SETTLED", f.StreamSettled, _settled_at_once, acted_on=True),
        EventType("REQUEST_DROPPED", f.RequestDropped, _moved),
    )
}
"""Every type the kernel knows. A type without a row that is not the author's own is newer than this code."""

_HANDLERS: Final = {name: row.handler for name, row in EVENTS.items()}
ACTED_ON: Final = frozenset(row.name for row in EVENTS.values() if row.acted_on)
