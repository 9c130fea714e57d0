"""Which due ticks start and which are skipped: policies against downtime, overlap, jitter and deaths in between."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loom
from loom.core.ids import ExecutionId
from loom.core.schedule import Overlap
from loom.services.due import LOOKED_AT_MAX, QUEUE_POLL_MS, Decision, decide
from loom.services.ticks import due_at, execution_id_at, ticks_between
from loom.spi.schedule_store import ScheduleCursor, ScheduleEntry

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
DAY_0: Final = int(datetime(2026, 11, 30, tzinfo=UTC).timestamp()) * 1000
SEEN: Final = ScheduleCursor(DAY_0)
ONE: Final = loom.CatchUp.one()


@loom.flow
async def report(ctx: loom.Context) -> None: ...


def hourly(
    catch_up: loom.CatchUp = ONE, *, overlap: Overlap = "allow", cron: str = "@hourly", **options: Any
) -> loom.Schedule:
    return loom.schedule("hourly", cron, report, catch_up=catch_up, overlap=overlap, **options)


def at(hours: float) -> int:
    return DAY_0 + round(hours * HOUR)


def started(decision: Decision) -> list[float]:
    """Return the hours for which something is to be started."""
    return [(tick - DAY_0) / HOUR for tick in decision.starts]


def told(entries: Iterable[ScheduleEntry]) -> list[str]:
    """Return each entry as text: `5` was started, `1-4 cap` were skipped."""
    return [_told(entry) for entry in entries]


def _told(entry: ScheduleEntry) -> str:
    first, last = (entry.tick_at - DAY_0) // HOUR, (entry.until_at - DAY_0) // HOUR
    if entry.execution_id is not None:
        assert (entry.count, first, entry.reason) == (1, last, None)
        return str(first)
    assert entry.count == last - first + 1
    return f"{first}-{last} {entry.reason}"


def test_a_schedule_that_is_seen_for_the_first_time_does_not_fire_the_past() -> None:
    decision = decide(hourly(), None, at(10.5))

    assert decision == Decision(starts=(), entries=(), cursor=ScheduleCursor(at(10.5)), next_at=at(11))


def test_before_a_tick_is_due_nothing_changes() -> None:
    assert decide(hourly(), SEEN, at(1) - 1) == Decision(starts=(), entries=(), cursor=SEEN, next_at=at(1))


def test_a_tick_that_is_due_starts_and_moves_the_cursor() -> None:
    decision = decide(hourly(), SEEN, at(1))

    name = ExecutionId("hourly-20261130T010000Z")
    entry = ScheduleEntry(tick_at=at(1), until_at=at(1), count=1, at=at(1), execution_id=name)
    assert decision == Decision(starts=(at(1),), entries=(entry,), cursor=ScheduleCursor(at(1), name), next_at=at(2))


def test_a_clock_that_was_set_back_fires_nothing_twice() -> None:
    decision = decide(hourly(), ScheduleCursor(at(5)), at(3))

    assert (decision.starts, decision.cursor, decision.next_at) == ((), ScheduleCursor(at(5)), at(6))


def test_a_schedule_whose_calendar_has_ended_asks_for_nothing_more() -> None:
    late = int(datetime(9999, 12, 31, 23, 30, tzinfo=UTC).timestamp()) * 1000

    assert decide(hourly(), ScheduleCursor(late), late).next_at is None


@pytest.mark.proves("AUT-09")
@pytest.mark.parametrize(
    ("catch_up", "now", "starts", "record"),
    [
        (loom.CatchUp.skip(), 10.5, [], ["1-10 catch-up"]),
        (loom.CatchUp.skip(), 10.01, [10], ["1-9 catch-up", "10"]),
        (loom.CatchUp.skip(late=timedelta(minutes=45)), 10.5, [10], ["1-9 catch-up", "10"]),
        (loom.CatchUp.one(), 10.5, [10], ["1-9 catch-up", "10"]),
        (loom.CatchUp.all(3), 10.5, [8, 9, 10], ["1-7 cap", "8", "9", "10"]),
        (loom.CatchUp.all(24), 10.5, list(range(1, 11)), [str(hour) for hour in range(1, 11)]),
    ],
    ids=str,
)
def test_ten_hours_off_are_caught_up_on_as_declared(
    catch_up: loom.CatchUp, now: float, starts: list[float], record: list[str]
) -> None:
    decision = decide(hourly(catch_up), SEEN, at(now))

    assert (started(decision), told(decision.entries)) == (starts, record)
    assert (decision.cursor.at, decision.next_at) == (at(10), at(11))


@pytest.mark.parametrize(
    ("overlap", "catch_up", "starts", "record", "cursor"),
    [
        ("allow", loom.CatchUp.one(), [3], ["1-2 catch-up", "3"], 3),
        ("skip", loom.CatchUp.one(), [], ["1-2 catch-up", "3-3 overlap"], 3),
        ("skip", loom.CatchUp.all(2), [], ["1-1 cap", "2-3 overlap"], 3),
        ("queue", loom.CatchUp.one(), [], ["1-2 overlap"], 2),
        ("queue", loom.CatchUp.all(24), [], [], 0),
        ("queue", loom.CatchUp.all(2), [], ["1-1 overlap"], 1),
        ("queue", loom.CatchUp.skip(), [], ["1-3 overlap"], 3),
    ],
)
def test_while_an_earlier_execution_is_open_ticks_start_are_skipped_or_wait(
    overlap: Overlap, catch_up: loom.CatchUp, starts: list[float], record: list[str], cursor: int
) -> None:
    latest = ExecutionId("hourly-before")

    decision = decide(hourly(catch_up, overlap=overlap), SEEN._replace(latest=latest), at(3.5), is_open=True)

    assert (started(decision), told(decision.entries), decision.cursor.at) == (starts, record, at(cursor))
    assert decision.cursor.latest == (execution_id_at(hourly(), at(3)) if starts else latest)
    assert decision.next_at == (at(3.5) + QUEUE_POLL_MS if cursor < 3 else at(4))


@pytest.mark.parametrize(
    ("overlap", "starts", "record"),
    [
        ("allow", [1, 2, 3], ["1", "2", "3"]),
        ("skip", [1], ["1", "2-3 overlap"]),
        ("queue", [1], ["1"]),
    ],
)
def test_what_is_caught_up_on_overlaps_too(overlap: Overlap, starts: list[float], record: list[str]) -> None:
    decision = decide(hourly(loom.CatchUp.all(24), overlap=overlap), SEEN, at(3.5))

    assert (started(decision), told(decision.entries)) == (starts, record)


def test_what_waits_starts_one_after_the_other() -> None:
    schedule, cursor, seen = hourly(loom.CatchUp.all(24), overlap="queue"), SEEN, list[float]()

    for _ in range(3):
        decision = decide(schedule, cursor, at(3.5))
        seen += started(decision)
        assert decide(schedule, decision.cursor, at(3.5), is_open=True).starts == ()
        cursor = decision.cursor

    assert seen == [1, 2, 3]


@pytest.mark.parametrize("overlap", ["allow", "skip", "queue"])
def test_what_was_started_and_not_recorded_is_recorded_as_started(overlap: Overlap) -> None:
    schedule = hourly(overlap=overlap)
    existing = {execution_id_at(schedule, at(4)): False}

    decision = decide(schedule, SEEN, at(6.5), existing=existing)

    assert (started(decision), told(decision.entries)) == ([6], ["1-3 catch-up", "4", "5-5 catch-up", "6"])


def test_what_was_started_and_not_recorded_counts_as_an_earlier_execution() -> None:
    schedule = hourly(overlap="skip")
    existing = {execution_id_at(schedule, at(4)): True}

    decision = decide(schedule, SEEN, at(6.5), existing=existing)

    assert told(decision.entries) == ["1-3 catch-up", "4", "5-5 catch-up", "6-6 overlap"]


def test_jitter_delays_the_start_and_not_the_tick() -> None:
    schedule = hourly(jitter=timedelta(minutes=30))
    due = due_at(schedule, at(1))
    assert at(1) < due <= at(1.5)

    assert decide(schedule, SEEN, due - 1).starts == ()
    assert decide(schedule, SEEN, due - 1).next_at == due
    assert decide(schedule, SEEN, due).starts == (at(1),)


def test_years_of_minutes_are_skipped_piece_by_piece_and_end() -> None:
    schedule = hourly(loom.CatchUp.all(2), cron="* * * * *")
    now = at(0) + 3500 * MINUTE
    decision = decide(schedule, SEEN, now)
    entries, starts = list(decision.entries), list(decision.starts)

    rounds = 1
    while decision.next_at is not None and decision.next_at <= now:
        decision = decide(schedule, decision.cursor, now)
        entries += decision.entries
        starts += decision.starts
        rounds += 1

    assert rounds == 4
    assert [(entry.count, entry.reason) for entry in entries] == [
        *[(LOOKED_AT_MAX, "cap")] * 3,
        (498, "cap"),
        (1, None),
        (1, None),
    ]
    assert starts == [now - MINUTE, now]


policies = st.sampled_from(
    [loom.CatchUp.skip(), loom.CatchUp.skip(late=timedelta(hours=2)), loom.CatchUp.one(), loom.CatchUp.all(3)]
)
overlaps: st.SearchStrategy[Overlap] = st.sampled_from(["allow", "skip", "queue"])


@pytest.mark.proves("RNG-21")
@given(
    catch_up=policies,
    overlap=overlaps,
    jitter=st.sampled_from([timedelta(0), timedelta(minutes=40)]),
    calls=st.lists(st.tuples(st.integers(0, 5 * 60), st.booleans()), min_size=1, max_size=20),
)
def test_every_tick_is_handled_once_and_in_order(
    catch_up: loom.CatchUp, overlap: Overlap, jitter: timedelta, calls: list[tuple[int, bool]]
) -> None:
    """Whenever it is called, what was handled is a beginning of all the ticks, and each has one entry."""
    schedule = hourly(catch_up, overlap=overlap, jitter=jitter)
    cursor, now = SEEN, DAY_0
    entries: list[ScheduleEntry] = []
    for minutes, is_open in calls:
        now += minutes * MINUTE
        decision = decide(schedule, cursor, now, is_open=is_open)
        assert decision.cursor.at >= cursor.at
        assert decision.starts == tuple(e.tick_at for e in decision.entries if e.execution_id is not None)
        cursor = decision.cursor
        entries += decision.entries

    handled = [tick for entry in entries for tick in range(entry.tick_at, entry.until_at + 1, HOUR)]
    assert handled == list(ticks_between(schedule, DAY_0, cursor.at))
    assert sum(entry.count for entry in entries) == len(handled)
    if overlap != "queue":
        assert [tick for tick in ticks_between(schedule, cursor.at, now) if due_at(schedule, tick) <= now] == []
