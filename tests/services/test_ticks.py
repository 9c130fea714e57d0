"""When schedules tick, across both changes of the clock, and that it always has an order and an end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loom
from loom.core.errors import InvalidDeclaration
from loom.core.ids import execution_id
from loom.services.ticks import due_at, execution_id_at, next_ticks, ticks_between, written

HOUR = 3_600_000


@loom.flow
async def report(ctx: loom.Context) -> None: ...


def schedule(cron: str, tz: str = "UTC", **options: Any) -> loom.Schedule:
    return loom.schedule("report", cron, report, tz=tz, **options)


def ms(text: str, tz: str = "UTC") -> int:
    """Return the instant at which the clock of *tz* shows *text*, of two the first."""
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz)).timestamp()) * 1000


def shown(ticks: list[int], tz: str) -> str:
    """Return what the clock of *tz* shows at *ticks*, each with its distance to UTC."""
    walls = [datetime.fromtimestamp(tick / 1000, UTC).astimezone(ZoneInfo(tz)) for tick in ticks]
    return " ".join(f"{wall:%H:%M%z}".removesuffix("00") for wall in walls)


PARIS, NEW_YORK, LORD_HOWE = "Europe/Paris", "America/New_York", "Australia/Lord_Howe"

CHANGES = [
    # 02:00 becomes 03:00
    (PARIS, "2026-03-29T00:00", "0 * * * *", "01:00+01 03:00+02 04:00+02 05:00+02"),
    (PARIS, "2026-03-29T00:00", "0 */2 * * *", "04:00+02 06:00+02 08:00+02"),
    (PARIS, "2026-03-29T00:00", "*/30 * * * *", "00:30+01 01:00+01 01:30+01 03:00+02 03:30+02"),
    (PARIS, "2026-03-29T00:00", "*/20 2 * * *", "02:00+02 02:20+02 02:40+02 02:00+02"),
    (PARIS, "2026-03-28T02:30", "30 2 * * *", "03:00+02 02:30+02 02:30+02"),
    (PARIS, "2026-03-28T03:30", "0,30 2,3 * * *", "03:00+02 03:30+02 02:00+02 02:30+02"),
    # 03:00 becomes 02:00
    (PARIS, "2026-10-25T00:00", "0 * * * *", "01:00+02 02:00+02 02:00+01 03:00+01 04:00+01"),
    (PARIS, "2026-10-25T00:00", "0 */2 * * *", "02:00+02 02:00+01 04:00+01 06:00+01"),
    (PARIS, "2026-10-25T02:00", "*/30 * * * *", "02:30+02 02:00+01 02:30+01 03:00+01"),
    (PARIS, "2026-10-24T02:30", "30 2 * * *", "02:30+02 02:30+01 02:30+01"),
    (PARIS, "2026-10-24T02:30", "30 2,3 * * *", "03:30+02 02:30+02 03:30+01 02:30+01"),
    # 02:00 becomes 03:00
    (NEW_YORK, "2026-03-08T00:00", "0 * * * *", "01:00-05 03:00-04 04:00-04 05:00-04"),
    (NEW_YORK, "2026-03-08T00:00", "0 */2 * * *", "04:00-04 06:00-04 08:00-04"),
    (NEW_YORK, "2026-03-07T02:30", "30 2 * * *", "03:00-04 02:30-04 02:30-04"),
    # 02:00 becomes 01:00
    (NEW_YORK, "2026-11-01T00:00", "0 * * * *", "01:00-04 01:00-05 02:00-05 03:00-05"),
    (NEW_YORK, "2026-11-01T00:00", "0 */2 * * *", "02:00-05 04:00-05 06:00-05"),
    (NEW_YORK, "2026-10-31T02:30", "30 2 * * *", "02:30-05 02:30-05 02:30-05"),
    (NEW_YORK, "2026-10-31T01:30", "30 1 * * *", "01:30-04 01:30-05 01:30-05"),
    # 02:00 becomes 02:30
    (LORD_HOWE, "2026-10-04T00:00", "0 * * * *", "01:00+1030 03:00+11 04:00+11"),
    (LORD_HOWE, "2026-10-04T00:00", "0 */2 * * *", "04:00+11 06:00+11"),
    (LORD_HOWE, "2026-10-03T02:30", "30 2 * * *", "02:30+11 02:30+11 02:30+11"),
    (LORD_HOWE, "2026-10-03T02:15", "15 2 * * *", "02:30+11 02:15+11 02:15+11"),
    # 02:00 becomes 01:30
    (LORD_HOWE, "2026-04-05T00:00", "0 * * * *", "01:00+11 02:00+1030 03:00+1030 04:00+1030"),
    (LORD_HOWE, "2026-04-05T00:00", "0 */2 * * *", "02:00+1030 04:00+1030 06:00+1030"),
    (LORD_HOWE, "2026-04-05T01:00", "*/30 * * * *", "01:30+11 01:30+1030 02:00+1030 02:30+1030"),
    (LORD_HOWE, "2026-04-04T02:30", "30 2 * * *", "02:30+1030 02:30+1030 02:30+1030"),
    (LORD_HOWE, "2026-04-04T01:45", "45 1 * * *", "01:45+11 01:45+1030 01:45+1030"),
    # A clock that is changed at midnight: 00:00 becomes 01:00
    ("America/Havana", "2026-03-07T00:00", "0 0 * * *", "01:00-04 00:00-04 00:00-04"),
    ("America/Havana", "2026-03-07T23:00", "*/30 0 * * *", "00:00-04 00:30-04 00:00-04"),
    # The 30th of December 2011 was left out
    ("Pacific/Apia", "2011-12-28T12:00", "0 9 * * *", "09:00-10 00:00+14 09:00+14 09:00+14"),
    ("Pacific/Apia", "2011-12-29T12:00", "0 */12 * * *", "00:00+14 12:00+14"),
]


@pytest.mark.proves("AUT-10")
@pytest.mark.parametrize(("tz", "after", "cron", "expected"), CHANGES)
def test_the_rule_for_the_missing_and_the_doubled_hour(tz: str, after: str, cron: str, expected: str) -> None:
    ticks = list(islice(next_ticks(schedule(cron, tz), ms(after, tz)), len(expected.split())))

    assert shown(ticks, tz) == expected


@pytest.mark.proves("AUT-10")
@pytest.mark.parametrize("tz", [PARIS, NEW_YORK, LORD_HOWE])
@pytest.mark.parametrize("after", ["2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-31"])
@pytest.mark.parametrize("cron", ["0 * * * *", "0 */2 * * *", "30 2 * * *"])
def test_the_next_twenty_ticks_come_one_after_the_other(tz: str, after: str, cron: str) -> None:
    ticks = list(islice(next_ticks(schedule(cron, tz), ms(after, tz)), 20))

    assert len(ticks) == 20
    assert all(before < after for before, after in pairwise([ms(after, tz), *ticks]))


crons = st.sampled_from(
    [
        "0 * * * *",
        "*/15 * * * *",
        "0 */2 * * *",
        "*/20 2 * * *",
        "30 2 * * *",
        "0,30 1-3 * * *",
        "45 1 * * SUN",
        "0 0 1 * *",
    ]
)
zones = st.sampled_from([PARIS, NEW_YORK, LORD_HOWE, "America/Havana", "Pacific/Apia", "UTC", "Asia/Kathmandu"])
near_a_change = st.sampled_from(
    ["2011-12-29", "2026-03-08", "2026-03-29", "2026-04-04", "2026-04-05", "2026-10-03", "2026-10-25", "2026-11-01"]
)


@pytest.mark.proves("AUT-10")
@given(cron=crons, tz=zones, day=near_a_change, minutes=st.integers(-2000, 2000), further=st.integers(0, 30))
def test_ticks_do_not_depend_on_where_one_begins_to_look(
    cron: str, tz: str, day: str, minutes: int, further: int
) -> None:
    made = schedule(cron, tz)
    start = ms(day) + minutes * 60_000
    ticks = list(islice(next_ticks(made, start), 31))

    assert all(before < after for before, after in pairwise([start, *ticks]))
    assert next(next_ticks(made, ticks[further] - 1)) == ticks[further]
    assert list(islice(next_ticks(made, ticks[further]), 30 - further)) == ticks[further + 1 :]


fields = st.tuples(
    st.integers(0, 59) | st.sampled_from(["*", "*/7", "5,10"]),
    st.integers(0, 23) | st.sampled_from(["*", "*/5", "1-3"]),
    st.integers(1, 31) | st.sampled_from(["*", "*/10", "L", "LW"]),
    st.integers(1, 12) | st.sampled_from(["*", "2", "2,4"]),
    st.integers(0, 7) | st.sampled_from(["*", "MON#5", "5L", "MON-FRI"]),
).map(lambda parts: " ".join(map(str, parts)))


@given(cron=fields, tz=zones, at=st.integers(0, 9_999_999_999))
def test_whatever_is_declared_ticks_in_order_and_without_end_or_is_refused(cron: str, tz: str, at: int) -> None:
    try:
        made = schedule(cron, tz)
    except InvalidDeclaration:
        return
    ticks = list(islice(next_ticks(made, at * 1000), 4))

    assert len(ticks) == 4
    assert all(before < after for before, after in pairwise([at * 1000, *ticks]))


@pytest.mark.parametrize("tz", ["UTC", PARIS, NEW_YORK])
def test_ticks_end_with_the_calendar(tz: str) -> None:
    ticks = list(next_ticks(schedule("0 */6 * * *", tz), ms("9999-12-30T12:00")))

    assert 3 <= len(ticks) <= 6


def test_a_window_has_its_end_and_not_its_beginning() -> None:
    start = ms("2026-11-30T09:00")

    found = list(ticks_between(schedule("0 * * * *"), start, start + 3 * HOUR))

    assert found == [start + HOUR, start + 2 * HOUR, start + 3 * HOUR]
    assert list(ticks_between(schedule("0 * * * *"), start + 1, start)) == []


@pytest.mark.proves("AUT-09")
def test_a_tick_names_its_execution_in_utc_and_without_its_jitter() -> None:
    made = schedule("0 10 * * *", PARIS, jitter=timedelta(minutes=30))
    tick = next(next_ticks(made, ms("2026-11-30")))

    assert execution_id_at(made, tick) == execution_id("report-20261130T090000Z")
    assert written(tick) == "2026-11-30T09:00:00Z"


def test_the_longest_id_of_a_schedule_makes_an_execution_id() -> None:
    made = loom.schedule("a" * 183, "@daily", report)

    assert len(execution_id(execution_id_at(made, 0))) == 200


def test_jitter_is_drawn_from_the_tick_and_spread_over_its_range() -> None:
    made = schedule("*/5 * * * *", jitter=timedelta(minutes=1))
    ticks = list(islice(next_ticks(made, 0), 1000))

    delays = [due_at(made, tick) - tick for tick in ticks]

    assert delays == [due_at(made, tick) - tick for tick in ticks]
    assert 0 <= min(delays) < 1000
    assert 59_000 < max(delays) <= 60_000
    assert 28_000 < sum(delays) / len(delays) < 32_000


def test_without_jitter_a_tick_is_due_at_once() -> None:
    assert due_at(schedule("@hourly"), HOUR) == HOUR


@pytest.mark.parametrize("cron", ["0 0 30 2 *", "0 0 */31 2 MON#5"])
def test_what_never_comes_is_refused_when_it_is_declared(cron: str) -> None:
    with pytest.raises(InvalidDeclaration):
        schedule(cron)
