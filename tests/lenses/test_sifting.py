"""What somebody typed finds the events it means."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.core.envelope import EventEnvelope
from loom.lenses.folding import event_json
from loom.lenses.sifting import SiftInvalid, Term, fits, holds, sift_of
from loom.lenses.timeline import Timeline
from tests.golden import logs

Event = EventEnvelope[Any]


@cache
def golden(name: str) -> tuple[Timeline, list[Event]]:
    events = logs.read(name).events
    timeline = Timeline()
    timeline.add(events)
    return timeline, events


def found(name: str, text: str) -> list[int]:
    timeline, events = golden(name)
    sift = sift_of(text)
    pairs = zip(timeline.rows, events, strict=True)
    return [row.sequence for row, event in pairs if fits(sift, timeline, row, event)]


def test_nothing_typed_finds_everything() -> None:
    assert found("hello", "  ") == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("greet", [1, 2, 3]),
        ("HELLO", [0, 2, 3]),
        ('"hello world"', [2, 3]),
        ("type:step_*", [1, 2]),
        ("type:EXECUTION_STARTED", [0]),
        ("-type:STEP_*", [0, 3]),
        ("call:greet type:*COMPLETED", [2]),
        ("kind:step", [1, 2]),
        ("kind:run", [0, 3]),
        ("is:run world", [0, 3]),
        ("by:ada", [0]),
        ("by:a*", [0]),
        ("-by:ada", [1, 2, 3]),
        ("is:failure", []),
        ("22:13:21", [3]),
        ("gold", [0]),
    ],
)
def test_words_and_conditions_have_to_fit_all(text: str, expected: list[int]) -> None:
    assert found("hello", text) == expected


def test_a_lane_is_all_below_a_scope_or_a_branch() -> None:
    timeline, _ = golden("branches")
    path = next(lane.path for lane in timeline.lanes if lane.path)
    scope = path.split("/")[0]

    below = [row.sequence for row in timeline.rows if timeline.lanes[row.lane].path.startswith(f"{scope}/")]

    assert found("branches", f"lane:{scope}") == below
    assert set(found("branches", f"lane:{path.rstrip('/')}")) <= set(below)


@pytest.mark.parametrize(
    ("text", "term", "without"),
    [
        ("-79.55", Term("", "-79.55"), ""),
        ("-.5", Term("", "-.5"), ""),
        ("--79.55", Term("", "-79.55", fits=False), " without -79.55"),
        ('-"79.55"', Term("", "79.55", fits=False), " without 79.55"),
        ("-gold", Term("", "gold", fits=False), " without gold"),
        ("-is:failure", Term("is", "failure", fits=False), " without is:failure"),
    ],
)
def test_a_number_below_zero_is_looked_for_and_what_must_not_be_there_is_said(
    text: str, term: Term, without: str
) -> None:
    assert sift_of(text).terms == (term,)
    assert sift_of(text).without == without
    assert holds({"amount": [-79.55]}, "-79.55")


def test_failures_are_those_that_the_timeline_marks() -> None:
    timeline, _ = golden("failures")

    assert found("failures", "is:failure") == [row.sequence for row in timeline.rows if row.is_failure] != []


def test_a_condition_that_is_not_known_is_refused_or_a_word() -> None:
    with pytest.raises(SiftInvalid, match="is:sad is not known"):
        sift_of("is:sad")
    assert sift_of("http://x.test/a").terms == (Term("", "http://x.test/a"),)


@given(st.text())
def test_whatever_is_typed_is_a_search_or_is_refused_in_words(text: str) -> None:
    with suppress(SiftInvalid):
        assert set(found("hello", text)) <= {0, 1, 2, 3}


@given(st.sampled_from(logs.names()), st.data())
def test_a_text_that_stands_in_a_payload_is_found(name: str, data: st.DataObject) -> None:
    event = data.draw(st.sampled_from(golden(name)[1]))
    texts = [text for text in _texts(event_json(event)["payload"]) if text]
    if texts:
        text = data.draw(st.sampled_from(texts))
        assert holds(event_json(event)["payload"], text.casefold())


def _texts(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for each in value.values() for text in _texts(each)]
        case list():
            return [text for each in value for text in _texts(each)]
    return []
