"""The first page of what is read in order: it ends once it is large enough, and holds at least one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def first_page(items: Iterable[T], size: Callable[[T], int], limit_bytes: int) -> list[T]:
    """Return the first of *items*, up to and including the one that takes their sizes past *limit_bytes*."""
    return list(_taken(items, size, limit_bytes))


def _taken(items: Iterable[T], size: Callable[[T], int], limit_bytes: int) -> Iterator[T]:
    taken = 0
    for item in items:
        yield item
        taken += size(item)
        if taken > limit_bytes:
            return
