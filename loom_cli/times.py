"""Times and durations for people. Pure: what now is, the caller says; the zone is the machine's."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time
from typing import Final

_SECOND: Final = 1000
_UNITS: Final = (("d", 86_400 * _SECOND), ("h", 3_600 * _SECOND), ("m", 60 * _SECOND), ("s", _SECOND))
_TIME_OF_DAY: Final = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def duration(ms: int) -> str:
    """Return how long *ms* milliseconds took, in two whole units at most: `240ms`, `4.2s`, `3m 20s`, `2d 4h`."""
    ms = abs(ms)
    if ms < _SECOND:
        return f"{ms}ms"
    if ms < 10 * _SECOND:
        return f"{ms // 100 / 10:g}s"
    at = _unit_of(ms)
    unit, size = _UNITS[at]
    whole, rest = divmod(ms, size)
    smaller = _UNITS[at + 1] if at + 1 < len(_UNITS) else None
    if smaller is not None and rest >= smaller[1]:
        return f"{whole}{unit} {rest // smaller[1]}{smaller[0]}"
    return f"{whole}{unit}"


def distance(at_ms: int, now_ms: int) -> str:
    """Return how far *at_ms* is from now, to the nearest unit: `now`, `12s`, `3m` ago; `in 2h`, `in 3d` to come."""
    passed = now_ms - at_ms
    far = abs(passed)
    if far < _SECOND:
        return "now"
    at = _unit_of(far)
    count = _nearest(far, at)
    if at > 0 and count * _UNITS[at][1] >= _UNITS[at - 1][1]:  # 59.9s are a minute, and not 60s
        at, count = at - 1, 1
    return f"{'' if passed > 0 else 'in '}{count}{_UNITS[at][0]}"


def _nearest(ms: int, at: int) -> int:
    size = _UNITS[at][1]
    return (ms + size // 2) // size


def moment(at_ms: int, now_ms: int) -> str:
    """Return when *at_ms* is, as far as *now_ms* leaves it open: `14:03:20`, `2 Dec 14:03`, `2 Dec 2027 14:03`."""
    at, now = _local(at_ms), _local(now_ms)
    if at is None or now is None:
        return _untold(at_ms)
    if at.date() == now.date():
        return at.strftime("%H:%M:%S")
    year = f" {at.year}" if at.year != now.year else ""
    return f"{at.day} {_MONTHS[at.month - 1]}{year} {at.strftime('%H:%M')}"


def date_time(at_ms: int) -> str:
    """Return *at_ms* in full, to the second."""
    return _formatted(at_ms, "%Y-%m-%d %H:%M:%S")


def time_of_day(at_ms: int) -> str:
    """Return the time of day of *at_ms*, to the millisecond."""
    at = _local(at_ms)
    return at.strftime("%H:%M:%S.%f")[:-3] if at is not None else _untold(at_ms)


def day(at_ms: int) -> str:
    """Return the date of *at_ms*."""
    return _formatted(at_ms, "%Y-%m-%d")


def time_meant(text: str, near_ms: int) -> int | None:
    """Return the time that *text* is: ISO 8601, or a time of day, then on the day of *near_ms*; None: it is none."""
    near = _local(near_ms)
    try:
        if near is not None and _TIME_OF_DAY.fullmatch(text):
            at = datetime.combine(near.date(), time.fromisoformat(text), near.tzinfo)
        else:
            at = datetime.fromisoformat(text).astimezone()
        return round(at.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def _unit_of(ms: int) -> int:
    return next(at for at, (_, size) in enumerate(_UNITS) if ms >= size)


def _formatted(at_ms: int, how: str) -> str:
    at = _local(at_ms)
    return at.strftime(how) if at is not None else _untold(at_ms)


def _untold(at_ms: int) -> str:
    return f"{at_ms} ms since 1970"


def _local(at_ms: int) -> datetime | None:
    """Return *at_ms* here; None for what no calendar holds, as a damaged log may."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
