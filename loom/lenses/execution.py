"""An execution as people and programs look at it: one value, from which tables, JSON and the debugger are drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from loom.core.envelope import EDITED, EventEnvelope
from loom.core.identity import parse, path_text
from loom.core.json import JsonObject
from loom.core.state import UNTRIED, ExecutionState, is_cut
from loom.core.views import AwaitedMessage, OpenGate, awaited_messages, open_gates
from loom.kernel.fold import USER_PREFIX
from loom.lenses.folding import legible, log_chain, state_digest
from loom.spi.event_store import ExecutionRow

Event = EventEnvelope[Any]

CallKind: TypeAlias = Literal["step", "gate", "receive", "timer", "scope", "decision", "stream", "event", "unknown"]
CallStatus: TypeAlias = Literal[
    "done", "failed", "timed_out", "running", "resting", "waiting", "in_doubt", "cut", "abandoned"
]

_KINDS: Final[Mapping[str, CallKind]] = {
    "STEP_STARTED": "step",
    "GATE_OPENED": "gate",
    "MESSAGE_AWAITED": "receive",
    "TIMER_SET": "timer",
    "SCOPE_OPENED": "scope",
    "DECISION_RECORDED": "decision",
    "STREAM_SETTLED": "stream",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """One syscall of the flow: a step, gate, receive, timer, scope of branches, decision, stream, an event emitted.

    *id* is its identity, *scope* that of the scope it stands in and *branch* which branch of it; *start* and *end* are
    sequences, *asked_at* and *ended_at* their times (ms since the epoch). *asked* and *outcome* are the payloads as they
    stand on the log. *attempts* counts those that began (None: nothing here tells any more), *due_at* is when a timer fires, a gate times out, or the next
    attempt may begin; *by* is the principal of the outcome, which an edit of a fork gave where it
    *is_edited*. A call without an outcome is `abandoned` once its run has
    ended, `cut` where its scope was. A scope is `done` though its branches may still be open, until a record ends it early:
    then its outcome names the branches that came first, or the one that failed.
    """

    id: str
    kind: CallKind
    type: str
    status: CallStatus
    scope: str | None
    branch: str | None
    depth: int
    start: int
    end: int | None
    asked_at: int
    ended_at: int | None
    attempts: int | None
    due_at: int | None
    by: str | None
    is_edited: bool
    asked: Mapping[str, Any]
    outcome: Mapping[str, Any]

    @property
    def took_ms(self) -> int | None:
        """How long it went on; None while it does, and where its outcome was put there by an edit."""
        return None if self.ended_at is None or self.is_edited else self.ended_at - self.asked_at

    @property
    def name(self) -> str:
        """The last part of the identity: name and tag."""
        return self.id.rpartition("/")[2]

    @property
    def failure(self) -> Mapping[str, Any] | None:
        """The record of how it failed, or of the last attempt that did; None when none has."""
        return self.outcome.get("failure")


class LateOutcome(NamedTuple):
    """What came of a decision, learned later: *decision* is its id and *start* its sequence, *value* as on the log."""

    decision: str
    start: int
    value: Any
    note: str | None
    at: int
    by: str | None


class ChildView(NamedTuple):
    """A run that this one started, as it stands now; *gates* are the addresses of what waits for a person there."""

    id: str
    flow: str
    status: str
    gates: tuple[str, ...] = ()


class CancelView(NamedTuple):
    """That a run is cancelled: what for (*cause*), why, when, until when it may clean up (None: it was ended by force), by whom."""

    cause: str
    reason: str | None
    at: int
    grace_until_at: int | None
    by: str | None


class PauseView(NamedTuple):
    """That a run is paused: why, since when, by whom."""

    reason: str | None
    at: int
    by: str | None


class ForkView(NamedTuple):
    """That a run is a fork: since when it goes its own way, who made it, and how it is *served* from its source (None: it is not)."""

    at: int
    by: str | None
    served: Literal["only", "live"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionView:
    """Where an execution stands after event number *sequence* of *last*. Values are as they stand on the log.

    A run that continues as new is a chain of logs: *first* is the id of the first, *link* the number of this one, from 1, and
    *next* the log that follows it, None for the last. *parent* is the id of the run that started it, *step* the step of that one; *source* says of which event of which run it is a fork, *forked* since when, and *simulated* whether simulators stand in for its effects; *children* are those it has started itself.

    *calls* are its syscalls in the order asked, each scope followed by what stands in it; *gates* what waits for a
    person, *receives* what waits for a message, *held* the topics that are held back, *outcomes* what was learned of
    decisions later. *cancel* says who cancelled it and why, *pause* who paused it. *digest* names the state, *chain* the log
    so far, None where events of it were moved to an archive: *compacted* is the last of those. Times are ms since the epoch.
    """

    id: str
    flow: str
    version: str
    fingerprint: str
    status: str
    sequence: int
    last: int
    at: int
    started_at: int
    wake_at: int | None
    why: str | None
    principal: str | None
    attributes: Mapping[str, Any]
    generation: int
    drives: int
    input: Any
    result: Any
    failure: Mapping[str, Any] | None
    cause: str | None
    difference: Mapping[str, Any] | None
    first: str
    link: int
    next: str | None
    parent: str | None
    step: str | None
    source: Mapping[str, Any] | None
    forked: ForkView | None
    simulated: bool
    children: tuple[ChildView, ...]
    gates: tuple[OpenGate, ...]
    receives: tuple[AwaitedMessage, ...]
    held: tuple[str, ...]
    outcomes: tuple[LateOutcome, ...]
    cancel: CancelView | None
    pause: PauseView | None
    calls: tuple[CallView, ...]
    digest: str
    chain: str | None
    compacted: int | None

    @property
    def took_ms(self) -> int:
        """For how long it has gone on by now: a fork, since it was forked."""
        return max(self.at - (self.forked.at if self.forked is not None else self.started_at), 0)

    def of_kind(self, kind: CallKind) -> list[CallView]:
        """Return the calls of one kind."""
        return [call for call in self.calls if call.kind == kind]


def execution_view(
    state: ExecutionState,
    events: Sequence[Event],
    *,
    base: ExecutionState | None = None,
    children: Sequence[ExecutionRow] = (),
) -> ExecutionView:
    """Return the view of *state*, which is a fold of the first of *events*; the events tell what a fold need not keep.

    Where some are missing up to that of *base*, what only they told is left out. *children* are the rows of the runs that it has
    started, from the newest on.
    """
    facts, past = state.facts, [event for event in events if event.sequence <= state.sequence]
    calls, starts = _laid_out(asked_of(state, past, base=base))
    return ExecutionView(
        id=state.execution_id,
        flow=facts.flow,
        version=facts.version,
        fingerprint=facts.fingerprint,
        status=state.status,
        sequence=state.sequence,
        last=events[-1].sequence,
        at=state.at,
        started_at=facts.started_at,
        wake_at=facts.wake_at,
        why=facts.why,
        principal=facts.principal,
        attributes=facts.attributes,
        generation=facts.generation,
        drives=facts.drives,
        input=facts.input,
        result=facts.result,
        failure=facts.failure,
        cause=starts.get(facts.cause) if facts.cause is not None else None,
        difference=facts.difference,
        first=facts.chain[0] if facts.chain else state.execution_id,
        link=facts.link,
        next=facts.next,
        parent=(facts.parent or {}).get("execution_id"),
        step=(facts.parent or {}).get("step"),
        source=facts.forked.payload.source if facts.forked is not None else None,
        forked=_forked(facts.forked) if facts.forked is not None else None,
        simulated=facts.simulated,
        children=tuple(_child(row) for row in reversed(children)),
        gates=tuple(open_gates(state)),
        receives=tuple(awaited_messages(state)),
        held=tuple(sorted(facts.held)),
        outcomes=tuple(_late(event, starts) for event in facts.outcomes),
        cancel=_cancel(facts.cancel) if facts.cancel is not None else None,
        pause=_pause(past) if state.status == "paused" else None,
        calls=calls,
        digest=state_digest(state),
        chain=log_chain(past) if base is None else None,
        compacted=None if base is None else base.sequence,
    )


def _child(row: ExecutionRow) -> ChildView:
    gates = tuple(str(gate["gate"]) for gate in orjson.loads(row.index.gates))
    return ChildView(row.index.chain, row.index.flow, row.index.status, gates)


def _forked(event: Event) -> ForkView:
    return ForkView(event.at, event.metadata.get("principal"), event.payload.reuse)


def _cancel(event: Event) -> CancelView:
    fact, by = event.payload, event.metadata.get("principal")
    return CancelView(fact.cause, fact.reason, event.at, getattr(fact, "due_at", None), by)


def _pause(events: Sequence[Event]) -> PauseView:
    event = next(event for event in reversed(events) if event.type == "EXECUTION_PAUSED")
    return PauseView(event.payload.reason, event.at, event.metadata.get("principal"))


def _late(event: Event, ids: Mapping[int, str]) -> LateOutcome:
    fact = event.payload
    decision, by = ids.get(fact.start, f"event {fact.start}"), event.metadata.get("principal")
    return LateOutcome(decision, fact.start, fact.value, fact.note, event.at, by)


class Asked(NamedTuple):
    """What a run asked, from which the views of its calls are made: a long log has many, and who compares it looks at few.

    *pairs* are its calls by the sequence of their start, in that order, each with its outcome if it has one; *failed* is how many attempts
    of a step failed, told from event *known_from* on.
    """

    state: ExecutionState
    pairs: Mapping[int, tuple[Event, Event | None]]
    failed: Mapping[int, int]
    known_from: int

    def call(self, start: int) -> CallView:
        """Return the view of the call that event number *start* asked."""
        asked, outcome = self.pairs[start]
        return _call(self, legible(asked), legible(outcome) if outcome is not None else None)

    def calls(self) -> list[CallView]:
        """Return the views of all calls."""
        return [self.call(start) for start in self.pairs]

    def attempts(self, start: Event, outcome: Event | None) -> int | None:
        """Return how many attempts of a call began, 0 where it is no step, None where nothing here tells any more."""
        if start.type != "STEP_STARTED":
            return 0
        if outcome is not None and outcome.type == "STEP_FAILED":
            return int(legible(outcome).payload.attempts)
        if start.sequence >= self.known_from:
            tries = self.failed[start.sequence]
        elif outcome is None:
            tries = self.state.attempts.get(start.sequence, UNTRIED).failed
        else:
            return None
        return tries if outcome is None and open_status(self.state, start) == "resting" else tries + 1


def asked_of(state: ExecutionState, events: Iterable[Event], *, base: ExecutionState | None = None) -> Asked:
    """Return what the run asked that *state* is a fold of: of *events*, of which some may be missing up to that of *base*."""
    failed = Counter(legible(e).payload.start for e in events if e.type == "STEP_ATTEMPT_FAILED")
    pairs: dict[int, tuple[Event, Event | None]] = {start: (event, None) for start, event in state.open.items()}
    pairs |= {settled[0].sequence: settled for settled in state.settled}
    pairs |= {cut[0].sequence: cut for cut in state.cuts.values()}
    ordered = {start: pairs[start] for start in sorted(pairs)}
    return Asked(state, ordered, failed, 0 if base is None else base.length)


def _laid_out(asked: Asked) -> tuple[tuple[CallView, ...], dict[int, str]]:
    """Return the calls in the order of the scopes, and their ids by where they start."""
    calls = _by_scope(asked.calls())
    return calls, {call.start: call.id for call in calls}


def _call(whole: Asked, start: Event, outcome: Event | None) -> CallView:
    state, identity = whole.state, parse(start.payload.id)
    scope = identity.path[-1] if identity.path else None
    known = state.attempts.get(start.sequence, UNTRIED)
    asked = _fields(start.payload)
    told = _fields(outcome.payload) if outcome is not None else {"failure": known.last} if known.last else {}
    status = open_status(state, start) if outcome is None else settled_status(outcome)
    return CallView(
        id=start.payload.id,
        kind=kind_of(start.type),
        type=start.type,
        status=status,
        scope=f"{path_text(identity.path[:-1])}{scope[0]}" if scope else None,
        branch=scope[1] if scope else None,
        depth=len(identity.path),
        start=start.sequence,
        end=outcome.sequence if outcome is not None else None,
        asked_at=start.at,
        ended_at=outcome.at if outcome is not None else None,
        attempts=whole.attempts(start, outcome),
        due_at=known.due_at if status == "resting" else asked.get("due_at"),
        by=outcome.metadata.get("principal") if outcome is not None else None,
        is_edited=outcome is not None and EDITED in outcome.metadata,
        asked=asked,
        outcome=told,
    )


def kind_of(type_: str) -> CallKind:
    """Return what kind of call an event of this type asks."""
    return _KINDS.get(type_, "event" if type_.startswith(USER_PREFIX) else "unknown")


def open_status(state: ExecutionState, start: Event) -> CallStatus:
    """Return how a call stands that *start* asked and that has no outcome in *state*."""
    if state.attempts.get(start.sequence, UNTRIED).doubt is not None:
        return "in_doubt"
    if state.is_terminal or _is_closed(state, start):
        return "abandoned"
    if start.sequence not in state.gates and is_cut(start, state.cuts):
        return "cut"
    if start.type != "STEP_STARTED":
        return "waiting"
    return "running" if state.attempts.get(start.sequence, UNTRIED).in_flight else "resting"


def _is_closed(state: ExecutionState, start: Event) -> bool:
    """Whether nobody waits any more at a gate or for a message, since the run is being cancelled."""
    return state.facts.cancel is not None and start.sequence in (state.facts.cancel.payload.closed or ())


def settled_status(outcome: Event) -> CallStatus:
    """Return how a call stands that ended with *outcome*."""
    if outcome.type in ("GATE_TIMED_OUT", "MESSAGE_TIMED_OUT", "SCOPE_TIMED_OUT"):
        return "timed_out"
    failed = outcome.type in ("STEP_FAILED", "SCOPE_CUT") or getattr(outcome.payload, "failure", None) is not None
    return "failed" if failed else "done"


def _fields(payload: Any) -> JsonObject:
    return {name: value for name, value in zip(payload._fields, payload, strict=True) if value is not None}


def _by_scope(views: Sequence[CallView]) -> tuple[CallView, ...]:
    """Return the calls in the order asked, but each scope followed at once by all that stands in it, by branch."""
    inside: dict[str | None, list[CallView]] = {}
    known = {view.id for view in views}
    for view in views:
        inside.setdefault(view.scope if view.scope in known else None, []).append(view)
    ordered: list[CallView] = []

    def add(scope: str | None) -> None:
        for view in _grouped(inside.pop(scope, [])):
            ordered.append(view)
            add(view.id)

    add(None)
    return tuple(ordered)


def _grouped(views: Sequence[CallView]) -> list[CallView]:
    """Return *views* by branch, the branches in the order they are numbered or first heard of."""
    rank: dict[str | None, int] = {}
    for view in views:
        rank.setdefault(view.branch, int(view.branch) if view.branch and view.branch.isdecimal() else len(rank))
    return sorted(views, key=lambda view: rank[view.branch])
