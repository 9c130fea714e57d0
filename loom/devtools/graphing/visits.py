"""What a run visited of its flow: its log, laid through the graph by identity.

A log has each branch's syscalls in the order in which they were asked, by kind and name. Through the graph that is a path: of all
that fit, the one is taken that goes against the log the least (a handler is entered after a failure, what the source does
not tell fits anything). What no node fits is told apart. Pure: nothing is replayed.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from loom.core.envelope import EventEnvelope
from loom.core.identity import parse, scope_of
from loom.core.state import ExecutionState
from loom.devtools.graphing.edges import END, START, Edge, Graph, Node, outgoing

Standing: TypeAlias = Literal["done", "failed", "waiting", "running", "cut"]

_STARTS: Final[Mapping[str, frozenset[str]]] = {
    "STEP_STARTED": frozenset({"step", "child"}),
    "GATE_OPENED": frozenset({"gate"}),
    "MESSAGE_AWAITED": frozenset({"message"}),
    "TIMER_SET": frozenset({"timer"}),
    "DECISION_RECORDED": frozenset({"decision"}),
    "STREAM_SETTLED": frozenset({"stream"}),
    "SCOPE_OPENED": frozenset({"fork"}),
}
_ASKING: Final = frozenset({"step", "child", "gate", "message", "timer", "decision", "event", "stream", "fork"})
_STOPS: Final = _ASKING | {"end"}
_UNFIT: Final = 100
_AGAINST: Final = 3
_UNNAMED: Final = 1


_Reached: TypeAlias = "Mapping[str, tuple[int, tuple[Edge, ...]]]"


class Last(NamedTuple):
    """The last event of a node: where it stands in the log, its type, and when (ms)."""

    sequence: int
    type: str
    at: int


@dataclass(slots=True)
class Visit:
    """How often a node was visited, how each of these stands, and its last event; *undone* counts compensations."""

    count: int = 0
    standing: Counter[Standing] = field(default_factory=Counter)
    last: Last | None = None
    undone: int = 0

    @property
    def worst(self) -> Standing:
        """The standing that matters most to who looks: what waits, before what failed, before what is done."""
        order: tuple[Standing, ...] = ("waiting", "running", "failed", "done", "cut")
        return next((each for each in order if self.standing[each]), "done")


class Visits(NamedTuple):
    """What was visited: nodes by key, edges by how often, and the identities that no node fits."""

    nodes: Mapping[str, Visit]
    edges: Mapping[Edge, int]
    elsewhere: tuple[str, ...]


class _Asked(NamedTuple):
    id: str
    name: str
    start: EventEnvelope[Any]
    outcome: EventEnvelope[Any] | None

    @property
    def has_failed(self) -> bool:
        return self.outcome is not None and self.outcome.type.endswith(("_FAILED", "_TIMED_OUT"))

    @property
    def standing(self) -> Standing:
        if self.outcome is not None:
            return "failed" if self.has_failed else "done"
        return "running" if self.start.type in {"STEP_STARTED", "SCOPE_OPENED"} else "waiting"


def visits(graph: Graph, state: ExecutionState) -> Visits:
    """Return what the run that *state* is of visited of its flow, whose graph is *graph*."""
    following = _Following(graph, state)
    following.main()
    following.undone()
    return Visits(following.nodes, following.edges, tuple(following.elsewhere))


class _Step(NamedTuple):
    """One way to have come to a node: what it costs, from where, and over which edges."""

    cost: int
    node: str
    edges: tuple[Edge, ...]
    before: _Step | None
    fits: bool = True


class _Following:
    def __init__(self, graph: Graph, state: ExecutionState) -> None:
        self._by_key = {node.key: node for node in graph.nodes}
        self._out = outgoing(graph)
        self._state = state
        self._strands = _strands(state)
        self._known: dict[tuple[str, bool], _Reached] = {}
        self.nodes: dict[str, Visit] = {}
        self.edges: Counter[Edge] = Counter()
        self.elsewhere: list[str] = []

    def main(self) -> None:
        """Follow the body of the flow, and its branches."""
        self._visit(START)
        ended = self._state.status == "completed"
        self._follow("", START, must_end=ended)

    def undone(self) -> None:
        """Count what was undone with what it undoes."""
        for start in (*(each.start for each in self._state.settled), *self._state.open.values()):
            identity = parse(start.payload.id)
            if identity.tag.kind == "compensate":
                for node in self._by_key.values():
                    if f"undone by {identity.name}" in node.notes and node.key in self.nodes:
                        self.nodes[node.key].undone += 1

    def _follow(self, prefix: str, entry: str, *, must_end: bool = False) -> None:
        """Follow one strand from where it begins, and note what it visited."""
        asked = self._strands.get(prefix, [])
        self._note(self._best(asked, entry, must_end=must_end), asked)

    # -- finding the way -------------------------------------------------------------------------------------------------

    def _best(self, asked: Sequence[_Asked], entry: str, *, must_end: bool = False) -> _Step:
        steps = {entry: _Step(0, entry, (), None)}
        failed = False
        for call in asked:
            found: dict[str, _Step] = {}
            for step in steps.values():
                self._take(found, step, self._reached(step.node, failed=failed), call)
                stay = _Step(step.cost + _UNFIT, step.node, (), step, fits=False)
                if step.node not in found or found[step.node].cost > stay.cost:
                    found[step.node] = stay
            steps, failed = found, call.has_failed
        best = min(steps.values(), key=lambda step: step.cost)
        if not must_end or not best.fits:  # which way it took after what the source does not show cannot be told
            return best
        ends = [
            _Step(step.cost + cost, END, edges, step)
            for step in steps.values()
            for key, (cost, edges) in self._reached(step.node, failed=failed).items()
            if key == END
        ]
        return min(ends, key=lambda step: step.cost) if ends else best

    def _take(self, found: dict[str, _Step], step: _Step, reached: _Reached, call: _Asked) -> None:
        for key, (cost, edges) in reached.items():
            fit = _fit(self._by_key[key], call)
            if fit is None:
                continue
            total = step.cost + cost + fit
            if key not in found or found[key].cost > total:
                found[key] = _Step(total, key, edges, step)

    def _reached(self, key: str, *, failed: bool) -> _Reached:
        """Return what can be asked next after *key*, or that the flow ends, with the cheapest way there."""
        known = self._known.get((key, failed))
        if known is None:
            known = self._known[key, failed] = self._search(key, failed=failed)
        return known

    def _search(self, key: str, *, failed: bool) -> _Reached:
        done: dict[str, tuple[int, tuple[Edge, ...]]] = {}
        order, seen = count(), set[str]()
        pending: list[tuple[int, int, str, tuple[Edge, ...]]] = [(0, next(order), key, ())]
        while pending:
            cost, _, now, edges = heapq.heappop(pending)
            if now in seen and edges:
                continue
            seen.add(now)
            for edge in self._out[now]:
                if edge.kind in {"branch", "join"} and (edges or now in self._by_key):
                    continue
                is_against = not edges and now in self._by_key and (edge.kind == "except") != failed
                total, way = cost + (_AGAINST if is_against else 0), (*edges, edge)
                if self._by_key[edge.target].kind not in _STOPS:
                    heapq.heappush(pending, (total, next(order), edge.target, way))
                elif edge.target not in done or done[edge.target][0] > total:
                    done[edge.target] = (total, way)
        return done

    # -- noting it -------------------------------------------------------------------------------------------------------

    def _note(self, best: _Step, asked: Sequence[_Asked]) -> None:
        steps: list[_Step] = []
        now: _Step | None = best
        while now is not None:
            steps.append(now)
            now = now.before
        way = steps[::-1]
        for step, call in zip(way[1:], [*asked, None], strict=False):
            for edge in step.edges:
                self.edges[edge] += 1
                if self._by_key[edge.target].kind not in _ASKING:
                    self._visit(edge.target)
            if call is not None and step.fits and step.node != END:
                self._visit(step.node, call)
                if call.start.type == "SCOPE_OPENED":
                    self._branches(step.node, call)
            elif call is not None:
                self.elsewhere.append(call.id)

    def _visit(self, key: str, call: _Asked | None = None) -> None:
        visit = self.nodes.setdefault(key, Visit())
        visit.count += 1
        if call is None:
            return
        event = call.outcome or call.start
        cut = any(event.sequence == each.outcome.sequence for each in self._state.cuts.values())
        visit.standing["cut" if cut and call.outcome is None else call.standing] += 1
        if visit.last is None or event.sequence > visit.last.sequence:
            visit.last = Last(event.sequence, event.type, event.at)

    def _branches(self, fork: str, call: _Asked) -> None:
        """Follow each branch of a scope into the arm that fits it best."""
        arms = [edge for edge in self._out[fork] if edge.kind == "branch"]
        for prefix in sorted(each for each in self._strands if each.startswith(f"{call.id}/")):
            label = prefix[len(call.id) + 1 : -1]
            if "/" in label:
                continue
            named = [edge for edge in arms if edge.label == label] or [edge for edge in arms if edge.label != "body"]
            if not named:
                self.elsewhere += [each.id for each in self._strands[prefix]]
                continue
            asked = self._strands[prefix]
            costs = [(self._best(asked, self._entry(edge)).cost, at) for at, edge in enumerate(named)]
            self._follow(prefix, self._entry(named[min(costs)[1]]))

    def _entry(self, edge: Edge) -> str:
        """Return where a branch begins that goes into an arm by *edge*: before its first node."""
        entry = f"{edge.source}>{edge.target}"
        self._out[entry] = [edge]
        return entry


def _fit(node: Node, call: _Asked) -> int | None:
    """Return what it costs to take *call* for *node*, None where it cannot be."""
    kinds = _STARTS.get(call.start.type, frozenset({"event"}))
    if node.kind not in kinds:
        return None
    if node.name is None:
        return _UNNAMED
    return 0 if node.name == call.name else None


def _strands(state: ExecutionState) -> dict[str, list[_Asked]]:
    """Return what was asked in each branch, by its path text, in the order in which it was asked."""
    records = [
        *((each.start, each.outcome) for each in state.settled),
        *((start, None) for start in state.open.values()),
    ]
    found: dict[str, list[tuple[int, _Asked]]] = {}
    for start, outcome in records:
        identity = parse(start.payload.id)
        if identity.tag.kind != "compensate":
            asked = _Asked(start.payload.id, identity.name, start, outcome)
            found.setdefault(scope_of(start.payload.id), []).append((start.payload.ordinal, asked))
    return {prefix: [each for _, each in sorted(calls, key=lambda pair: pair[0])] for prefix, calls in found.items()}
