"""One call of a run: `loom show ID CALL` and `loom logs ID --step CALL`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.loom_cli.conftest import Project
from tests.loom_cli.terminal import Ended, loom

Run = Callable[..., Ended]


@pytest.fixture
def run(project: Project) -> Run:
    return lambda *arguments: loom(*arguments, folder=project.folder, now_ms=project.now_ms)


def test_a_step_is_shown_with_its_arguments_its_attempts_and_its_result(run: Run) -> None:
    assert run("show", "refund-41", "assess_risk").out == (
        "assess_risk  done  of refund-41\n"
        "step, asked 2023-11-14 22:13:20, took 240ms, 2 attempts, event 1 to 3\n"
        "\n"
        'args    {"claim": "c-7"}\n'
        "result  0.7\n"
    )


def test_a_step_that_failed_is_shown_with_its_traceback(run: Run) -> None:
    shown = run("show", "broken", "fetch").out

    assert 'args  {"n": 99}\n' in shown
    assert "raise RuntimeError(" in shown
    assert "RuntimeError: no such thing" in shown


def test_a_gate_and_a_decision_are_shown_with_what_came_of_them(run: Run) -> None:
    gate, decision = run("show", "refund-41", "approval").out, run("show", "refund-41", "model").out

    assert "approval  done  of refund-41\ngate, asked " in gate
    assert ", by bob, event " in gate
    assert 'show    {"claim": "c-7"}\nanswer  true\n' in gate
    assert 'choice      "large"\n' in decision


@pytest.mark.parametrize("call", ["map/1/fetch", "1/fetch"])
def test_a_call_in_a_branch_is_named_in_full_or_by_an_ending(call: str, run: Run) -> None:
    assert run("show", "refund-41", call, "--json").json | {"asked_at": 0, "ended_at": 0} == {
        "call": "step",
        "id": "map/1/fetch",
        "status": "done",
        "start": 6,
        "end": 9,
        "asked_at": 0,
        "ended_at": 0,
        "tool": None,
        "attempts": 1,
        "due_at": None,
        "idempotent": True,
        "args": {"n": 2},
        "result": 2,
        "failure": None,
        "by": None,
    }


def test_an_open_gate_is_json_as_well(run: Run) -> None:
    assert run("show", "refund-42", "approval", "--json").json["schema"] == {"type": "boolean"}


def test_what_names_no_call_or_several_is_refused(run: Run) -> None:
    missing, several = run("show", "refund-41", "assess_rsk"), run("show", "refund-41", "fetch")

    assert (missing.status, several.status) == (4, 2)
    assert missing.err.endswith("refund-41 has asked no 'assess_rsk'\ntry: Did you mean assess_risk?\n")
    assert several.err.endswith("'fetch' fits 3 calls\ntry: Name one of them: map/0/fetch, map/1/fetch, map/2/fetch.\n")


@pytest.mark.parametrize(
    ("calls", "types"),
    [
        (["assess_risk"], ["STEP_STARTED", "STEP_ATTEMPT_FAILED", "STEP_COMPLETED"]),
        (["fetch"], ["STEP_STARTED"] * 3 + ["STEP_COMPLETED"] * 3),
        (["map/2/fetch"], ["STEP_STARTED", "STEP_COMPLETED"]),
        (["approval", "model"], ["DECISION_RECORDED", "GATE_OPENED", "GATE_ANSWERED"]),
        (["nothing"], []),
    ],
)
@pytest.mark.parametrize("follow", [[], ["--follow"]])
def test_the_events_of_a_call_alone_are_printed(
    calls: list[str], types: list[str], follow: list[str], run: Run
) -> None:
    options = [word for call in calls for word in ("--step", call)]

    lines = run("logs", "refund-41", "--json", *options, *follow).out.splitlines()

    assert [json.loads(line)["type"] for line in lines] == types
