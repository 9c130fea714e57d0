"""Durations and times are milliseconds, or are refused in words."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from loom.core.durations import instant, milliseconds
from loom.core.errors import InvalidDeclaration


@pytest.mark.parametrize(
    ("duration", "expected"),
    [(0, 0), (1.5, 1500), (timedelta(minutes=1), 60_000), (0.0004, 0), (timedelta.max, 86_399_999_999_999_999 + 1)],
)
def test_a_duration_is_whole_milliseconds(duration: Any, expected: int) -> None:
    assert milliseconds(duration) == expected


@pytest.mark.parametrize("duration", [math.inf, math.nan, 1e15, 10**30, "3", None, True, [1]])
def test_what_is_no_duration_is_refused_in_words(duration: Any) -> None:
    with pytest.raises(InvalidDeclaration, match="is no duration") as refused:
        milliseconds(duration)

    assert refused.value.hint.startswith("Give a timedelta, or a number of seconds.")


@pytest.mark.parametrize("duration", [-1, timedelta(days=-1)])
def test_a_duration_below_zero_is_refused(duration: Any) -> None:
    with pytest.raises(InvalidDeclaration, match="lies in the past"):
        milliseconds(duration)


def test_a_time_is_an_instant_whatever_its_zone() -> None:
    assert instant(datetime(1970, 1, 1, 1, tzinfo=UTC)) == 3_600_000
    assert instant(datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))) == 0


@pytest.mark.parametrize(
    ("when", "told"),
    [
        (datetime(2026, 1, 1), "2026-01-01T00:00:00 is in no zone"),  # noqa: DTZ001  # which is the point
        ("2026-01-01", "'2026-01-01' is no datetime"),
        (None, "None is no datetime"),
        (3600, "3600 is no datetime"),
    ],
)
def test_what_is_no_instant_is_refused_in_words(when: Any, told: str) -> None:
    with pytest.raises(InvalidDeclaration, match=told):
        instant(when)
