"""Pictures as JSON: the graph with what a run visited, and what a build knows of where a flow can be put away."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from loom.core.json import JsonObject
from loom.core.state import ExecutionState
from loom.devtools.graphing.edges import Edge, Graph, Node, graph_of, outgoing
from loom.devtools.graphing.structure import Shape
from loom.devtools.graphing.visits import Visit, Visits

PARKING: Final[Mapping[str, str]] = {
    "gate": "an answer",
    "message": "a message",
    "timer": "the time",
    "child": "a child",
}
"""Where a flow can be put away for long, and what it waits for there."""


def graph_json(shape: Shape, graph: Graph, state: ExecutionState | None, visits: Visits | None) -> JsonObject:
    """Return a flow as nodes and edges, and what the run that *state* is of visited of them."""
    return {
        **_head(shape),
        "nodes": [_node(node, visits) for node in graph.nodes],
        "edges": [_edge(edge, visits) for edge in graph.edges],
        "unfollowed": list(shape.unfollowed),
        "execution": None
        if state is None or visits is None
        else {"id": state.execution_id, "status": state.status, "elsewhere": list(visits.elsewhere)},
    }


def resumability(shape: Shape) -> JsonObject:
    """Return where a flow can be put away, what it asks up to there, and which files that takes.

    A segment is what can be asked from the start, or after one such place, before the next one is reached.
    """
    graph = graph_of(shape)
    parks = [node for node in graph.nodes if node.kind in PARKING]
    return {
        **graph_json(shape, graph, None, None),
        "parks": [_park(node) for node in parks],
        "once": [node.key for node in graph.nodes if "once" in node.notes],
        "segments": [_segment(graph, key) for key in ("start", *(node.key for node in parks))],
    }


def _head(shape: Shape) -> JsonObject:
    place = {"path": shape.place.path, "line": shape.place.line}
    return {"flow": shape.flow, "takes": shape.takes, "gives": shape.gives, "about": shape.about, "place": place}


def _node(node: Node, visits: Visits | None) -> JsonObject:
    found: JsonObject = {
        "key": node.key,
        "kind": node.kind,
        "text": node.text,
        "name": node.name,
        "notes": list(node.notes),
        "place": None if node.place is None else {"path": node.place.path, "line": node.place.line},
        "groups": [group.partition(" ")[2] for group in node.groups],
    }
    return found if visits is None else {**found, "visit": _visit(visits.nodes.get(node.key))}


def _visit(visit: Visit | None) -> JsonObject | None:
    if visit is None:
        return None
    last = None if visit.last is None else visit.last._asdict()
    standing = {name: count for name, count in visit.standing.items() if count}
    return {"count": visit.count, "status": visit.worst, "standing": standing, "undone": visit.undone, "last": last}


def _edge(edge: Edge, visits: Visits | None) -> JsonObject:
    found: JsonObject = {"from": edge.source, "to": edge.target, "kind": edge.kind, "label": edge.label}
    return found if visits is None else {**found, "visits": visits.edges.get(edge, 0)}


def _park(node: Node) -> dict[str, Any]:
    return {
        "key": node.key,
        "kind": node.kind,
        "name": node.name,
        "waits_for": PARKING[node.kind],
        "notes": list(node.notes),
    }


def _segment(graph: Graph, key: str) -> JsonObject:
    out, by_key = outgoing(graph), {node.key: node for node in graph.nodes}
    pending, seen = deque([key]), {key}
    while pending:
        now = pending.popleft()
        if now != key and by_key[now].kind in PARKING:
            continue
        for edge in out[now]:
            if edge.target not in seen:
                seen.add(edge.target)
                pending.append(edge.target)
    asked = [node for node in graph.nodes if node.key in seen and node.key != key and node.name is not None]
    files = sorted({node.place.path for node in graph.nodes if node.key in seen and node.place is not None})
    return {"after": key, "asks": [node.key for node in asked], "files": files}
