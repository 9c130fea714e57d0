"""When the branches of a scope have ended as its kind wants, and in what order that is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.core import facts as f
from loom.core.tally import Selected, Tally, as_dict, as_list, as_selected, as_tuple, as_value

ENDS = st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), unique_by=lambda end: end[0], max_size=6)
"""Branches as they end, each with whether it succeeded."""


def ended(tally: Tally, ends: list[tuple[str, bool]]) -> Tally:
    for name, is_good in ends:
        if is_good:
            tally.succeeded(name)
        else:
            tally.failed(name, ValueError(name))
    return tally


@given(ends=ENDS, wanted=st.integers(1, 3), failures_max=st.integers(0, 3))
def test_the_first_reason_stands_whatever_comes_after_it(
    ends: list[tuple[str, bool]], wanted: int, failures_max: int
) -> None:
    tally = Tally(wanted=wanted, failures_max=failures_max)
    verdicts: list[Any] = []

    for end in ends:
        ended(tally, [end])
        verdicts.append((tally.verdict, list(tally.counted)))

    reasons = [verdict for verdict in verdicts if verdict[0] is not None]
    assert all(reason == reasons[0] for reason in reasons)
    good = [name for name, is_good in ends if is_good]
    assert tally.counted == good[: len(tally.counted)]
    assert (tally.verdict == "closed") == (len(tally.counted) == wanted)


@given(ends=ENDS, failures_max=st.integers(0, 2))
def test_a_scope_that_wants_all_is_never_closed_and_fails_once_too_many_failed(
    ends: list[tuple[str, bool]], failures_max: int
) -> None:
    tally = ended(Tally(failures_max=failures_max), ends)

    bad = [name for name, is_good in ends if not is_good]
    assert tally.verdict == ("failed" if len(bad) > failures_max else None)
    assert [name for name, _ in tally.failures] == bad
    assert tally.counted == []


def test_each_verdict_has_its_record() -> None:
    closed = ended(Tally(wanted=2, failures_max=2), [("b", True), ("x", False), ("a", True), ("c", True)])
    failed = ended(Tally(wanted=2, failures_max=1), [("b", False), ("x", True), ("a", False)])

    assert closed.record(7) == ("SCOPE_CLOSED", f.ScopeClosed(7, ["b", "a"]))
    assert failed.record(7) == ("SCOPE_CUT", f.ScopeCut(7, "b"))


@pytest.mark.parametrize(
    ("fact", "agrees"),
    [
        (f.ScopeClosed(7, ["a"]), True),
        (f.ScopeClosed(7, ["b"]), False),
        (f.ScopeClosed(7, []), False),
        (f.ScopeCut(7, "a"), False),
        (f.ScopeTimedOut(7), True),
        (f.ScopeOpened("select", 0, "d", "select", 2), True),
    ],
)
def test_a_record_agrees_when_it_says_what_is_known_or_what_the_clock_alone_knows(fact: Any, agrees: bool) -> None:
    assert ended(Tally(wanted=1), [("a", True)]).agrees_with(fact) is agrees


def test_that_time_is_over_stands_whatever_was_known_before() -> None:
    tally = ended(Tally(), [("a", False)])

    tally.time_is_over()
    tally.failed("b", ValueError())

    assert tally.verdict == "timed_out"
    assert [name for name, _ in tally.failures] == ["a", "b"]


def test_no_end_agrees_before_the_branches_that_it_names_have_ended() -> None:
    tally = Tally(wanted=1)

    assert not tally.agrees_with(f.ScopeClosed(7, ["a"]))
    assert not tally.agrees_with(f.ScopeCut(7, "a"))


def test_results_come_in_the_shape_that_was_asked_for() -> None:
    names, results = ["b", "a"], [2, 1]

    assert as_tuple(names, results) == (2, 1)
    assert as_list(names, results) == [2, 1]
    assert list(as_dict(names, results).items()) == [("b", 2), ("a", 1)]
    assert as_selected(names, results) == Selected("b", 2)
    assert as_value(names, results) == 2
