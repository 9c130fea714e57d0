"""Large values made small enough to send and to show, with what was left out told beside them. Pure.

What is left out is told by its path and not by a mark in its place: any mark could as well be a value of somebody's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

Json: TypeAlias = Any
Path: TypeAlias = tuple[str | int, ...]

TEXT_MAX: Final = 2_000
"""So many characters of a text are shown."""
ITEMS_MAX: Final = 100
"""So many items of a list, or fields of an object."""
NODES_MAX: Final = 2_000
"""So many values in all; what comes after them is left empty."""
DEPTH_MAX: Final = 60


class Cut(NamedTuple):
    """Something was left out of the text, list or object at *path*: it has *size* characters, items or fields in all."""

    path: Path
    size: int


class Short(NamedTuple):
    """A *value* of which some may be left out, and what."""

    value: Json
    cuts: tuple[Cut, ...]

    def as_json(self) -> dict[str, Json]:
        """Return it for the page: the cuts are left out where there are none."""
        return {
            "value": self.value,
            **({"cuts": [[list(cut.path), cut.size] for cut in self.cuts]} if self.cuts else {}),
        }


def short(value: Json, *, text_max: int = TEXT_MAX, items_max: int = ITEMS_MAX, nodes_max: int = NODES_MAX) -> Short:
    """Return *value*, which is JSON, or the first part of it."""
    shortening = _Shortening(text_max, items_max, nodes_max)
    return Short(shortening.of(value, ()), tuple(shortening.cuts))


def at_path(value: Json, path: Sequence[str | int]) -> Json:
    """Return what stands at *path* in *value*.

    Raises:
        LookupError: nothing does.
    """
    for step in path:
        match value, step:
            case list(), int() if 0 <= step < len(value):
                value = value[step]
            case dict(), str():
                value = value[step]
            case _:
                raise LookupError(step)
    return value


def compact(value: Json) -> str:
    """Return *value* as JSON text that holds nothing but ASCII, so that no half of a character is lost."""
    return json.dumps(value, separators=(",", ":"))


class _Shortening:
    def __init__(self, text_max: int, items_max: int, nodes_max: int) -> None:
        self._text_max, self._items_max, self._left = text_max, items_max, nodes_max
        self.cuts: list[Cut] = []

    def of(self, value: Json, path: Path) -> Json:
        self._left -= 1
        if isinstance(value, str) and len(value) > self._text_max:
            return self._cut(path, len(value), value[: self._text_max])
        if isinstance(value, Mapping):
            kept = {name: self.of(item, (*path, name)) for name, item in self._first(value.items(), path)}
            return kept if len(kept) == len(value) else self._cut(path, len(value), kept)
        if isinstance(value, (list, tuple)):
            items = [self.of(item, (*path, at)) for at, item in self._first(enumerate(value), path)]
            return items if len(items) == len(value) else self._cut(path, len(value), items)
        return value

    def _first(self, items: Any, path: Path) -> Iterator[Any]:
        for item in islice(items, self._items_max):
            if self._left <= 0 or len(path) >= DEPTH_MAX:
                return
            yield item

    def _cut(self, path: Path, size: int, kept: Json) -> Json:
        self.cuts.append(Cut(path, size))
        return kept
