"""When a schedule ticks: instants in UTC, strictly increasing, and always with an end. Pure.

Clocks are changed, and then an hour of the wall is missing or comes twice. The rule:

- An expression that **counts on with the clock** (its minute or hour begins with `*`: hourly, `*/15`, every two hours)
  ticks whenever the wall clock shows a time that matches. In the doubled hour that is twice; in the missing hour never, for the clock does
  not show it.
- An expression that **names times of the day** (02:30 daily) ticks once for each. In the doubled hour that is the first
  time; in the missing hour, the first instant after the gap. Several that go to that instant are one tick.

The wall times come from the expression alone, on a clock that is never changed; what the zone does to them is decided
here. So a tick does not depend on where one begins to look.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import takewhile
from typing import Final
from zoneinfo import ZoneInfo

from loom.core.ids import ExecutionId
from loom.core.schedule import Schedule, repeats, walls

_NEAR: Final = timedelta(hours=25)
"""No clock is moved by more: Samoa left out a day, in 2011."""

_WRITTEN: Final = "%Y-%m-%dT%H:%M:%SZ"

_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # instants in here are in UTC, all of them


def next_ticks(schedule: Schedule, after_ms: int) -> Iterator[int]:
    """Yield the ticks of *schedule* after *after_ms*, in milliseconds since the epoch, strictly increasing.

    It ends where the calendar does, or once the expression matched nothing for 50 years.
    """
    zone = ZoneInfo(schedule.tz)
    after = _instant(after_ms)
    try:
        for tick in _instants(schedule.cron, zone, _start(zone, after)):
            if tick > after:
                after = tick
                yield (tick - _EPOCH) // _MILLISECOND
    except OverflowError:  # the last day of the calendar, where it is later than in UTC
        return


def ticks_between(schedule: Schedule, after_ms: int, until_ms: int) -> Iterator[int]:
    """Yield the ticks of *schedule* after *after_ms*, up to and including *until_ms*."""
    return takewhile(lambda tick: tick <= until_ms, next_ticks(schedule, after_ms))


def due_at(schedule: Schedule, tick_at: int) -> int:
    """Return when the tick *tick_at* may start: up to the jitter later, always the same for one tick (all in ms)."""
    most = round(schedule.jitter.total_seconds() * 1000)
    if not most:
        return tick_at
    drawn = hashlib.sha256(f"{schedule.id} {tick_at}".encode()).digest()
    return tick_at + int.from_bytes(drawn[:8], "big") % (most + 1)


def execution_id_at(schedule: Schedule, tick_at: int) -> ExecutionId:
    """Return the id of the execution that the tick *tick_at* (ms) starts: `ID-20261130T090000Z`, whatever the jitter."""
    return ExecutionId(f"{schedule.id}-{_instant(tick_at):%Y%m%dT%H%M%SZ}")


def written(tick_at: int) -> str:
    """Return the tick *tick_at* (ms) as text: `2026-11-30T09:00:00Z`."""
    return _instant(tick_at).strftime(_WRITTEN)


def tick_of(execution_id: str, attributes: Mapping[str, object]) -> tuple[str, int] | None:
    """Return the id of the schedule that started an execution, and for which tick (ms); None when none did."""
    schedule, text = attributes.get("schedule"), attributes.get("tick")
    if not isinstance(schedule, str) or not isinstance(text, str):
        return None
    if execution_id != f"{schedule}-{text.replace('-', '').replace(':', '')}":
        return None
    try:
        return schedule, round(datetime.strptime(text, _WRITTEN).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return None


def _start(zone: ZoneInfo, after: datetime) -> datetime:
    """Return a wall time from which on every tick after *after* is found: well before it where the clock changes nearby."""
    nearby = (after - _NEAR, after, after + _NEAR)
    offsets = [_offset(zone, each) for each in nearby]
    return after + offsets[1] if len(set(offsets)) == 1 else nearby[0] + offsets[0]


def _instants(cron: str, zone: ZoneInfo, start: datetime) -> Iterator[datetime]:
    """Yield the instants at which *cron* ticks, in order; one may come twice.

    The second round of a doubled hour has to wait for the rest of the first: no later wall time comes before its own.
    """
    again: list[datetime] = []
    counts_on = repeats(cron)
    day, offset = None, None
    for wall in walls(cron, start):
        if wall.date() != day:
            day, offset = wall.date(), _offset_all_day(zone, wall)
        if offset is not None:
            first = second = wall - offset
        else:
            first, second = _shown(zone, wall, fold=0), _shown(zone, wall, fold=1)
        if first > second:  # a gap: the clock jumps over it
            if counts_on:
                continue
            first = _end_of_gap(zone, second, first)
        while again and again[0] <= first:
            yield heappop(again)
        yield first
        if counts_on and second > first:
            heappush(again, second)
    while again:
        yield heappop(again)


def _offset_all_day(zone: ZoneInfo, wall: datetime) -> timedelta | None:
    """Return the distance to UTC on the day of *wall*, None where the clock is changed on that day or near it."""
    midnight = wall.replace(hour=0, minute=0)
    try:
        nearby = (midnight - _DAY, midnight, midnight + 2 * _DAY)
    except OverflowError:
        return None
    offsets = {each.replace(tzinfo=zone).utcoffset() for each in nearby}
    return offsets.pop() if len(offsets) == 1 else None


def _shown(zone: ZoneInfo, wall: datetime, *, fold: int) -> datetime:
    """Return the instant at which the clock of *zone* shows *wall*, the first or the second time."""
    return wall.replace(tzinfo=zone, fold=fold).astimezone(UTC).replace(tzinfo=None)


def _end_of_gap(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """Return the first instant after the gap that lies between *before* and *after*, by halving."""
    moved = _offset(zone, after)
    while after - before > _SECOND:
        middle = before + (after - before) // 2 // _SECOND * _SECOND
        if _offset(zone, middle) == moved:
            after = middle
        else:
            before = middle
    return after


def _offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    return instant.replace(tzinfo=UTC).astimezone(zone).utcoffset() or timedelta(0)


def _instant(ms: int) -> datetime:
    return _EPOCH + timedelta(seconds=ms // 1000)
