"""A graph as Mermaid text, for Markdown: `flowchart TD`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loom.devtools.graphing.edges import Edge, Graph, Node
from loom.devtools.graphing.visits import Visits

_SHAPES: Final = {
    "start": ("([", "])"),
    "end": ("([", "])"),
    "gate": ("[/", "/]"),
    "message": (">", "]"),
    "timer": ("([", "])"),
    "decision": ("{{", "}}"),
    "child": ("[[", "]]"),
    "choice": ("{", "}"),
    "loop": ("{{", "}}"),
    "fork": ("[[", "]]"),
    "join": ("((", "))"),
    "return": ("([", "])"),
    "raise": ("([", "])"),
    "rolls over": ("([", "])"),
}
_STYLES: Final = {
    "done": "fill:#e3f4e8,stroke:#2f8f4e,color:#123",
    "failed": "fill:#fbe4e2,stroke:#c0392b,color:#123",
    "waiting": "fill:#fdf1d6,stroke:#c98a10,color:#123",
    "running": "fill:#e0ecfb,stroke:#2f6fb5,color:#123",
    "cut": "fill:#eee,stroke:#888,color:#123",
}
_ESCAPED: Final = {
    "&": "#amp;",
    '"': "#quot;",
    "<": "#lt;",
    ">": "#gt;",
    "#": "#35;",
    "`": "#96;",
    "|": "#124;",
    "\\": "#92;",
}


def mermaid(graph: Graph, visits: Visits | None = None) -> str:
    """Return *graph* as a Mermaid flowchart; nodes that a run visited are coloured by how that stands."""
    return "\n".join(("flowchart TD", *_nodes(graph), *_edges(graph), *_marks(visits))) + "\n"


def _nodes(graph: Graph) -> Iterator[str]:
    now: tuple[str, ...] = ()
    for node in graph.nodes:
        shared = _shared(now, node.groups)
        for depth in range(len(now), shared, -1):
            yield f"{'  ' * depth}end"
        for depth, group in enumerate(node.groups[shared:], shared + 1):
            key, _, text = group.partition(" ")
            yield f"{'  ' * depth}subgraph {_id(key)}[{_text(text)}]"
        now = node.groups
        yield f"{'  ' * (len(now) + 1)}{_node(node)}"
    for depth in range(len(now), 0, -1):
        yield f"{'  ' * depth}end"


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    return shared


def _node(node: Node) -> str:
    before, after = _SHAPES.get(node.kind, ("[", "]"))
    said = {"return": f"return {node.text}", "raise": f"raise {node.text}", "rolls over": "continues as new"}
    words = said.get(node.kind, node.text or ("end" if node.kind == "end" else " ")).strip() or " "
    kind = f"{node.kind}: " if node.kind in {"gate", "message", "timer", "child", "event", "stream", "decision"} else ""
    notes = f"<br/>{_escaped(', '.join(node.notes))}" if node.notes and node.kind != "start" else ""
    return f'{_id(node.key)}{before}"{_escaped(kind + words)}{notes}"{after}'


def _edges(graph: Graph) -> Iterator[str]:
    for edge in graph.edges:
        if edge.kind == "past" and any(_is_arm(each, edge) for each in graph.edges):
            continue
        arrow = "-.->" if edge.kind == "except" else "-->"
        label = f"|{_text(edge.label)}|" if edge.label else ""
        yield f"  {_id(edge.source)} {arrow}{label} {_id(edge.target)}"


def _is_arm(edge: Edge, past: Edge) -> bool:
    return edge.source == past.source and edge.kind == "branch"


def _marks(visits: Visits | None) -> Iterator[str]:
    if visits is None:
        return
    for name, style in _STYLES.items():
        keys = [_id(key) for key, visit in visits.nodes.items() if visit.worst == name]
        if keys:
            yield f"  classDef {name} {style}"
            yield f"  class {','.join(sorted(keys))} {name}"


def _id(key: str) -> str:
    return {"end": "finish"}.get(key, key.replace(".", "_"))


def _text(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return "".join(_ESCAPED.get(sign, sign if sign.isprintable() else " ") for sign in text)
