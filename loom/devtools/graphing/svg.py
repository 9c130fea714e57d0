"""A shape as an SVG picture: complete in itself, readable on a light and on a dark ground."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from string import Template
from typing import Final

from loom.devtools.graphing.boxes import (
    BESIDE,
    GAP,
    PAD,
    ROW,
    Column,
    Laid,
    box,
    container,
    line,
    nothing,
    number,
    stacked,
    text_at,
    width_beside,
    width_of,
    width_of_column,
)
from loom.devtools.graphing.structure import Act, Arm, Block, Choice, Fork, Group, Guarded, Item, Leave, Loop, Shape
from loom.devtools.graphing.visits import Visits

_MARGIN: Final = 24.0
_KINDS: Final = {"message": "receive", "timer": "sleep", "decision": "decide", "event": "emit"}

_LIGHT: Final = {
    "ground": "#ffffff",
    "ink": "#1c2430",
    "faint": "#566272",
    "rule": "#8c98a6",
    "box": "#f7f9fb",
    "panel": "#e9eef3",
    "step": "#3b6ea8",
    "gate": "#b7791f",
    "wait": "#7b5ea7",
    "child": "#2b8a78",
    "done": "#2f8f4e",
    "failed": "#c0392b",
}
_DARK: Final = {
    "ground": "#12161c",
    "ink": "#e6ebf1",
    "faint": "#a3b0be",
    "rule": "#6b7887",
    "box": "#1c232c",
    "panel": "#232c37",
    "step": "#6ea8e6",
    "gate": "#e0a94a",
    "wait": "#b49be0",
    "child": "#5cc4b0",
    "done": "#59c07c",
    "failed": "#ef7468",
}
_COLOURS: Final = """
text{fill:$ink}.note,.label,.title,.kind{fill:$faint}.ground{fill:$ground}
.line,.fails{stroke:$rule}.fails{stroke:$failed}.arrow{fill:$rule}.bar{stroke:$ink}.frame{stroke:$rule}
.box{fill:$box;stroke:$step}.box.gate{stroke:$gate}.box.message,.box.timer{stroke:$wait}.box.child{stroke:$child}
.stripe{fill:$step}.stripe.gate{fill:$gate}.stripe.message,.stripe.timer{fill:$wait}.stripe.child{fill:$child}
.end,.choice{fill:$panel;stroke:$rule}.badge{fill:$ground;stroke:$rule}
.box.done,.choice.done,.end.done,.line.on{stroke:$done}.fails.on{stroke:$failed}
.box.failed{stroke:$failed}.box.waiting{stroke:$gate}.box.running{stroke:$step}
""".strip()
_FORMS: Final = """
text{font-family:ui-sans-serif,system-ui,"DejaVu Sans",sans-serif;font-size:13px}
.note,.label{font-size:11px}.title{font-size:12px;font-weight:600}.kind{font-size:10px}
.head{font-size:16px;font-weight:600}.count{font-size:11px;font-weight:600}
.line,.fails{fill:none;stroke-width:1.4}.fails{stroke-dasharray:4 3}.on{stroke-width:2.4}.bar{stroke-width:3}
.box,.choice{stroke-width:1.4}.end{stroke-width:1.2}.badge{stroke-width:1}
.frame{fill:none;stroke-width:1}.frame.loop{stroke-dasharray:6 4}.frame.helper{stroke-opacity:.6}
.box.done,.box.failed,.end.done,.choice.done{stroke-width:2.4}.box.waiting,.box.running{stroke-width:3.4}
.box.cut{stroke-dasharray:3 3}.off{opacity:.45}
""".strip()


def style() -> str:
    """Return the style sheet: light unless the viewer says that its ground is dark."""
    dark = Template(_COLOURS).substitute(_DARK)
    return f"{_FORMS}\n{Template(_COLOURS).substitute(_LIGHT)}\n@media (prefers-color-scheme:dark){{\n{dark}\n}}"


def svg(shape: Shape, visits: Visits | None = None) -> str:
    """Return *shape* as the text of an SVG file; what a run visited is marked, the rest is faint."""
    drawing = _Drawing(visits)
    start, end = drawing.start(shape), drawing.end(shape)
    body = stacked([start, *drawing.parts(shape.body), *([end] if _falls(shape.body) else [])])
    head = 62.0 if shape.about else 42.0
    title = f"{shape.flow}({shape.takes})" + (f" → {shape.gives}" if shape.gives else "")
    width = max(body.width, width_of(title, 16), width_of(shape.about, 12)) + 2 * _MARGIN
    height = body.height + head + 2 * _MARGIN
    size = f'width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(f"The flow {shape.flow}")}" {size}>',
        f"<title>{escape(title)}</title>",
        f"<style>{style()}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="6" refY="4" markerUnits="userSpaceOnUse" markerWidth="9" markerHeight="9" orient="auto">',
        '<path d="M0 0L8 4L0 8z" class="arrow"/></marker></defs>',
        f'<rect width="{number(width)}" height="{number(height)}" class="ground"/>',
        text_at(_MARGIN, _MARGIN + 14, title, "head"),
        *([text_at(_MARGIN, _MARGIN + 36, shape.about, "note")] if shape.about else []),
        *body.draw((width - body.width) / 2, _MARGIN + head),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Drawing:
    def __init__(self, visits: Visits | None) -> None:
        self._visits = visits

    # -- what is known of a run ------------------------------------------------------------------------------------------

    def _mark(self, key: str) -> str:
        if self._visits is None:
            return ""
        visit = self._visits.nodes.get(key)
        return "off" if visit is None else visit.worst

    def _count(self, key: str) -> int:
        visit = self._visits.nodes.get(key) if self._visits is not None else None
        return visit.count if visit is not None else 0

    def _line(self, key: str, label: str, kind: str) -> str:
        """Return the kind of the line that leads from *key* to the arm *label*."""
        if self._visits is None:
            return kind
        labels = {label, f"{label}*"}
        taken = any(edge.source == key and edge.label in labels for edge in self._visits.edges)
        return f"{kind} on" if taken else f"{kind} off"

    # -- parts -----------------------------------------------------------------------------------------------------------

    def parts(self, block: Block) -> list[Laid]:
        """Return the items of *block*, laid out."""
        return [self._item(item) for item in block if not (isinstance(item, Leave) and item.kind == "continue")]

    def block(self, block: Block) -> Laid:
        """Return *block* as one part."""
        return stacked(self.parts(block))

    def start(self, shape: Shape) -> Laid:
        """Return where the flow begins."""
        return self._pill("start", shape.takes or "start", falls=True)

    def end(self, shape: Shape) -> Laid:
        """Return where the flow ends."""
        return self._pill("end", shape.gives or "end", falls=False)

    def _item(self, item: Item) -> Laid:  # noqa: PLR0911  # a row for each kind
        match item:
            case Act():
                return self._act(item)
            case Choice():
                return self._choice(item)
            case Loop():
                return self._loop(item)
            case Fork():
                return self._fork(item)
            case Guarded():
                return self._guarded(item)
            case Group():
                return self._group(item)
            case Leave():
                words = {"rolls over": "continues as new"}.get(item.kind, f"{item.kind} {item.text}".strip())
                return self._pill(item.key, words, falls=False)

    def _pill(self, key: str, text: str, *, falls: bool) -> Laid:
        width = width_of(text, 12) + 30
        mark = self._mark(key)

        def draw(x: float, y: float) -> Iterator[str]:
            yield f'<g class="{"off" if mark == "off" else ""}">'
            yield box(x, y, (width, 28), f"end {mark}".strip(), radius=14)
            yield text_at(x + width / 2, y + 18.5, text, "note", anchor="middle") + "</g>"

        return Laid(width, 28, width / 2, falls, draw)

    def _act(self, act: Act) -> Laid:
        kind, notes = _KINDS.get(act.kind, act.kind), " · ".join(act.notes)
        width = max(width_of(act.text) + width_of(kind, 10) + 50, width_of(notes, 11) + 34)
        height = 50.0 if notes else 34.0
        mark, count = self._mark(act.key), self._count(act.key)

        def draw(x: float, y: float) -> Iterator[str]:
            yield f'<g class="{"off" if mark == "off" else ""}"><title>{escape(f"{kind} {act.text} — {act.place}")}</title>'
            yield box(x, y, (width, height), f"box {act.kind} {mark}".strip())
            yield box(x + 5, y + 6, (4, height - 12), f"stripe {act.kind}", radius=2)
            yield text_at(x + 18, y + 22, act.text, "name")
            yield text_at(x + width - 10, y + 21, kind, "kind", anchor="end")
            if notes:
                yield text_at(x + 18, y + 40, notes, "note")
            if count > 1:
                yield box(x + width - 20, y - 10, (34, 20), f"badge {mark}", radius=10)
                yield text_at(x + width - 3, y + 4, f"{count}\N{MULTIPLICATION SIGN}", "count", anchor="middle")
            yield "</g>"

        return Laid(width, height, width / 2, True, draw)

    def _choice(self, choice: Choice) -> Laid:
        columns = [Column(arm.label, self._arm(arm), self._line(choice.key, arm.label, "line")) for arm in choice.arms]
        head = self._head(choice.key, f"{choice.text} ?" if choice.text else "?")
        return _split(head, columns)

    def _arm(self, arm: Arm) -> Laid:
        return self.block(arm.body) if arm.body else nothing()

    def _head(self, key: str, text: str) -> Laid:
        width, mark = width_of(text, 12) + 44, self._mark(key)

        def draw(x: float, y: float) -> Iterator[str]:
            corners = [
                (x + 14, y),
                (x + width - 14, y),
                (x + width, y + 15),
                (x + width - 14, y + 30),
                (x + 14, y + 30),
                (x, y + 15),
            ]
            points = " ".join(f"{number(a)},{number(b)}" for a, b in corners)
            yield f'<g class="{"off" if mark == "off" else ""}"><polygon points="{points}" class="choice {mark}"/>'
            yield text_at(x + width / 2, y + 19.5, text, "note", anchor="middle") + "</g>"

        return Laid(width, 30, width / 2, True, draw)

    def _loop(self, loop: Loop) -> Laid:
        inner = self.block(loop.body)
        count = self._count(loop.key)
        turns = f"{count - 1} turns" if count > 2 else "1 turn" if count == 2 else ""
        laid = container(f"↻ {loop.text}", "loop", inner, turns)
        return laid._replace(falls=not loop.endless or _breaks(loop.body))

    def _fork(self, fork: Fork) -> Laid:
        title = fork.kind if fork.name == fork.kind else f"{fork.kind} {fork.name or '?'}"
        arms = [Column(_told(arm), self._arm(arm), self._line(fork.key, arm.label, "line")) for arm in fork.arms]
        columns = [each._replace(part=each.part._replace(falls=True)) for each in arms]
        inner = _split(_bar(max(width_beside(columns) * 0.5, 60)), columns or [Column("", nothing())], bar=True)
        return container(title, "fork", inner, " · ".join(fork.notes))

    def _guarded(self, guarded: Guarded) -> Laid:
        body = self.block(guarded.body)
        handlers = [
            Column(arm.label.removeprefix("loom."), self._arm(arm), self._handled(arm)) for arm in guarded.handlers
        ]
        tried = _beside(body, handlers) if handlers else body
        if not guarded.final:
            return tried
        return stacked([tried, container("finally", "helper", self.block(guarded.final))])

    def _handled(self, arm: Arm) -> str:
        """Return the kind of the line that leads to a handler."""
        if self._visits is None:
            return "fails"
        taken = any(edge.kind == "except" and edge.label == arm.label for edge in self._visits.edges)
        return "fails on" if taken else "fails off"

    def _group(self, group: Group) -> Laid:
        if not group.body:
            return self._pill(group.key, f"↺ {group.text}", falls=True)
        inner = self.block(group.body)
        laid = container(group.text, "helper", inner)
        return laid._replace(falls=inner.falls or group.kind == "helper")


def _bar(width: float) -> Laid:
    def draw(x: float, y: float) -> Iterator[str]:
        yield line([(x, y + 1.5), (x + width, y + 1.5)], "bar")

    return Laid(width, 3, width / 2, True, draw)


def _split(head: Laid, columns: Sequence[Column], *, bar: bool = False) -> Laid:
    """Return *columns* beside each other under *head*, and their lines led together again."""
    beside = width_beside(columns)
    width = max(beside, head.width)
    left = (width - beside) / 2
    axis = left + columns[0].part.axis if len(columns) == 1 else width / 2
    tallest = max(column.part.height for column in columns)
    down = head.height + GAP + 8
    height = down + tallest + GAP
    falls = any(column.part.falls for column in columns)

    def draw(x: float, y: float) -> Iterator[str]:
        yield from head.draw(x + axis - head.axis, y)
        at = x + left
        for column in columns:
            middle, top = at + column.part.axis, y + down
            kind = column.kind
            yield line(
                [
                    (x + axis, y + head.height),
                    (x + axis, y + head.height + 8),
                    (middle, y + head.height + 8),
                    (middle, top - 2),
                ],
                kind,
                arrow=True,
            )
            yield text_at(middle + 6, y + head.height + 22, column.label, "label")
            yield from column.part.draw(at, top)
            if column.part.falls:
                below = top + column.part.height
                yield line(
                    [(middle, below), (middle, y + height - 8), (x + axis, y + height - 8), (x + axis, y + height)],
                    "line off" if kind.endswith("off") else "line",
                )
            at += width_of_column(column) + BESIDE
        if bar:
            yield line(
                [(x + axis - head.width / 2, y + height - 1.5), (x + axis + head.width / 2, y + height - 1.5)], "bar"
            )

    return Laid(width, height, axis, falls, draw)


def _beside(body: Laid, handlers: Sequence[Column]) -> Laid:
    """Return *body* with its *handlers* to the right, led to by dashed lines, and all that go on led together below."""
    top = ROW + 6
    right = body.width + 2 * PAD + BESIDE
    width = right + width_beside(handlers)
    tallest = max(body.height + 2 * PAD, *(top + each.part.height for each in handlers))
    rejoin = any(each.part.falls for each in handlers)
    height = tallest + (GAP if rejoin else 0)

    def draw(x: float, y: float) -> Iterator[str]:
        yield box(x, y, (body.width + 2 * PAD, body.height + 2 * PAD), "frame helper", radius=10)
        yield line([(x + PAD + body.axis, y), (x + PAD + body.axis, y + PAD - 2)], arrow=True)
        yield from body.draw(x + PAD, y + PAD)
        below = y + PAD + body.height
        if body.falls:
            yield line([(x + PAD + body.axis, below), (x + PAD + body.axis, y + height)])
        at = x + right
        for each in handlers:
            middle = at + each.part.axis
            yield line(
                [(x + body.width + 2 * PAD, y + 10), (middle, y + 10), (middle, y + top - 2)], each.kind, arrow=True
            )
            yield text_at(middle + 6, y + 22, each.label, "label")
            yield from each.part.draw(at, y + top)
            if each.part.falls:
                end = y + top + each.part.height
                yield line(
                    [
                        (middle, end),
                        (middle, y + height - 8),
                        (x + PAD + body.axis, y + height - 8),
                        (x + PAD + body.axis, y + height),
                    ]
                )
            at += width_of_column(each) + BESIDE

    return Laid(width, height, PAD + body.axis, body.falls or rejoin, draw)


def _told(arm: Arm) -> str:
    return f"{arm.label}, any number" if arm.each else arm.label


def _breaks(block: Block) -> bool:
    """Whether *block*, the body of a loop, leaves it by a break."""
    return any(
        (isinstance(item, Leave) and item.kind == "break") or any(_breaks(inner) for inner in _within(item))
        for item in block
    )


def _within(item: Item) -> list[Block]:
    match item:
        case Choice(arms=arms):
            return [arm.body for arm in arms]
        case Guarded(body=body, handlers=handlers, final=final):
            return [body, *(arm.body for arm in handlers), final]
        case Group(body=body):
            return [body]
        case _:
            return []


def _falls(block: Block) -> bool:
    """Whether the flow can come to the end of *block*."""
    return not block or not (isinstance(block[-1], Leave) and block[-1].kind in {"return", "raise", "rolls over"})
