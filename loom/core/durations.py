"""Durations and times as authors give them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from loom.core.errors import InvalidDeclaration

_FOR_EVER: Final = "Give a timedelta, or a number of seconds. What is to wait for ever is given no timeout."


def milliseconds(duration: timedelta | float) -> int:
    """Return *duration*, a timedelta or seconds, in whole milliseconds.

    Raises:
        InvalidDeclaration: it is negative, is no duration, or is longer than a timedelta can be.
    """
    given = duration if isinstance(duration, timedelta) else _of_seconds(duration)
    if given < timedelta(0):
        raise InvalidDeclaration(f"{given} lies in the past")
    return round(given.total_seconds() * 1000)


def timeout_ms(timeout: timedelta | float | None) -> int | None:
    """Return the argument *timeout* of a syscall in whole milliseconds, None where there is none.

    Raises:
        InvalidDeclaration: as for `milliseconds`; it names the argument.
    """
    try:
        return None if timeout is None else milliseconds(timeout)
    except InvalidDeclaration as error:
        raise InvalidDeclaration(f"timeout: {error}", hint=error.hint) from error


def instant(when: object) -> int:
    """Return *when* as milliseconds since the epoch.

    Raises:
        InvalidDeclaration: it is no datetime, or in no zone.
    """
    if not isinstance(when, datetime):
        hint = "Write it as in datetime(2026, 11, 30, tzinfo=UTC); ctx.sleep takes how long."
        raise InvalidDeclaration(f"{when!r} is no datetime", hint=hint)
    if when.tzinfo is None:
        raise InvalidDeclaration(f"{when.isoformat()} is in no zone", hint="Give the time with its zone: tzinfo=UTC.")
    return int(when.timestamp() * 1000)


def _of_seconds(seconds: float) -> timedelta:
    if isinstance(seconds, bool):
        raise InvalidDeclaration(f"{seconds!r} is no duration", hint=_FOR_EVER)
    try:
        return timedelta(seconds=seconds)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidDeclaration(f"{seconds!r:.60} is no duration", hint=_FOR_EVER) from error
