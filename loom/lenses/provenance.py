"""Why a run did what it did: what a call was asked with and where that is from, what steered the flow, what was in force. Pure.

Two things can be known of a call from its log alone. *Values*: which parts of what it was asked with equal something that the flow
had been given before (origins_of_values.py). *Order*: which outcomes were recorded before it was asked. A flow is ordinary code, and
may make anything of anything it has been given; so `seen` is complete and says nothing of use, `parts` says much and is not complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from loom.core.derived import derived_uuid, fraction
from loom.core.envelope import EDITED, SIMULATED, EventEnvelope
from loom.core.json import JsonObject
from loom.core.state import ExecutionState
from loom.lenses.execution import CallView, ExecutionView
from loom.lenses.origins_of_values import Known, Part

Event: TypeAlias = EventEnvelope[Any]
Kind: TypeAlias = Literal[
    "input", "edit", "step", "failure", "answer", "message", "decision", "stream", "timer", "timeout", "scope", "draw"
]
What: TypeAlias = Literal["call", "failure", "result", "end"]

OUTSIDE: Final[frozenset[Kind]] = frozenset(
    {"input", "edit", "step", "failure", "answer", "message", "decision", "stream"}
)
"""What comes from outside the flow. Nothing declares yet what is to be trusted of it; so none of it is."""
STEERING: Final[frozenset[Kind]] = frozenset({"decision", "answer", "message", "failure", "timeout", "scope"})
"""What a flow usually goes by when it takes one way or another."""
DRAWS_MAX: Final = 3
TRAIL_MAX: Final = 40

_OUTCOMES: Final[Mapping[str, tuple[Kind, str]]] = {
    "step": ("step", "result"),
    "gate": ("answer", "answer"),
    "receive": ("message", "message"),
    "decision": ("decision", "choice"),
    "stream": ("stream", "chunks"),
    "timer": ("timer", ""),
    "scope": ("scope", ""),
}
"""By the kind of a call: the kind of source that its outcome is, and the field that holds what it gave."""
_ASKED: Final[Mapping[str, str]] = {"step": "args", "gate": "show", "decision": "candidates", "event": "data"}
_ABOUT: Final = ("policy", "propensity", "candidates", "context", "topic", "number", "verdict", "counted", "branch")


class Source(NamedTuple):
    """Something that the flow was given at event *sequence*: the outcome of the call *id*, or its input (then *id* is empty).

    *by* is the principal, *at* the time (ms since the epoch), *value* what it was as it stands on the log; *edited* tells that a person
    put it into a fork, *simulated* that a simulator stood in. *about* has what else is known: the policy and the propensity of a
    decision, the digest of what was shown to who answered, the topic and number of a message, type and message of a failure.
    """

    sequence: int
    kind: Kind
    id: str
    at: int
    by: str | None
    value: Any
    edited: bool
    simulated: bool
    about: Mapping[str, Any]


class Traced(NamedTuple):
    """A call from which something came: when it was asked, and where the parts of what it was asked with come from."""

    id: str
    kind: str
    start: int
    parts: tuple[Part, ...]


class Fork(NamedTuple):
    """That the run is a copy of another up to its event *through*, made *by* somebody for a *reason*, with an *edited* call or none."""

    sequence: int
    source: str
    through: int
    by: str | None
    reason: str | None
    edited: str | None


class Force(NamedTuple):
    """What was in force: the code, the patches taken (or not), the changes of code and forks before, and whether effects were simulated."""

    flow: str
    version: str
    fingerprint: str
    principal: str | None
    parent: Mapping[str, Any] | None
    patches: Mapping[str, bool]
    migrated: tuple[int, ...]
    forks: tuple[Fork, ...]
    simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Why the run *run* came to *what*: a call, its failure, its result, or another end.

    *call* is the call that is meant, None for what the flow did itself. *parts* are those of what it was asked with, or of the
    result; *told* those of the message of the *failure*, if it is one. *trail* are the calls from which values came, the nearest first.
    *seen* is all that was recorded before, the newest first. *missing* is the last event that was moved to an archive: what only
    those before told is not here.
    """

    run: str
    status: str
    what: What
    call: CallView | None
    failure: Mapping[str, Any] | None
    parts: tuple[Part, ...]
    told: tuple[Part, ...]
    trail: tuple[Traced, ...]
    seen: tuple[Source, ...]
    force: Force
    missing: int | None

    def reaches(self) -> dict[int, str]:
        """Return how sure it is that a source is in *parts* or *told*, by its sequence; those that are in none are left out."""
        best: dict[int, str] = {}
        for certainty in ("exact", "inside", "same"):
            for part in (*self.parts, *self.told):
                if part.certainty == certainty:
                    for place in part.places:
                        best.setdefault(place.source, certainty)
        return best

    @property
    def steering(self) -> list[Source]:
        """What the flow may have gone by when it came here, the newest first."""
        return [source for source in self.seen if source.kind in STEERING]

    @property
    def outside(self) -> list[Source]:
        """All that had come from outside the flow before, the newest first: none of it is known to be trusted."""
        return [source for source in self.seen if source.kind in OUTSIDE]


