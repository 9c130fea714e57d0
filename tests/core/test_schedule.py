"""Declaring schedules: what a declaration says, and what is refused when it is made."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loom
from loom.core.errors import InvalidDeclaration, InvalidId
from loom.core.missing import MISSING
from loom.core.schedule import CAP_MAX, repeats, walls


@loom.flow(starts=loom.Starts(dedupe="id"))
async def once(ctx: loom.Context, order: dict[str, int]) -> None: ...


@loom.flow
async def report(ctx: loom.Context) -> str:
    return "done"


@loom.flow
async def greet(ctx: loom.Context, name: str) -> str:
    return name


@loom.flow
async def guess(ctx: loom.Context, name: str = "you") -> str:
    return name


def wall(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.proves("AUT-09")
def test_a_schedule_is_declared_with_what_it_starts_when_and_how() -> None:
    made = loom.schedule(
        "morning",
        " 30  2 * * mon-fri ",
        greet,
        tz="Europe/Paris",
        input="ada",
        catch_up=loom.CatchUp.all(24),
        overlap="queue",
        jitter=timedelta(minutes=5),
        principal="clock",
        attributes={"team": "ops"},
    )

    assert isinstance(made, loom.Schedule)
    assert (made.id, made.cron, made.flow, made.tz, made.input) == (
        "morning",
        "30 2 * * MON-FRI",
        greet,
        "Europe/Paris",
        "ada",
    )
    assert (made.catch_up, made.overlap, made.jitter) == (loom.CatchUp.all(24), "queue", timedelta(minutes=5))
    assert (made.principal, dict(made.attributes)) == ("clock", {"team": "ops"})


def test_what_is_left_out_is_stated() -> None:
    made = loom.schedule("daily", "0 9 * * *", report)

    assert (made.tz, made.input, made.jitter) == ("UTC", MISSING, timedelta(0))
    assert (made.catch_up, made.overlap) == (loom.CatchUp.one(), "allow")
    assert (made.principal, dict(made.attributes)) == ("schedule:daily", {})


def test_a_way_to_catch_up_says_what_it_is() -> None:
    ways = (loom.CatchUp.skip(), loom.CatchUp.one(), loom.CatchUp.all(24))

    assert [str(way) for way in ways] == ["skip", "one", "all, up to 24"]


@pytest.mark.parametrize(
    ("name", "expression"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@MIDNIGHT", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        (" @annually", "0 0 1 1 *"),
    ],
)
def test_a_name_stands_for_an_expression(name: str, expression: str) -> None:
    assert loom.schedule("named", name, report).cron == expression


@pytest.mark.parametrize(
    ("cron", "told", "hint"),
    [
        ("@reboot", "'@reboot' is no name", "@daily"),
        ("", "has not five fields", "minute, hour"),
        ("0 9 * *", "has not five fields", "minute, hour"),
        ("0 0 9 * * *", "has not five fields", "minute, hour"),
        ("0 25 * * *", "bad hour", "minute, hour"),
        ("60 9 * * *", "bad minute", "minute, hour"),
        ("0 9 * * FOO", "bad day-of-week", "minute, hour"),
        ("*/0 9 * * *", "bad minute", "minute, hour"),
        ("*/" + "9" * 5000 + " 9 * * *", "cannot be read", "minute, hour"),
        ("0 0 30 2 *", "bad day-of-month", "minute, hour"),
        ("0 0 31 4,6,9,11 *", "bad day-of-month", "minute, hour"),
        ("0 0 */31 2 MON#5", "never matches", "50 years"),
    ],
)
def test_an_expression_that_says_nothing_is_refused(cron: str, told: str, hint: str) -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        loom.schedule("daily", cron, report)

    assert told in str(refused.value)
    assert "the schedule daily" in str(refused.value)
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("tz", "hint"),
    [
        ("Europe/Pariss", "Europe/Paris"),
        ("../etc", ""),
        ("Europe", "Europe/"),
        ("", ""),
        ("/etc/passwd", ""),
        ("\0", ""),
    ],
)
def test_a_zone_that_there_is_not_is_refused(tz: str, hint: str) -> None:
    with pytest.raises(InvalidDeclaration, match="there is no time zone") as refused:
        loom.schedule("daily", "@daily", report, tz=tz)

    assert hint in refused.value.hint
    assert refused.value.hint


@pytest.mark.parametrize(
    ("flow", "options", "told"),
    [
        (greet, {}, "the flow greet needs an input"),
        (report, {"input": 1}, "the flow report takes no input"),
        (report, {"input": None}, "the flow report takes no input"),
        ("report", {}, "which is no flow"),
        (once, {"input": {"id": 1}}, "runs of once are named by their id"),
        (report, {"jitter": timedelta(seconds=-1)}, "is negative"),
        (report, {"jitter": timedelta(days=1)}, "reaches to the next tick"),
        (report, {"catch_up": "one"}, "catch_up='one' is no way to catch up"),
        (report, {"overlap": "wait"}, "overlap='wait' says nothing"),
        (report, {"attributes": {"tick": 1}}, "an attribute 'tick' of its own"),
    ],
)
def test_what_does_not_fit_is_refused(flow: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidDeclaration, match=told) as refused:
        loom.schedule("daily", "@daily", flow, **options)

    assert refused.value.hint


def test_a_flow_with_a_default_needs_no_input() -> None:
    assert loom.schedule("daily", "@daily", guess).input is MISSING
    assert loom.schedule("daily", "@daily", guess, input="me").input == "me"


@pytest.mark.parametrize("id", ["", "two words", "a/b", "1st", "a" * 184])
def test_an_id_that_no_execution_could_have_is_refused(id: str) -> None:
    with pytest.raises(InvalidId):
        loom.schedule(id, "@daily", report)


@pytest.mark.parametrize("cap", [0, -1, CAP_MAX + 1])
def test_catching_up_has_an_end(cap: int) -> None:
    with pytest.raises(InvalidDeclaration, match="1,000 can be caught up on"):
        loom.CatchUp.all(cap)


def test_late_is_no_time_before_the_tick() -> None:
    with pytest.raises(InvalidDeclaration):
        loom.CatchUp.skip(late=timedelta(seconds=-1))


@pytest.mark.parametrize(
    ("cron", "counts_on"),
    [
        ("0 * * * *", True),
        ("*/15 2 * * *", True),
        ("0 */2 * * *", True),
        ("30 2 * * *", False),
        ("0 0-23 * * *", False),
    ],
)
def test_an_expression_counts_on_with_the_clock_or_names_times(cron: str, counts_on: bool) -> None:
    assert repeats(cron) is counts_on


def test_a_clock_ends_with_the_calendar() -> None:
    assert list(walls("0 0 * * *", wall("9999-12-30"))) == [wall("9999-12-31")]


field = st.text("0123456789*/-,LW#MONJAN", max_size=6)


@given(st.tuples(field, field, field, field, field).map(" ".join) | st.text(max_size=30))
def test_any_text_is_an_expression_that_ticks_or_is_refused(cron: str) -> None:
    try:
        made = loom.schedule("any", cron, report)
    except InvalidDeclaration:
        return
    ticks = list(islice(walls(made.cron, wall("2026-01-01")), 5))
    assert ticks == sorted(set(ticks))
