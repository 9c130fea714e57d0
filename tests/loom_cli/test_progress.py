"""The tree of a run: durable events in, lines out."""

from __future__ import annotations

import pytest

from loom.core import facts as f
from loom_cli.progress import Line, Progress, progress_of, view
from loom_cli.telling import told
from tests.loom_cli.logs_by_hand import STARTED_AT, log, refused, step


def now(seconds: float) -> int:
    return STARTED_AT + round(seconds * 1000)


def shown(lines: list[Line]) -> list[str]:
    return [f"{'  ' * each.depth}{each.mark} {each.name} {each.time} {each.note}".rstrip() for each in lines]


def all_told(progress: Progress, *facts: object) -> list[str | None]:
    events = log(*facts)
    return [told(progress_of(events[: at + 1], attempts_max=progress.attempts_max), e) for at, e in enumerate(events)]


def test_a_run_that_has_only_begun_has_no_lines() -> None:
    assert view(progress_of(log()), now(1)) == []


def test_a_step_shows_how_long_it_runs_and_then_how_long_it_took() -> None:
    running = log(step("assess"))

    done = [*running, *log(step("x"), f.StepCompleted(1, 0.7))[2:]]

    assert shown(view(progress_of(running), now(5))) == ["running assess 4s"]
    assert shown(view(progress_of(done), now(9))) == ["done assess 1s"]


def test_a_backoff_shows_which_attempt_comes_next_and_when() -> None:
    events = log(step("assess"), f.StepAttemptFailed(1, 1, refused(), now(4)))

    resting = view(progress_of(events, attempts_max={"assess": 4}), now(2.5))
    trying = view(progress_of(events, attempts_max={"assess": 4}), now(4))
    unknown = view(progress_of(events), now(2.5))

    assert shown(resting) == ["resting assess 1.5s attempt 2 of 4 in 1.5s, ConnectionError: refused"]
    assert shown(trying) == ["running assess 3s attempt 2 of 4"]
    assert shown(unknown) == ["resting assess 1.5s attempt 2 in 1.5s, ConnectionError: refused"]


def test_the_attempts_of_a_settled_step_are_told() -> None:
    events = log(step("assess"), f.StepAttemptFailed(1, 1, refused(), now(2)), f.StepCompleted(1, 1))

    assert shown(view(progress_of(events), now(9))) == ["done assess 2s 2 attempts"]


def test_branches_are_nested_by_the_path_of_the_identity() -> None:
    events = log(
        f.ScopeOpened("checks", 0, "d", "parallel", ["risk", "fraud"]),
        step("checks/risk/fetch"),
        step("checks/risk/fetch#1"),
        f.ScopeOpened("checks/fraud/map", 0, "d", "map", 2),
        step("checks/fraud/map/0/look"),
    )

    assert shown(view(progress_of(events), now(6))) == [
        "scope checks  2 branches",
        "  scope risk",
        "    running fetch 4s",
        "    running fetch#1 3s",
        "  scope fraud/map  2 branches",
        "    running 0/look 1s",
    ]


def test_an_escaped_name_is_shown_as_it_was_given() -> None:
    assert [each.name for each in view(progress_of(log(step("a%2Fb"))), now(2))] == ["a/b"]


def test_gates_timers_decisions_and_doubts_say_what_they_are() -> None:
    events = log(
        f.GateOpened("approval", 0, "d", "approval", due_at=now(3700)),
        f.TimerSet("sleep", 1, "d", now(60)),
        f.DecisionRecorded("route", 2, "d", choice="fast"),
        step("pay", 3, once=True),
        f.EffectIndoubt(4, "the process was lost"),
    )

    [gate, timer, decision, doubt] = view(progress_of(events), now(10))

    assert (gate.mark, gate.note[:26]) == ("waiting", "waits for an answer, until")
    assert gate.note.endswith("(in 1h)")
    assert (timer.mark, timer.note[-8:]) == ("sleeping", "(in 50s)")
    assert (decision.mark, decision.note) == ("done", "decided fast")
    assert (doubt.mark, doubt.note) == ("in_doubt", "in doubt: the process was lost")


def test_an_answer_says_who_gave_it() -> None:
    events = log(f.GateOpened("approval", 0, "d", "approval"), (f.GateAnswered(1, True), {"principal": "ada"}))

    assert shown(view(progress_of(events), now(9))) == ["done approval 1s answered by ada"]


def test_a_failure_is_told_on_one_line() -> None:
    events = log(step("pay"), f.StepFailed(1, refused("first\nsecond"), 1))

    assert shown(view(progress_of(events), now(9))) == ["failed pay 1s ConnectionError: first second"]