class Questions:
    """What can be asked of one run, at *view* of its *events* folded to *state*: `why` something.

    With *part* (`claim.lines[2]`) an answer is of that part of what was asked with, or made, and of where it leads to.
    """

    def __init__(
        self, view: ExecutionView, state: ExecutionState, events: Sequence[Event], *, part: str | None = None
    ) -> None:
        self._view, self._state, self._part = view, state, part
        self._events = {event.sequence: event for event in events if event.sequence <= state.sequence}
        self._sources = sorted(self._found(), key=lambda source: source.sequence)
        self._known = self._index()
        self._calls = {call.end: call for call in view.calls if call.end is not None}

    def call(self, call: CallView) -> Provenance:
        """Return why *call* was asked as it was."""
        return self._answered("call", call, _asked(call), call.failure, before=call.start)

    def run(self) -> list[Provenance]:
        """Return why the run stands as it does: one answer for each call that it waits for, else one for its end."""
        view = self._view
        if view.status == "failed":
            cause = next((call for call in view.calls if call.id == view.cause), None)
            asked = _asked(cause) if cause is not None else {}
            before = cause.start if cause is not None else view.sequence
            return [self._answered("failure", cause, asked, view.failure, before=before)]
        if view.status == "completed":
            return [self._answered("result", None, {"result": view.result}, None, before=view.sequence)]
        waiting = [call for call in view.calls if call.end is None and call.kind != "scope" and not _is_over(call)]
        if not waiting or view.status in ("cancelled", "continued"):
            return [self._answered("end", None, {}, view.failure, before=view.sequence)]
        return [self.call(call) for call in waiting]

    def _answered(
        self,
        what: What,
        call: CallView | None,
        asked: JsonObject,
        failure: Mapping[str, Any] | None,
        *,
        before: int,
    ) -> Provenance:
        parts = [part for part in self._parts(asked, before) if self._part is None or is_about_part(part, self._part)]
        told = (
            self._known.parts(failure.get("message", ""), "failure.message", before=before)
            if failure is not None
            else []
        )
        told = [part for part in told if part.places and self._part is None]
        return Provenance(
            run=self._view.id,
            status=self._view.status,
            what=what,
            call=call,
            failure=failure,
            parts=tuple(parts),
            told=tuple(told),
            trail=tuple(self._trail([*parts, *told], before)),
            seen=tuple(source for source in reversed(self._sources) if source.sequence < before),
            force=self._force(before),
            missing=self._view.compacted,
        )

    def _parts(self, asked: JsonObject, before: int) -> list[Part]:
        return [part for name, value in asked.items() for part in self._known.parts(value, name, before=before)]

    def _trail(self, parts: Iterable[Part], before: int) -> Iterator[Traced]:
        """Yield the calls that gave *parts*, then those that gave what these were asked with, and so on."""
        known: set[int] = set()
        ahead = deque(_followed(parts))
        while ahead and len(known) < TRAIL_MAX:
            call = self._calls.get(ahead.popleft())
            if call is None or call.start in known or call.start >= before:
                continue
            known.add(call.start)
            of_call = tuple(self._parts(_asked(call), call.start))
            yield Traced(call.id, call.kind, call.start, of_call)
            ahead.extend(_followed(of_call))

    # -- what there is -------------------------------------------------------------------------------------------

    def _found(self) -> Iterator[Source]:
        """Yield all that the flow was given. What a retry made void was given to a flow that is no more."""
        view = self._view
        yield Source(0, "input", "", view.started_at, view.principal, self._first_input(), False, False, {})
        for event in self._events.values():
            given = getattr(event.payload, "given", None)
            if event.type == "EXECUTION_MIGRATED" and given is not None and "input" in given:
                yield self._source(event, "input", "", value=given["input"], about={})
            elif event.type == "EXECUTION_FORKED" and given is not None:
                yield self._source(event, "edit", self._id_of(given["start"]), value=given["args"], about={})
        for call in view.calls:
            if call.end is not None and call.kind in _OUTCOMES:
                yield self._outcome(call, call.end)

    def _first_input(self) -> Any:
        start = self._events.get(0)
        return self._view.input if start is None else getattr(start.payload, "input", None)

    def _outcome(self, call: CallView, end: int) -> Source:
        kind, field = _OUTCOMES[call.kind]
        value, told = call.outcome.get(field), {**call.asked, **call.outcome}
        about: dict[str, Any] = {name: told[name] for name in _ABOUT if name in told}
        if call.failure is not None:
            failure = {name: call.failure.get(name) for name in ("type", "message", "channel", "data")}
            about |= {name: each for name, each in failure.items() if each is not None}
            kind, value = "failure", dict(failure)
        elif call.status == "timed_out":
            kind = "timeout"
        elif call.kind == "gate":
            about |= {"shown": call.asked.get("shown")}
        event = self._events.get(end)
        if event is None:  # it is in an archive
            return Source(end, kind, call.id, call.ended_at or 0, call.by, value, False, False, about)
        return self._source(event, kind, call.id, value=value, about=about)

    def _source(self, event: Event, kind: Kind, id: str, *, value: Any, about: Mapping[str, Any]) -> Source:
        by, edited = event.metadata.get("principal"), EDITED in event.metadata or kind == "edit"
        is_simulated = self._is_simulated(event.sequence) and kind == "step"
        return Source(event.sequence, kind, id, event.at, by, value, edited, is_simulated, about)

    def _is_simulated(self, sequence: int) -> bool:
        return any(SIMULATED in event.metadata for event in self._events.values() if event.sequence <= sequence)

    def _id_of(self, start: int) -> str:
        return next((call.id for call in self._view.calls if call.start == start), f"event {start}")

    def _index(self) -> Known:
        known, values = Known(), [(source.sequence, source.value, "$") for source in self._sources]
        values += [(source.sequence, _moment(source.at), "now()") for source in self._sources]
        values += self._draws()
        for sequence, value, path in sorted(values, key=lambda each: each[0]):
            known.add(sequence, value, path)
        return known

    def _draws(self) -> Iterator[tuple[int, Any, str]]:
        """Yield what `ctx.uuid()` and `ctx.random()` gave or would have given, by the event behind which they were drawn."""
        seed_at = self._state.facts.seed_at
        begun: set[str] = set()
        for call in sorted(self._view.calls, key=lambda each: each.start):
            prefix = call.id.removesuffix(call.name)
            ids = ["", call.id] if prefix not in begun else [call.id]
            begun.add(prefix)
            for last in ids:
                at = call.start - 1 if not last else call.start
                for draw in range(1, DRAWS_MAX + 1):
                    rest = (seed_at(at), prefix, last, str(draw))
                    yield at, str(derived_uuid("uuid", *rest)), "uuid()"
                    yield at, fraction("random", *rest), "random()"

    def _force(self, before: int) -> Force:
        view, facts = self._view, self._state.facts
        events = [event for event in self._events.values() if event.sequence < before]
        return Force(
            flow=view.flow,
            version=view.version,
            fingerprint=view.fingerprint,
            principal=view.principal,
            parent=facts.parent,
            patches=dict(sorted(facts.patches.items())),
            migrated=tuple(event.sequence for event in events if event.type == "EXECUTION_MIGRATED"),
            forks=tuple(self._fork(event) for event in events if event.type == "EXECUTION_FORKED"),
            simulated=view.simulated,
        )

    def _fork(self, event: Event) -> Fork:
        fact, behind = event.payload, self._events.get(event.sequence + 1)
        edited = self._id_of(fact.given["start"]) if fact.given is not None else None
        if behind is not None and EDITED in behind.metadata:
            edited = self._id_of(getattr(behind.payload, "start", behind.sequence))
        by = event.metadata.get("principal")
        return Fork(event.sequence, fact.source["execution_id"], fact.source["sequence"], by, fact.reason, edited)


