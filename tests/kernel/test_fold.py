"""The fold, row by row: what a fact means, and that nothing else moves."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom.core import facts as f
from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState, empty_state
from loom.kernel.fold import EVENTS, evolve, fold

RUN = ExecutionId("run-1")
FAILURE = {"type": "ValueError", "message": "no"}


def log(*facts: tuple[str, Any], after: int = 0) -> list[EventEnvelope[Any]]:
    """Return events of the given types and payloads, from sequence *after* on."""
    return [EventEnvelope(RUN, after + i, type_, 1000 + after + i, fact) for i, (type_, fact) in enumerate(facts)]


STARTED = ("EXECUTION_STARTED", f.ExecutionStarted("flow", "print", "seed", {"identity": 1}, input=[1]))
STEP = ("STEP_STARTED", f.StepStarted("a", 0, "d"))
ONCE = ("STEP_STARTED", f.StepStarted("pay", 0, "d", once=True))
GATE = ("GATE_OPENED", f.GateOpened("g", 1, "d", "g"))
SCOPE = ("SCOPE_OPENED", f.ScopeOpened("parallel", 0, "d", "parallel", 2))
INSIDE = ("GATE_OPENED", f.GateOpened("parallel/0/g", 0, "d", "g"))
OPENED = log(STARTED, STEP, GATE)


def state_after(*facts: tuple[str, Any]) -> ExecutionState:
    return fold(log(*facts), empty_state(RUN))


def summary(state: ExecutionState) -> dict[str, Any]:
    return {
        "status": state.status,
        "open": sorted(state.open),
        "settled": [(x.start.sequence, x.outcome.sequence) for x in state.settled],
        "gates": sorted(state.gates),
        "cuts": sorted(state.cuts),
    }


ROWS: list[tuple[str, Sequence[tuple[str, Any]], tuple[str, Any], dict[str, Any]]] = [
    ("started", [], STARTED, {"status": "running"}),
    ("step", [STARTED], STEP, {"open": [1]}),
    ("completed step", [STARTED, STEP], ("STEP_COMPLETED", f.StepCompleted(1, 5)), {"open": [], "settled": [(1, 2)]}),
    ("failed step", [STARTED, STEP], ("STEP_FAILED", f.StepFailed(1, FAILURE, 1)), {"open": [], "settled": [(1, 2)]}),
    ("failed attempt", [STARTED, STEP], ("STEP_ATTEMPT_FAILED", f.StepAttemptFailed(1, 1, FAILURE, 9)), {}),
    ("attempt", [STARTED, ONCE], ("STEP_ATTEMPTED", f.StepAttempted(1, 2)), {}),
    ("in doubt", [STARTED, ONCE], ("EFFECT_INDOUBT", f.EffectIndoubt(1, "lost")), {"gates": [1]}),
    (
        "resolved as done",
        [STARTED, ONCE, ("EFFECT_INDOUBT", f.EffectIndoubt(1, "lost"))],
        ("EFFECT_RESOLVED", f.EffectResolved(1, "done", 3)),
        {"gates": [], "open": [], "settled": [(1, 3)]},
    ),
    (
        "resolved to retry",
        [STARTED, ONCE, ("EFFECT_INDOUBT", f.EffectIndoubt(1, "lost"))],
        ("EFFECT_RESOLVED", f.EffectResolved(1, "retry")),
        {"gates": []},
    ),
    ("gate", [STARTED], GATE, {"open": [1], "gates": [1]}),
    (
        "answered",
        [STARTED, GATE],
        ("GATE_ANSWERED", f.GateAnswered(1, "yes")),
        {"open": [], "gates": [], "settled": [(1, 2)]},
    ),
    (
        "timed out",
        [STARTED, GATE],
        ("GATE_TIMED_OUT", f.GateTimedOut(1)),
        {"open": [], "gates": [], "settled": [(1, 2)]},
    ),
    ("timer", [STARTED], ("TIMER_SET", f.TimerSet("t", 0, "d", 9)), {"open": [1]}),
    (
        "fired",
        [STARTED, ("TIMER_SET", f.TimerSet("t", 0, "d", 9))],
        ("TIMER_FIRED", f.TimerFired(1)),
        {"open": [], "settled": [(1, 2)]},
    ),
    ("scope", [STARTED], SCOPE, {"settled": [(1, 1)]}),
    ("cut", [STARTED, SCOPE, INSIDE], ("SCOPE_CUT", f.ScopeCut(1, "1")), {"gates": [], "cuts": [1]}),
    ("decision", [STARTED], ("DECISION_RECORDED", f.DecisionRecorded("d", 0, "d", 1)), {"settled": [(1, 1)]}),
    ("stream", [STARTED], ("STREAM_SETTLED", f.StreamSettled("s", 0, "d", [1])), {"settled": [(1, 1)]}),
    ("own event", [STARTED], ("user.made", f.UserEvent("made", 0, "d")), {"settled": [(1, 1)]}),
    ("suspended", [STARTED, GATE], ("EXECUTION_SUSPENDED", f.ExecutionSuspended(7)), {"status": "suspended"}),
    (
        "suspended in doubt",
        [STARTED, ONCE, ("EFFECT_INDOUBT", f.EffectIndoubt(1, "lost"))],
        ("EXECUTION_SUSPENDED", f.ExecutionSuspended()),
        {"status": "in_doubt"},
    ),
    (
        "resumed",
        [STARTED, GATE, ("EXECUTION_SUSPENDED", f.ExecutionSuspended(7))],
        ("EXECUTION_RESUMED", f.ExecutionResumed()),
        {"status": "running"},
    ),
    (
        "completed",
        [STARTED, GATE],
        ("EXECUTION_COMPLETED", f.ExecutionCompleted(1)),
        {"status": "completed", "gates": []},
    ),
    ("failed", [STARTED, GATE], ("EXECUTION_FAILED", f.ExecutionFailed(FAILURE)), {"status": "failed", "gates": []}),
    ("migrated", [STARTED], ("EXECUTION_MIGRATED", f.ExecutionMigrated("a", "b", [])), {}),
    (
        "moved on purpose",
        [STARTED, GATE, ("EXECUTION_DIVERGED", f.ExecutionDiverged({"x": 1}))],
        ("EXECUTION_MIGRATED", f.ExecutionMigrated("a", "b", [], flow="f", version="2", given={"input": 1})),
        {"status": "suspended"},
    ),
    ("patched", [STARTED], ("PATCH_APPLIED", f.PatchApplied("newer")), {}),
    ("diverged", [STARTED], ("EXECUTION_DIVERGED", f.ExecutionDiverged({"x": 1})), {"status": "diverged"}),
    ("taken over", [STARTED, STEP], ("EXECUTION_TAKEN_OVER", f.ExecutionTakenOver(2, "there", "lapsed")), {}),
    ("paused", [STARTED], ("EXECUTION_PAUSED", f.ExecutionPaused()), {"status": "paused"}),
    ("unpaused", [STARTED], ("EXECUTION_UNPAUSED", f.ExecutionUnpaused()), {"status": "suspended"}),
    ("to be cancelled", [STARTED], ("EXECUTION_CANCEL_REQUESTED", f.ExecutionCancelRequested("request", 9)), {}),
    ("grace ended", [STARTED], ("EXECUTION_GRACE_ENDED", f.ExecutionGraceEnded()), {}),
    (
        "cancelled",
        [STARTED, GATE],
        ("EXECUTION_CANCELLED", f.ExecutionCancelled("request")),
        {"status": "cancelled", "gates": []},
    ),
    ("continued", [STARTED], ("EXECUTION_CONTINUED", f.ExecutionContinued("run-1~2", 1)), {"status": "continued"}),
    ("denied", [STARTED], ("EXECUTION_DENIED", f.ExecutionDenied("send", "not yours", "eve")), {}),
    (
        "attached",
        [STARTED, ("DECISION_RECORDED", f.DecisionRecorded("d", 0, "d", 1))],
        ("OUTCOME_ATTACHED", f.OutcomeAttached(1, 0.8)),
        {},
    ),
    ("message awaited", [STARTED], ("MESSAGE_AWAITED", f.MessageAwaited("m", 0, "d", "m")), {"open": [1]}),
    (
        "message received",
        [STARTED, ("MESSAGE_AWAITED", f.MessageAwaited("m", 0, "d", "m"))],
        ("MESSAGE_RECEIVED", f.MessageReceived(1, 1, 900, "hi")),
        {"open": [], "settled": [(1, 2)]},
    ),
    (
        "no message in time",
        [STARTED, ("MESSAGE_AWAITED", f.MessageAwaited("m", 0, "d", "m"))],
        ("MESSAGE_TIMED_OUT", f.MessageTimedOut(1)),
        {"open": [], "settled": [(1, 2)]},
    ),
    ("held", [STARTED], ("TOPIC_HELD", f.TopicHeld("m")), {}),
    ("released", [STARTED], ("TOPIC_RELEASED", f.TopicReleased("m")), {}),
    ("closed", [STARTED, SCOPE, INSIDE], ("SCOPE_CLOSED", f.ScopeClosed(1, ["1"])), {"gates": [], "cuts": [1]}),
    ("scope timed out", [STARTED, SCOPE, INSIDE], ("SCOPE_TIMED_OUT", f.ScopeTimedOut(1)), {"gates": [], "cuts": [1]}),
    ("dropped", [STARTED], ("REQUEST_DROPPED", f.RequestDropped("answer", "k", "late")), {}),
    (
        "forked",
        [STARTED, STEP, GATE],
        (
            "EXECUTION_FORKED",
            f.ExecutionForked({"execution_id": "other", "incarnation": 1, "sequence": 2}, "s2", [1, 2]),
        ),
        {"status": "forked", "open": [], "gates": []},
    ),
    (
        "forked with other arguments",
        [STARTED, STEP],
        ("EXECUTION_FORKED", f.ExecutionForked({}, "s2", [], given={"start": 1, "args": {"n": 2}})),
        {"status": "forked"},
    ),
    (
        "retried",
        [
            STARTED,
            STEP,
            ("STEP_FAILED", f.StepFailed(1, FAILURE, 1)),
            GATE,
            ("EXECUTION_FAILED", f.ExecutionFailed(FAILURE, 1)),
        ],
        ("EXECUTION_RETRIED", f.ExecutionRetried(1, [3], [1], [])),
        {"status": "suspended", "open": [1], "settled": [], "gates": []},
    ),
]


@pytest.mark.parametrize(("before", "fact", "changes"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_fact_changes_what_its_row_says_and_nothing_else(
    before: Sequence[tuple[str, Any]], fact: tuple[str, Any], changes: dict[str, Any]
) -> None:
    old = state_after(*before)
    kept = summary(old)
    [event] = log(fact, after=len(before))

    new = evolve(old, event)

    assert summary(new) == kept | changes
    assert (new.sequence, new.at) == (event.sequence, event.at)
    assert summary(old) == kept, "the argument is never changed"


@pytest.mark.proves("KER-03")
def test_every_type_of_the_table_has_a_row_here() -> None:
    assert {fact[0] for _, _, fact, _ in ROWS} - {"user.made"} == set(EVENTS)


def test_only_these_may_follow_the_end() -> None:
    after_end = {row.name for row in EVENTS.values() if row.after_end}

    assert after_end == {"EXECUTION_RETRIED", "EXECUTION_DENIED", "OUTCOME_ATTACHED"}


@pytest.mark.parametrize(("found", "crashes"), [("lapsed", 1), ("gone", 1), ("released", 0)])
def test_a_lost_driver_is_counted_against_the_steps_in_flight(found: Any, crashes: int) -> None:
    state = state_after(STARTED, STEP, GATE, ("EXECUTION_TAKEN_OVER", f.ExecutionTakenOver(2, "there", found)))

    assert state.facts.recoveries == crashes
    assert {start: known.crashes for start, known in state.attempts.items()} == ({1: 1} if crashes else {})


def test_a_takeover_counts_as_a_drive_once_the_run_goes_on() -> None:
    took = ("EXECUTION_TAKEN_OVER", f.ExecutionTakenOver(1, "there", "gone"))
    again = ("EXECUTION_TAKEN_OVER", f.ExecutionTakenOver(2, "here", "gone"))
    state = state_after(STARTED, took, again, ("EXECUTION_RESUMED", f.ExecutionResumed(cut_off=True)))

    assert (state.facts.drives, state.facts.recoveries) == (2, 2)


def test_a_drive_that_parked_ends_the_count_of_lost_drivers() -> None:
    took = ("EXECUTION_TAKEN_OVER", f.ExecutionTakenOver(2, "there", "gone"))
    went_on = ("EXECUTION_RESUMED", f.ExecutionResumed())

    assert state_after(STARTED, took, ("EXECUTION_SUSPENDED", f.ExecutionSuspended()), went_on).facts.recoveries == 0


@pytest.mark.parametrize("type_", ["SOMETHING_NEW", "STEP_COMPLETED2", ""])
def test_an_unknown_type_moves_the_sequence_only(type_: str) -> None:
    old = fold(OPENED, empty_state(RUN))

    new = evolve(old, EventEnvelope(RUN, 3, type_, 5000, {"any": "thing"}))

    assert summary(new) == summary(old)
    assert (new.sequence, new.at) == (3, 5000)


@pytest.mark.proves("KER-10")
def test_what_a_fact_does_not_touch_is_shared_with_the_state_before() -> None:
    old = fold(OPENED, empty_state(RUN))

    new = evolve(old, log(("STEP_COMPLETED", f.StepCompleted(1, 5)), after=3)[0])

    assert new.facts is old.facts
    assert new.gates is old.gates
    assert next(iter(new.open.values())) is old.open[2]


@pytest.mark.proves("LIF-17")
def test_what_is_settled_has_the_very_events_and_no_copy_of_their_inputs() -> None:
    big = 10_000
    facts: list[tuple[str, Any]] = [STARTED]
    for number in range(1_000):
        facts += [
            ("STEP_STARTED", f.StepStarted(f"s#{number}", number, "d", args={"text": f"{number} " * (big // 4)})),
            ("STEP_COMPLETED", f.StepCompleted(len(facts), number)),
        ]
    events = log(*facts)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        state = fold(events, empty_state(RUN))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [settled.start for settled in state.settled][::-1] == events[1::2]
    assert all(settled.start is event for settled, event in zip(state.settled, events[-2::-2], strict=False))
    assert (after - before) / 1_000 < big / 10


@st.composite
def logs(draw: st.DrawFn) -> list[EventEnvelope[Any]]:
    """Any log whose outcomes settle what is open."""
    facts: list[tuple[str, Any]] = [STARTED]
    for i in range(draw(st.integers(0, 25))):
        state = state_after(*facts)
        steps = [s for s, start in state.open.items() if start.type == "STEP_STARTED"]
        gates = [s for s, start in state.open.items() if start.type == "GATE_OPENED"]
        moves: list[tuple[str, Any]] = [
            ("STEP_STARTED", f.StepStarted(f"s{i}", i, "d")),
            ("GATE_OPENED", f.GateOpened(f"g{i}", i, "d", "g")),
            ("DECISION_RECORDED", f.DecisionRecorded(f"d{i}", i, "d", i)),
            ("EXECUTION_SUSPENDED", f.ExecutionSuspended()),
            ("EXECUTION_RESUMED", f.ExecutionResumed()),
        ]
        moves += [("STEP_COMPLETED", f.StepCompleted(s, i)) for s in steps]
        moves += [("STEP_ATTEMPT_FAILED", f.StepAttemptFailed(s, 1, FAILURE, i)) for s in steps]
        moves += [("GATE_ANSWERED", f.GateAnswered(s, i)) for s in gates]
        facts.append(draw(st.sampled_from(moves)))
    return log(*facts)


@pytest.mark.proves("PRN-02", "KER-09")
@given(logs())
def test_folding_in_two_pieces_is_folding_at_once_at_every_border(events: list[EventEnvelope[Any]]) -> None:
    whole = fold(events, empty_state(RUN))

    for border in range(len(events) + 1):
        prefix = fold(events[:border], empty_state(RUN))
        assert fold(events[border:], prefix) == whole
