"""A shape as nodes and edges: every way that the flow can go from one syscall to the next.

Branches of a scope lead from its fork to its join; beside them an edge `past` leads straight across, for whoever follows one strand
and not the branches. Where a syscall may fail, edges `except` lead to what handles that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, TypeAlias

from loom.devtools.graphing.structure import (
    Act,
    Arm,
    Block,
    Choice,
    Fork,
    Group,
    Guarded,
    Item,
    Leave,
    Loop,
    Place,
    Shape,
)

EdgeKind: TypeAlias = Literal["next", "choice", "back", "except", "branch", "join", "past"]
START: Final = "start"
END: Final = "end"


class Node(NamedTuple):
    """A node: *kind* is that of the syscall, or `start`, `end`, `choice`, `loop`, `fork`, `join`, `return`, `raise`, `rolls over`."""

    key: str
    kind: str
    text: str
    notes: tuple[str, ...] = ()
    name: str | None = None
    place: Place | None = None
    groups: tuple[str, ...] = ()


class Edge(NamedTuple):
    """A way from one node to another."""

    source: str
    target: str
    kind: EdgeKind
    label: str = ""


class Graph(NamedTuple):
    """All nodes, in the order of the source, and all edges."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


class _Open(NamedTuple):
    """An edge that does not lead anywhere yet."""

    source: str
    kind: EdgeKind = "next"
    label: str = ""


class _Around:
    """Where leaving a block leads, and who may fail in it."""

    def __init__(self, loop: _Loop | None = None) -> None:
        self.loop, self.returns, self.failing = loop, list[_Open](), list[_Open]()

    def inner(self, loop: _Loop | None = None) -> _Around:
        """Return the surroundings of a loop's body: it leaves where this does."""
        within = _Around(loop or self.loop)
        within.returns, within.failing = self.returns, self.failing
        return within


class _Loop(NamedTuple):
    key: str
    breaks: list[_Open]


def graph_of(shape: Shape) -> Graph:
    """Return the graph of *shape*."""
    laying = _Laying()
    laying.node(Node(START, "start", shape.flow, (shape.takes,) if shape.takes else (), place=shape.place))
    around = _Around()
    outs = laying.block(shape.body, [_Open(START)], around)
    laying.node(Node(END, "end", shape.gives))
    laying.lead([*outs, *around.returns], END)
    return Graph(tuple(laying.nodes), tuple(dict.fromkeys(laying.edges)))


class _Laying:
    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self._groups: tuple[str, ...] = ()

    def node(self, node: Node) -> None:
        self.nodes.append(node._replace(groups=self._groups))

    def lead(self, opens: Iterable[_Open], target: str) -> None:
        self.edges += [Edge(each.source, target, each.kind, each.label) for each in opens]

    def block(self, block: Block, ins: list[_Open], around: _Around) -> list[_Open]:
        """Lay *block* behind *ins*, and return what leads on from it."""
        for item in block:
            ins = self._item(item, ins, around)
        return ins

    def _item(self, item: Item, ins: list[_Open], around: _Around) -> list[_Open]:  # noqa: PLR0911  # a row for each kind
        match item:
            case Act():
                self.node(Node(item.key, item.kind, item.text, item.notes, item.name, item.place))
                self.lead(ins, item.key)
                around.failing.append(_Open(item.key, "except"))
                return [_Open(item.key)]
            case Choice(key=key):
                self.node(Node(key, "choice", item.text, place=item.place))
                self.lead(ins, key)
                laid = [self.block(arm.body, [_Open(key, "choice", arm.label)], around) for arm in item.arms]
                return [each for outs in laid for each in outs]
            case Loop():
                return self._loop(item, ins, around)
            case Fork():
                return self._fork(item, ins, around)
            case Guarded():
                return self._guarded(item, ins, around)
            case Group():
                return self._group(item, ins, around)
            case Leave():
                return self._leave(item, ins, around)

    def _loop(self, loop: Loop, ins: list[_Open], around: _Around) -> list[_Open]:
        self.node(Node(loop.key, "loop", loop.text, place=loop.place))
        self.lead(ins, loop.key)
        here = _Loop(loop.key, [])
        outs = self.block(loop.body, [_Open(loop.key, "choice", "each turn")], around.inner(here))
        self.lead([each._replace(kind="back") if each.kind == "next" else each for each in outs], loop.key)
        return [*([] if loop.endless else [_Open(loop.key, "choice", "done")]), *here.breaks]

    def _fork(self, fork: Fork, ins: list[_Open], around: _Around) -> list[_Open]:
        join = f"{fork.key}.end"
        text = fork.kind if fork.name in {fork.kind, None} else f"{fork.kind} {fork.name}"
        self.node(Node(fork.key, "fork", text, fork.notes, fork.name, fork.place))
        self.lead(ins, fork.key)
        for arm in fork.arms:
            within = _Around()
            outs = self.block(arm.body, [_Open(fork.key, "branch", _branch_label(arm))], within)
            self.lead([each._replace(kind="join") if each.kind == "next" else each for each in outs], join)
            self.lead([each._replace(kind="join") for each in within.returns], join)
        self.node(Node(join, "join", ""))
        self.lead([_Open(fork.key, "past")], join)
        around.failing.append(_Open(join, "except"))
        return [_Open(join)]

    def _guarded(self, guarded: Guarded, ins: list[_Open], around: _Around) -> list[_Open]:
        within = around.inner()
        within.failing = []
        if guarded.final:
            within.returns = []
        outs = self.block(guarded.body, ins, within)
        if not guarded.handlers:
            around.failing += within.failing
        for arm in guarded.handlers:
            caught = [each._replace(label=arm.label) for each in within.failing]
            handling = around.inner()
            handling.returns = within.returns
            outs += self.block(arm.body, caught, handling)
        if not guarded.final:
            return outs
        uncaught = [] if guarded.handlers else within.failing
        done = self.block(guarded.final, [*outs, *within.returns, *uncaught], around)
        around.returns += done if within.returns or uncaught else []
        return done

    def _group(self, group: Group, ins: list[_Open], around: _Around) -> list[_Open]:
        if not group.body:
            self.node(Node(group.key, "again", group.text, place=group.place))
            self.lead(ins, group.key)
            return [_Open(group.key)]
        if group.kind != "helper":
            return self.block(group.body, ins, around)
        before, self._groups = self._groups, (*self._groups, f"{group.key} {group.text}")
        within = _Around()
        within.failing = around.failing
        outs = self.block(group.body, ins, within)
        self._groups = before
        return [*outs, *within.returns]

    def _leave(self, leave: Leave, ins: list[_Open], around: _Around) -> list[_Open]:
        match leave.kind:
            case "break" if around.loop is not None:
                around.loop.breaks.extend(ins)
            case "continue" if around.loop is not None:
                self.lead(
                    [each._replace(kind="back") if each.kind == "next" else each for each in ins], around.loop.key
                )
            case "break" | "continue":
                return ins
            case kind:
                self.node(Node(leave.key, kind, leave.text, place=leave.place))
                self.lead(ins, leave.key)
                if kind == "raise":
                    around.failing.append(_Open(leave.key, "except"))
                else:
                    around.returns.append(_Open(leave.key))
        return []


def _branch_label(arm: Arm) -> str:
    return f"{arm.label}*" if arm.each and arm.label != "each" else arm.label


def outgoing(graph: Graph) -> dict[str, list[Edge]]:
    """Return the edges by the node that they leave."""
    found: dict[str, list[Edge]] = {node.key: [] for node in graph.nodes}
    for edge in graph.edges:
        found[edge.source].append(edge)
    return found
