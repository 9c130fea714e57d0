"""Boxes that are put under and beside each other: how large they are, where the line goes in and out, and how each is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Final, NamedTuple, TypeAlias

Draw: TypeAlias = Callable[[float, float], Iterator[str]]

GAP: Final = 24.0
BESIDE: Final = 26.0
PAD: Final = 16.0
ROW: Final = 20.0


class Laid(NamedTuple):
    """A part of a picture: its size, the axis on which the line goes in and out, and whether it goes out at all.

    *draw* yields its elements, for the place of its upper left corner.
    """

    width: float
    height: float
    axis: float
    falls: bool
    draw: Draw


def width_of(text: str, size: float = 13) -> float:
    """Return about how wide *text* is, in whole pixels, at a font *size*: sums of these are the same in every Python."""
    wide = len(text) + 0.9 * sum(ord(sign) > 0x2E80 for sign in text)
    return float(round(wide * size * 0.585))


def number(value: float) -> str:
    """Return a coordinate, short."""
    return f"{value:.1f}".removesuffix(".0")


def text_at(x: float, y: float, text: str, kind: str, *, anchor: str = "start") -> str:
    """Return a line of text whose baseline is at *y*."""
    at = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{number(x)}" y="{number(y)}" class="{kind}"{at}>{escape(text)}</text>'


def line(points: Sequence[tuple[float, float]], kind: str = "line", *, arrow: bool = False) -> str:
    """Return a line through *points*, with rounded corners left to the eye."""
    way = " ".join(f"{'M' if at == 0 else 'L'}{number(x)} {number(y)}" for at, (x, y) in enumerate(points))
    head = ' marker-end="url(#arrow)"' if arrow else ""
    return f'<path d="{way}" class="{kind}"{head}/>'


def box(x: float, y: float, size: tuple[float, float], kind: str, *, radius: float = 8) -> str:
    """Return a rectangle with round corners."""
    width, height = size
    at = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
    return f'<rect {at} rx="{number(radius)}" class="{kind}"/>'


def nothing() -> Laid:
    """Return a part in which nothing is done: the line goes through."""

    def draw(x: float, y: float) -> Iterator[str]:
        yield line([(x + 24, y), (x + 24, y + 8)])

    return Laid(48, 8, 24, True, draw)


def stacked(parts: Sequence[Laid]) -> Laid:
    """Return *parts* under each other, on one axis, with arrows between them."""
    if not parts:
        return nothing()
    axis = max(part.axis for part in parts)
    width = axis + max(part.width - part.axis for part in parts)
    height = sum(part.height for part in parts) + GAP * (len(parts) - 1)

    def draw(x: float, y: float) -> Iterator[str]:
        for at, part in enumerate(parts):
            yield from part.draw(x + axis - part.axis, y)
            y += part.height
            if at < len(parts) - 1:
                if part.falls:
                    yield line([(x + axis, y), (x + axis, y + GAP - 2)], arrow=True)
                y += GAP

    return Laid(width, height, axis, parts[-1].falls, draw)


class Column(NamedTuple):
    """One of several parts beside each other: its label, and the kind of the line that leads to it."""

    label: str
    part: Laid
    kind: str = "line"


def width_beside(columns: Sequence[Column]) -> float:
    """Return how wide *columns* are beside each other."""
    return sum(map(width_of_column, columns)) + BESIDE * (len(columns) - 1)


def width_of_column(column: Column) -> float:
    """Return how wide a column is with its label, which stands right of its axis."""
    return max(column.part.width, column.part.axis + width_of(column.label, 11) + 10)


def container(title: str, kind: str, inner: Laid, notes: str = "") -> Laid:
    """Return *inner* in a frame with a title."""
    head = width_of(title, 12) + width_of(notes, 11) + 40
    width = max(inner.width + 2 * PAD, head)
    left = (width - inner.width) / 2
    top = ROW + 14

    def draw(x: float, y: float) -> Iterator[str]:
        yield box(x, y, (width, inner.height + top + PAD), f"frame {kind}", radius=10)
        yield text_at(x + 12, y + 17, title, "title")
        if notes:
            yield text_at(x + 18 + width_of(title, 12), y + 17, notes, "note")
        is_under_title = left + inner.axis < head - 8
        above = y + (ROW + 4 if is_under_title else 0)
        yield line([(x + left + inner.axis, above), (x + left + inner.axis, y + top - 2)], arrow=True)
        yield from inner.draw(x + left, y + top)
        if inner.falls:
            yield line(
                [(x + left + inner.axis, y + top + inner.height), (x + left + inner.axis, y + top + inner.height + PAD)]
            )

    return Laid(width, inner.height + top + PAD, left + inner.axis, True, draw)
