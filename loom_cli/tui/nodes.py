"""What a pane shows: a tree that is opened as far as somebody looks. Pure.

A value of a log may have millions of parts: children are made when their node is opened, in groups where there are many, and
a text is cut to what a line can hold. So a tree costs what is seen of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from loom_cli.readable import readable
from loom_cli.screen import Styled
from loom_cli.times import date_time

Json: TypeAlias = Any
Key: TypeAlias = tuple[str, ...]
Mark: TypeAlias = Literal["", "new", "changed", "inside", "gone"]
"""What became of a node since what it is compared with; *inside*: of something below it."""

GROUP: Final = 100
"""So many children at most stand in a row; more are in groups."""
BRIEF_MAX: Final = 400
_READABLE_MAX: Final = 2_000
_A_TIME: Final = 10**11
"""A number under a name of a time is one from this on, in milliseconds since the epoch."""
_TEXT_LINES_MAX: Final = 400
_TEXT_WIDTH: Final = 100


class Node(NamedTuple):
    """One line of a tree: *key* names it for ever, *label* is what it says, or makes that when it is in sight, *children* gives what is below, None: nothing is."""

    key: Key
    label: tuple[Styled, ...] | Callable[[], tuple[Styled, ...]]
    children: Callable[[], Iterable[Node]] | None = None
    mark: Mark = ""
    is_open: bool = False
    """Whether it is open before anybody has opened or closed it."""

    @property
    def pieces(self) -> tuple[Styled, ...]:
        """What it says."""
        return self.label if isinstance(self.label, tuple) else self.label()


class Shown(NamedTuple):
    """A node as a line: how deep it stands, and whether it is open (None: it has nothing below)."""

    node: Node
    depth: int
    is_open: bool | None


def shown(nodes: Iterable[Node], toggled: frozenset[Key]) -> list[Shown]:
    """Return the lines of a tree; *toggled* are the keys that were opened, or closed where they begin open."""
    return list(_shown(nodes, toggled, 0))


def _shown(nodes: Iterable[Node], toggled: frozenset[Key], depth: int) -> Iterator[Shown]:
    for node in nodes:
        if node.children is None:
            yield Shown(node, depth, None)
            continue
        is_open = (node.key in toggled) is not node.is_open
        yield Shown(node, depth, is_open)
        if is_open:
            yield from _shown(node.children(), toggled, depth + 1)


def heading(key: str, text: str, children: Sequence[Node], *, is_open: bool = True) -> Node:
    """Return a node that holds *children* under a title."""
    label = (Styled(text, "bold"), Styled(f"  {len(children)}" if len(children) > 1 else "", "dim"))
    return Node((key,), label, lambda: children, is_open=is_open)


def line(key: Key, *pieces: Styled) -> Node:
    """Return a node of one line."""
    return Node(key, pieces)


# -- values --------------------------------------------------------------------------------------------------------------


MarkOf: TypeAlias = Callable[[Key], Mark]


def unmarked(key: Key) -> Mark:
    """Return that nothing is known of what became of a node."""
    return ""


def value_node(key: Key, name: str, value: Json, *, mark_of: MarkOf = unmarked, is_open: bool = False) -> Node:
    """Return the tree of a JSON *value* of a log, by *name*."""
    value = as_read(value)
    begin = (Styled(name, "name"), Styled("  " if name else ""))
    mark = mark_of(key)
    match value:
        case dict() | list() if value:
            label = (*begin, Styled(brief(value)), Styled(f"  {_size(value)}", "dim"))
            return Node(key, label, lambda: _entries(key, value, mark_of), mark, is_open)
        case str() if len(value) > BRIEF_MAX or "\n" in value:
            label = (*begin, Styled(brief(value)), Styled(f"  {len(value):,} characters", "dim"))
            return Node(key, label, lambda: _text_lines(key, value), mark, is_open)
        case int() if name.endswith("_at") and value > _A_TIME:
            return Node(
                key, (*begin, Styled(f"{value}", "number"), Styled(f"  {date_time(value)}", "quiet")), None, mark
            )
        case _:
            return Node(key, (*begin, Styled(brief(value), _style_of(value))), None, mark)


def as_read(value: Json) -> Json:
    """Return *value* without the tags that say which types its parts had; one that is very large keeps them."""
    return readable(value) if _is_small(value) else value


def _is_small(value: Json) -> bool:
    seen, waiting = 0, [value]
    while waiting:
        match waiting.pop():
            case dict() as entries:
                seen += len(entries)
                waiting.extend(entries.values())
            case list() as items:
                seen += len(items)
                waiting.extend(items[: _READABLE_MAX + 1])
            case str() as text:
                seen += len(text) // BRIEF_MAX
        if seen > _READABLE_MAX:
            return False
    return True


def _size(value: dict[str, Json] | list[Json]) -> str:
    kind = "entry" if isinstance(value, dict) else "item"
    many = {"entry": "entries", "item": "items"}[kind]
    return f"{len(value):,} {kind if len(value) == 1 else many}"


def _style_of(value: Json) -> str:
    return "" if isinstance(value, str) else "number"


def _entries(key: Key, value: dict[str, Json] | list[Json], mark_of: MarkOf) -> Iterator[Node]:
    def between(first: int, last: int) -> Iterator[Node]:
        pairs = value.items() if isinstance(value, dict) else ((str(at), item) for at, item in enumerate(value))
        for name, item in islice(pairs, first, last):
            yield value_node((*key, name), name, item, mark_of=mark_of)

    yield from grouped(key, len(value), between, mark_of)


def grouped(
    key: Key, count: int, between: Callable[[int, int], Iterable[Node]], mark_of: MarkOf = unmarked
) -> Iterator[Node]:
    """Yield *count* children, which *between* makes from one number up to another, in groups where there are many."""
    if count <= GROUP:
        yield from between(0, count)
        return
    size = GROUP
    while count > size * GROUP:
        size *= GROUP
    for first in range(0, count, size):
        last = min(first + size, count)
        name = f"{first:,} .. {last - 1:,}"
        yield Node((*key, name), (Styled(name, "dim"),), _group(key, between, first, last))


def _group(
    key: Key, between: Callable[[int, int], Iterable[Node]], first: int, last: int
) -> Callable[[], Iterable[Node]]:
    def nested(low: int, high: int) -> Iterable[Node]:
        return between(first + low, first + high)

    return lambda: grouped((*key, str(first)), last - first, nested)


def text_nodes(key: Key, text: str, style: str = "") -> list[Node]:
    """Return a text as lines, the long ones broken."""
    return list(_text_lines(key, text, style))


def _text_lines(key: Key, text: str, style: str = "") -> Iterator[Node]:
    number = 0
    for begin in text.split("\n", _TEXT_LINES_MAX)[:_TEXT_LINES_MAX]:
        for at in range(0, max(len(begin), 1), _TEXT_WIDTH):
            number += 1
            if number > _TEXT_LINES_MAX:
                break
            yield Node((*key, f"line {number}"), (Styled(begin[at : at + _TEXT_WIDTH].replace("\t", "    "), style),))
    if number > _TEXT_LINES_MAX or text.count("\n") >= _TEXT_LINES_MAX:
        yield Node((*key, "more"), (Styled("this is the beginning of it", "dim"),))


# -- one line ------------------------------------------------------------------------------------------------------------


def brief(value: Json, limit: int = BRIEF_MAX) -> str:
    """Return the beginning of *value* as compact JSON, of about *limit* characters; no more of it is looked at."""
    parts: list[str] = []
    left = limit
    for part in _tokens(value, limit):
        parts.append(part)
        left -= len(part)
        if left < 0:
            return "".join(parts)[:limit] + "\u2026"
    return "".join(parts)


def _tokens(value: Json, limit: int) -> Iterator[str]:
    match value:
        case dict():
            yield "{"
            for at, (name, each) in enumerate(value.items()):
                yield f"{', ' if at else ''}{json.dumps(name[:limit], ensure_ascii=False)}: "
                yield from _tokens(each, limit)
            yield "}"
        case list():
            yield "["
            for at, each in enumerate(value):
                yield ", " if at else ""
                yield from _tokens(each, limit)
            yield "]"
        case str():
            yield json.dumps(value[: limit + 1], ensure_ascii=False)
        case _:
            yield json.dumps(value, ensure_ascii=False, default=str)
