"""Times as people say them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from loom_cli.times import date_time, day, distance, duration, moment, time_of_day

NOON = 1_700_049_600_000  # 2023-11-15 12:00:00 UTC
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (1000, "1s"),
        (4_250, "4.2s"),
        (9_999, "9.9s"),
        (10_000, "10s"),
        (MINUTE, "1m"),
        (3 * MINUTE + 20 * SECOND, "3m 20s"),
        (HOUR + 59 * SECOND, "1h"),
        (2 * DAY + 4 * HOUR + 5 * MINUTE, "2d 4h"),
    ],
)
def test_a_duration_has_two_units_at_most(ms: int, told: str) -> None:
    assert duration(ms) == told


@pytest.mark.parametrize(
    ("passed", "told"),
    [
        (0, "now"),
        (999, "now"),
        (1000, "1s"),
        (59_499, "59s"),
        (59_500, "1m"),
        (119_000, "2m"),
        (13 * HOUR, "13h"),
        (23 * HOUR + 40 * MINUTE, "1d"),
        (26 * HOUR, "1d"),
        (400 * DAY, "400d"),
    ],
)
def test_a_distance_is_told_to_the_nearest_unit_and_looks_both_ways(passed: int, told: str) -> None:
    assert distance(NOON - passed, NOON) == told
    assert distance(NOON + passed, NOON) == (told if told == "now" else f"in {told}")


@pytest.mark.parametrize("at_ms", [-(10**17), 10**17, 10**30])
def test_a_time_that_no_calendar_holds_is_told_as_its_number(at_ms: int) -> None:
    told = f"{at_ms} ms since 1970"

    assert (moment(at_ms, NOON), date_time(at_ms), time_of_day(at_ms), day(at_ms)) == (told, told, told, told)
    assert moment(NOON, at_ms) == f"{NOON} ms since 1970"


def test_a_moment_says_no_more_than_is_open() -> None:
    assert moment(NOON + 61 * SECOND, NOON) == "12:01:01"
    assert moment(NOON + 3 * DAY, NOON) == "18 Nov 12:00"
    assert moment(NOON + 60 * DAY, NOON) == "14 Jan 2024 12:00"


def test_a_time_in_full_is_to_the_second_and_one_of_a_log_to_the_millisecond() -> None:
    assert date_time(NOON + 7) == "2023-11-15 12:00:00"
    assert time_of_day(NOON + 7) == "12:00:00.007"