def _asked(call: CallView) -> JsonObject:
    """Return what *call* was asked with, by name."""
    field = _ASKED.get(call.kind)
    value = None if field is None else call.asked.get(field, call.outcome.get(field))
    if isinstance(value, Mapping) and field == "args":
        return dict(value)
    return {} if field is None or value is None else {field: value}


def is_about_part(part: Part, named: str) -> bool:
    """Whether *part* is the one at the path *named*, stands in that, or holds it."""
    one, other = sorted((part.path, named), key=len)
    return one == other or (other.startswith(one) and other[len(one)] in ".[")


def _followed(parts: Iterable[Part]) -> list[int]:
    """Return the sources that are worth going back to: those of telling parts, and what is equal to one alone."""
    return [
        place.source
        for part in parts
        if part.certainty in ("exact", "inside") or len(part.places) == 1
        for place in reversed(part.places)
    ]


def _is_over(call: CallView) -> bool:
    return call.status in ("cut", "abandoned")


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat()


# -- shapes -------------------------------------------------------------------------------------------------------------


def provenance_json(found: Provenance) -> JsonObject:
    """Return the shape of docs/reference/json.md."""
    call, reaches = found.call, found.reaches()
    return {
        "run": found.run,
        "status": found.status,
        "what": found.what,
        "call": {"id": call.id, "kind": call.kind, "status": call.status, "start": call.start, "end": call.end}
        if call is not None
        else None,
        "failure": dict(found.failure) if found.failure is not None else None,
        "parts": [_part_json(part) for part in found.parts],
        "told": [_part_json(part) for part in found.told],
        "trail": [{**each._asdict(), "parts": [_part_json(part) for part in each.parts]} for each in found.trail],
        "seen": [_source_json(source, reaches.get(source.sequence)) for source in found.seen],
        "force": {**found.force._asdict(), "forks": [fork._asdict() for fork in found.force.forks]},
        "missing": found.missing,
    }


def _part_json(part: Part) -> JsonObject:
    return {**part._asdict(), "places": [{"event": place.source, "path": place.path} for place in part.places]}


def _source_json(source: Source, reaches: str | None) -> JsonObject:
    about = {"outside": source.kind in OUTSIDE, "steers": source.kind in STEERING, "reaches": reaches}
    return {**source._asdict(), "about": dict(source.about), **about}
