"""`loom cancel`, `pause` and `unpause`: for one run, and for many."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.loom_cli.desk import Running, events, state, types
from tests.loom_cli.projects import loom
from tests.loom_cli.test_waiting_over_stops import types_there

CLAIM = ("--set", "order=A-17", "--set", "amount=40")


def waiting(desk: Path, *names: str) -> None:
    for name in names:
        assert loom("run", "refund", *CLAIM, "--id", name, folder=desk).status == 3


@pytest.mark.proves("RNG-11")
def test_a_run_that_waits_is_cancelled_and_says_why(desk: Path) -> None:
    waiting(desk, "r1")

    done = loom("cancel", "r1", "--reason", "ordered twice", folder=desk)
    shown = loom("show", "r1", folder=desk)
    again = loom("cancel", "r1", folder=desk)

    assert done.status == 0
    assert "r1 cancelled in " in done.err
    assert "ordered twice" in done.err
    assert types(desk, "r1")[-1] == "EXECUTION_CANCELLED"
    assert "cancelled" in shown.out
    assert again.status == 0
    assert "r1 cancelled in " in again.err


def test_a_run_is_ended_by_the_record_alone_where_that_is_asked_for(desk: Path) -> None:
    waiting(desk, "r1")

    done = loom("cancel", "r1", "--force", "--json", folder=desk)

    assert (done.status, json.loads(done.out)["status"]) == (0, "cancelled")
    assert events(desk, "r1")[-1].payload.cause == "force"


def test_a_run_that_is_let_go_on_sleeps_until_its_own_time(desk: Path) -> None:
    slept = loom("run", "nap", "--input", "500", "--wait", "0", "--id", "n1", folder=desk)
    loom("pause", "n1", folder=desk)

    unpaused = loom("unpause", "n1", "--wait", "0", folder=desk)

    assert unpaused.status == 3
    assert unpaused.err.split(" (")[0] == slept.err[slept.err.index("○ n1 sleeps until") :].split(" (")[0]


@pytest.mark.proves("BEY-14")
def test_a_paused_run_keeps_its_answer_until_it_may_go_on(desk: Path) -> None:
    waiting(desk, "r1")

    paused = loom("pause", "r1", "--reason", "the bank is closed", folder=desk)
    listed = loom("ps", "--status", "paused", folder=desk)
    shown = loom("show", "r1", folder=desk)
    unpaused = loom("unpause", "r1", folder=desk)
    refused = loom("unpause", "r1", folder=desk)

    assert (paused.status, unpaused.status, refused.status) == (0, 3, 2)
    assert "r1 is paused" in paused.err
    assert "r1" in listed.out
    assert "loom unpause r1" in shown.out
    assert state(desk, "r1").status == "suspended"
    assert "not paused" in refused.err


@pytest.mark.proves("BEY-14")
def test_a_command_whose_run_is_paused_by_another_ends_as_for_one_that_waits(desk: Path) -> None:
    driving = Running(desk, "run", "nap", "--input", "60", "--id", "x1", "--wait", "inf")
    driving.wait_until(lambda: "TIMER_SET" in types_there(desk))

    paused = loom("pause", "x1", folder=desk)
    ended = driving.ended()

    assert (paused.status, ended.status) == (0, 3)
    assert "x1 is paused\n" in ended.err
    assert "loom unpause x1" in ended.err


@pytest.mark.proves("BEY-14")
def test_many_are_paused_let_go_on_and_cancelled_with_a_command_each(desk: Path) -> None:
    waiting(desk, "r1", "r2", "r3")

    paused = loom("pause", "--where", "flow=refund", "--yes", folder=desk)
    again = loom("pause", "--where", "flow=refund", "--dry-run", "--json", folder=desk)
    unpaused = loom("unpause", "--where", "status=paused", "--yes", folder=desk)
    cancelled = loom("cancel", "--where", "flow=refund", "--reason", "over", "--yes", "--json", folder=desk)

    assert [done.status for done in (paused, again, unpaused, cancelled)] == [0, 0, 0, 0]
    assert "paused 3 of 3 runs: 3 paused" in paused.err
    assert {json.loads(line)["refused"] for line in again.out.splitlines()} == {"is paused already"}
    assert "unpaused 3 of 3 runs: 3 suspended" in unpaused.err
    assert {json.loads(line)["status"] for line in cancelled.out.splitlines()} == {"cancelled"}
    assert {state(desk, name).status for name in ("r1", "r2", "r3")} == {"cancelled"}
