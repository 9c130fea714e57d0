"""Durations as authors give them."""

from __future__ import annotations

from datetime import timedelta

from loom.core.errors import InvalidDeclaration


def milliseconds(duration: timedelta | float) -> int:
    """Return *duration*, a timedelta or seconds, in whole milliseconds.

    Raises:
        InvalidDeclaration: it is negative.
    """
    given = duration if isinstance(duration, timedelta) else timedelta(seconds=duration)
    if given < timedelta(0):
        raise InvalidDeclaration(f"{given} lies in the past")
    return round(given.total_seconds() * 1000)