def test_what_was_cut_says_so() -> None:
    events = log(
        f.ScopeOpened("checks", 0, "d", "parallel", 2),
        step("checks/0/a"),
        f.GateOpened("checks/1/ask", 0, "d", "ask"),
        f.StepFailed(2, refused(), 1),
        f.ScopeCut(1, "0"),
    )

    assert shown(view(progress_of(events), now(9))) == [
        "cut checks  cut, because 0 failed",
        "  failed 0/a 2s ConnectionError: refused",
        "  cut 1/ask  cut",
    ]


def test_a_low_terminal_folds_what_is_settled_and_keeps_what_is_not() -> None:
    starts = [step(f"map/{n}/look") for n in range(40)]
    ends = [f.StepCompleted(2 + n, None) for n in range(38)]
    progress = progress_of(log(f.ScopeOpened("map", 0, "d", "map", 40), *starts, *ends))

    lines = view(progress, now(100), rows=10)

    assert len(lines) <= 10
    assert [line.mark for line in lines].count("running") == 2
    assert lines[1] == Line(1, "folded", "33 done")


def test_more_open_lines_than_rows_hide_the_oldest() -> None:
    progress = progress_of(log(*[step(f"s{n}", n) for n in range(30)]))

    lines = view(progress, now(99), rows=5)

    assert [line.name for line in lines] == ["26 more", "s26", "s27", "s28", "s29"]


def test_code_that_asks_otherwise_is_told_with_both_arguments() -> None:
    differences = [{"id": "fetch", "sequence": 1, "recorded": "d", "asked": {"args": {"n": 2}, "digest": "e"}}]
    facts = [step("fetch", args={"n": 1}), f.StepCompleted(1, 1)]

    told_of = all_told(progress_of(()), *facts, f.ExecutionMigrated("a", "b", differences))

    assert told_of[-1] == 'the code has changed since, and asks otherwise: fetch ran with {"n": 1}, not {"n": 2}'
    assert str(all_told(progress_of(()), *facts, f.ExecutionMigrated("a", "b", differences * 5))[-1]).endswith(
        "; and 2 more (loom logs)"
    )


@pytest.mark.proves("PRN-04")
def test_a_pause_is_told_by_the_command_and_not_as_a_change() -> None:
    told_of = all_told(progress_of(()), f.TimerSet("sleep", 0, "d", now(60)), f.ExecutionSuspended(now(60)))

    assert told_of[0] is None
    assert str(told_of[1]).startswith("sleep sleeps until ")
    assert told_of[2] is None


def test_each_change_is_one_line() -> None:
    facts = [
        step("assess"),
        f.StepAttemptFailed(1, 1, refused("a\nb"), now(4.5)),
        f.StepCompleted(1, 1),
        f.ScopeOpened("map", 1, "d", "map", 1),
        f.GateOpened("map/0/ask", 0, "d", "ask"),
        (f.GateAnswered(5, True), {"principal": "ada"}),
        f.DecisionRecorded("route", 2, "d", choice={"to": 1}),
        step("pay", 3, once=True),
        f.EffectIndoubt(8, "lost"),
        (f.EffectResolved(8, "retry"), {"principal": "bob"}),
        f.StepAttempted(8, 1),
        f.StepAttemptFailed(8, 1, refused(), now(11)),
        f.StepAttempted(8, 2),
        f.EffectIndoubt(8, "lost"),
        f.EffectResolved(8, "retry"),
        f.StepAttempted(8, 2),
        f.StepFailed(8, refused(), 2),
        f.ExecutionResumed(cut_off=True),
        f.ExecutionMigrated("a", "b", []),
        f.RequestDropped("verdict", "k", "too late"),
    ]

    assert all_told(progress_of((), attempts_max={"assess": 3}), *facts) == [
        None,
        "assess started",
        "assess attempt 1 failed: ConnectionError: a b; attempt 2 of 3 in 2.5s",
        "assess done in 2s, 2 attempts",
        "map opened 1 branch",
        "map/0/ask waits for an answer",
        "map/0/ask answered by ada",
        'route decided {"to": 1}',
        "pay started",
        "pay is in doubt: lost",
        "pay resolved as retry by bob",
        "pay started again",
        "pay attempt 1 failed: ConnectionError: refused; attempt 2 in 0ms",
        "pay attempt 2 started",
        "pay is in doubt: lost",
        "pay resolved as retry",
        "pay attempt 2 started again",
        "pay failed after 2 attempts: ConnectionError: refused",
        "taken up again after it was cut off",
        "the code has changed since; what was recorded still fits it",
        "a verdict came too late: too late",
    ]
