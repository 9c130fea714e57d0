"""What a timeline draws is what the view of the run says, at every event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.kernel.codec import decode_events
from loom.lenses.execution import execution_view
from loom.lenses.folding import fold_at
from loom.lenses.timeline import COLUMNS_MAX, Timeline, call_json, call_status, row_json
from loom.spi.event_store import EventRecord
from tests.golden import logs

Event = EventEnvelope[Any]

BEGUN: dict[str, Any] = {
    "flow": "t",
    "fingerprint": "f",
    "seed": "s",
    "rules": {"identity": 1, "delivery": 1, "derivation": 1},
}


def timeline_of(events: list[Event], *, page: int = 5) -> Timeline:
    timeline = Timeline()
    for begin in range(0, len(events), page):
        timeline.add(events[begin : begin + page])
    return timeline


def told(*events: tuple[str, int, Mapping[str, Any]]) -> list[Event]:
    """Return a log of (type, ms after the start, payload), begun."""
    whole = (("EXECUTION_STARTED", 0, BEGUN), *events)
    records = [
        EventRecord(n, type_, 1000 + after, json.dumps(payload).encode(), b"")
        for n, (type_, after, payload) in enumerate(whole)
    ]
    return decode_events(ExecutionId("t"), records)


def asked(id: str, after: int, type_: str = "STEP_STARTED", **payload: Any) -> tuple[str, int, Mapping[str, Any]]:
    return type_, after, {"id": id, "ordinal": 0, "digest": "d", **payload}


@pytest.mark.parametrize("name", logs.names())
def test_a_call_stands_as_the_view_of_the_run_has_it_at_every_event(name: str) -> None:
    events = logs.read(name).events
    timeline = timeline_of(events)

    for n in range(len(events)):
        state = fold_at(events, n)
        view = execution_view(state, events)
        shown = {
            start: call for start, call in timeline.calls.items() if call_status(call, state) not in ("ahead", "void")
        }
        assert {call.start: (call.id, call.kind, call.status) for call in view.calls} == {
            start: (call.id, call.kind, call_status(call, state)) for start, call in shown.items()
        }
        for call in view.calls:
            json_ = call_json(timeline.calls[call.start], state)
            assert (json_["end"], json_["ended_at"]) == (call.end, call.ended_at)


@pytest.mark.parametrize("name", logs.names())
def test_a_row_an_event_in_the_lane_of_its_call(name: str) -> None:
    events = logs.read(name).events
    timeline = timeline_of(events)

    assert [(row.sequence, row.type, row.at) for row in timeline.rows] == [(e.sequence, e.type, e.at) for e in events]
    for row in timeline.rows:
        if row.call is not None:
            call = timeline.calls[row.call]
            assert call.id.startswith(timeline.lanes[row.lane].path)
            assert "/" not in call.id.removeprefix(timeline.lanes[row.lane].path)
        if row.column >= 0:
            assert row.live[row.column] == row.lane
        lanes = [lane for lane in row.live if lane >= 0]
        assert len(lanes) == len(set(lanes))
        json.dumps(row_json(row))


@pytest.mark.parametrize("name", logs.names())
def test_it_makes_no_difference_in_how_many_pieces_a_log_comes(name: str) -> None:
    events = logs.read(name).events
    whole, pieces = timeline_of(events, page=10**6), timeline_of(events, page=1)

    assert (whole.rows, whole.calls, whole.lanes) == (pieces.rows, pieces.calls, pieces.lanes)


def test_each_attempt_has_its_own_time_and_failure() -> None:
    failure = {"type": "Boom", "message": "no"}
    timeline = timeline_of(
        told(
            asked("pay", 10),
            ("STEP_ATTEMPT_FAILED", 30, {"start": 1, "attempt": 1, "failure": failure, "due_at": 1100}),
            ("STEP_ATTEMPT_FAILED", 150, {"start": 1, "attempt": 2, "failure": failure, "due_at": 1300}),
            ("STEP_COMPLETED", 350, {"start": 1, "result": 7}),
        )
    )

    spans = [(a.number, a.began_at, a.ended_at, a.failure is not None) for a in timeline.calls[1].attempts]
    assert spans == [(1, 1010, 1030, True), (2, 1100, 1150, True), (3, 1300, 1350, False)]
    assert [(row.took, row.attempt, row.is_failure) for row in timeline.rows[2:]] == [
        (20, 1, True),
        (50, 2, True),
        (340, None, False),
    ]
    assert [a.number for a in timeline.calls[1].attempts_at(2)] == [1]
    [running] = timeline.calls[1].attempts_at(1)
    assert (running.end, running.failure) == (None, None)


def test_an_attempt_that_the_log_says_began_began_then() -> None:
    failure = {"type": "Boom", "message": "no"}
    timeline = timeline_of(
        told(
            asked("pay", 10, once=True),
            ("STEP_ATTEMPT_FAILED", 30, {"start": 1, "attempt": 1, "failure": failure, "due_at": 1100}),
            ("STEP_ATTEMPTED", 200, {"start": 1, "attempt": 2}),
            ("STEP_FAILED", 250, {"start": 1, "failure": failure, "attempts": 2}),
        )
    )

    assert [(a.number, a.start, a.began_at, a.ended_at) for a in timeline.calls[1].attempts] == [
        (1, 1, 1010, 1030),
        (2, 3, 1200, 1250),
    ]


def test_branches_stand_in_columns_of_their_own_until_the_flow_above_goes_on() -> None:
    timeline = timeline_of(
        told(
            asked("map", 1, "SCOPE_OPENED", kind="parallel", branches=2),
            asked("map/0/fetch", 2),
            asked("map/1/fetch", 3),
            ("STEP_COMPLETED", 4, {"start": 3}),
            ("STEP_COMPLETED", 5, {"start": 2}),
            asked("after", 6),
            asked("map#1", 7, "SCOPE_OPENED", kind="parallel", branches=1),
            asked("map#1/0/fetch", 8),
        )
    )

    assert [lane.path for lane in timeline.lanes] == ["", "map/0/", "map/1/", "map#1/0/"]
    assert [row.column for row in timeline.rows] == [0, 0, 1, 2, 2, 1, 0, 0, 1]
    assert [row.live for row in timeline.rows][3:8] == [(0, 1, 2), (0, 1, 2), (0, 1, 2), (0,), (0,)]


def test_a_branch_that_goes_on_keeps_its_column_while_its_block_asks_something() -> None:
    timeline = timeline_of(
        told(
            asked("scope", 1, "SCOPE_OPENED", kind="scope"),
            asked("scope/a/work", 2),
            asked("beside", 3),
            ("STEP_COMPLETED", 4, {"start": 3}),
        )
    )

    assert timeline.rows[-1].live == (0, 1)


def test_what_a_scope_cut_has_no_column_any_more_but_for_what_is_shielded() -> None:
    timeline = timeline_of(
        told(
            asked("race", 1, "SCOPE_OPENED", kind="race", branches=3),
            asked("race/0/a", 2),
            asked("race/1/b", 3),
            asked("race/2/c", 4),
            ("STEP_COMPLETED", 5, {"start": 2}),
            ("SCOPE_CLOSED", 6, {"start": 1, "counted": ["0"], "shielded": [4]}),
        )
    )

    assert timeline.rows[-1].live == (0, -1, -1, 3)


def test_more_branches_than_columns_are_drawn_without_one() -> None:
    count = COLUMNS_MAX + 10
    branches = [asked(f"map/{n}/work", 2 + n) for n in range(count)]
    timeline = timeline_of(told(asked("map", 1, "SCOPE_OPENED", kind="parallel", branches=count), *branches))

    assert [row.column for row in timeline.rows[-12:]] == [COLUMNS_MAX - 1, *[-1] * 11]
    assert len(timeline.rows[-1].live) == COLUMNS_MAX


def test_one_jumps_from_failure_to_failure_and_back() -> None:
    failure = {"type": "Boom", "message": "no"}
    timeline = timeline_of(
        told(
            asked("pay", 10),
            ("STEP_ATTEMPT_FAILED", 30, {"start": 1, "attempt": 1, "failure": failure, "due_at": 1100}),
            asked("ask", 40, "GATE_OPENED", label="ask"),
            ("GATE_TIMED_OUT", 50, {"start": 3}),
        )
    )

    assert [timeline.failure(at) for at in range(-1, 5)] == [2, 2, 2, 4, 4, None]
    assert [timeline.failure(at, back=True) for at in range(6)] == [None, None, None, 2, 2, 4]


def test_one_jumps_to_a_time_and_to_a_call() -> None:
    timeline = timeline_of(told(asked("pay", 10), asked("map/0/pay", 20), asked("pay#1", 20), asked("pays", 30)))

    assert [timeline.at_time(at) for at in (0, 1000, 1009, 1010, 1020, 1029, 9999)] == [0, 0, 0, 1, 3, 3, 4]
    assert [call.start for call in timeline.named("pay#1")] == [3]
    assert [call.start for call in timeline.named("map/0/pay")] == [2]
    assert [call.start for call in timeline.named("pays")] == [4]
    assert timeline.named("nothing") == []


def test_a_name_without_its_tag_means_all_its_occurrences() -> None:
    timeline = timeline_of(told(asked("map/0/poll", 10), asked("poll#1", 20)))

    assert [call.start for call in timeline.named("poll")] == [1, 2]
