"""A shape as lines of text, for a terminal: what is inside something is further to the right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from loom.devtools.graphing.edges import Edge
from loom.devtools.graphing.structure import Act, Arm, Block, Choice, Fork, Group, Guarded, Item, Leave, Loop, Shape
from loom.devtools.graphing.visits import Visit, Visits


class Line(NamedTuple):
    """One line: how deep, which word it begins with, what it says, what is noted; and what a run did there.

    *visit* is None where nothing of it was visited, or nobody asked; *reached* is False only for the former.
    """

    depth: int
    word: str
    text: str
    notes: tuple[str, ...] = ()
    visit: Visit | None = None
    reached: bool = True


_WORDS: Final = {
    "step": "step",
    "gate": "gate",
    "message": "receive",
    "timer": "sleep",
    "decision": "decide",
    "event": "emit",
    "stream": "stream",
    "child": "child",
}


def lines(shape: Shape, visits: Visits | None = None) -> list[Line]:
    """Return *shape* as lines, the head first."""
    takes = f"({shape.takes})" if shape.takes else "()"
    head = Line(0, "flow", f"{shape.flow}{takes}" + (f" -> {shape.gives}" if shape.gives else ""), (str(shape.place),))
    return [head, *_Telling(visits).block(shape.body, 1)]


class _Telling:
    def __init__(self, visits: Visits | None) -> None:
        self._visits = visits

    def block(self, block: Block, depth: int) -> Iterator[Line]:
        for item in block:
            yield from self._item(item, depth)

    def _item(self, item: Item, depth: int) -> Iterator[Line]:
        match item:
            case Act():
                yield self._line(item.key, depth, _WORDS[item.kind], item.text, *item.notes)
            case Choice(key=key, text=text):
                yield self._line(key, depth, "if" if text else "choose", text)
                yield from self._arms(key, item.arms, depth + 1, kind="choice")
            case Loop(key=key):
                yield self._line(key, depth, "loop", item.text)
                yield from self.block(item.body, depth + 1)
            case Fork(key=key):
                name = "" if item.name == item.kind else item.name or "?"
                yield self._line(key, depth, item.kind, name, *item.notes)
                yield from self._arms(key, item.arms, depth + 1, kind="branch")
            case Guarded():
                yield from self._guarded(item, depth)
            case Group(body=body):
                yield Line(depth, item.text, "", () if body else ("inside itself",))
                yield from self.block(body, depth + 1)
            case Leave():
                yield self._line(item.key, depth, item.kind, item.text)

    def _line(self, key: str, depth: int, word: str, text: str, *notes: str) -> Line:
        visit = self._visits.nodes.get(key) if self._visits is not None else None
        return Line(depth, word, text, notes, visit, visit is not None or self._visits is None)

    def _arms(self, key: str, arms: tuple[Arm, ...], depth: int, *, kind: str) -> Iterator[Line]:
        for arm in arms:
            if kind == "choice" and not arm.body:
                continue
            taken = self._visits is None or any(_is_of(edge, key, arm.label) for edge in self._visits.edges)
            yield Line(depth, arm.label, "", reached=taken)
            yield from self.block(arm.body, depth + 1)

    def _guarded(self, guarded: Guarded, depth: int) -> Iterator[Line]:
        yield Line(depth, "try", "")
        yield from self.block(guarded.body, depth + 1)
        for arm in guarded.handlers:
            yield Line(depth, "except", arm.label)
            yield from self.block(arm.body, depth + 1)
        if guarded.final:
            yield Line(depth, "finally", "")
            yield from self.block(guarded.final, depth + 1)


def _is_of(edge: Edge, key: str, label: str) -> bool:
    return edge.source == key and edge.label in {label, f"{label}*"}
