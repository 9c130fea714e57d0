"""Signals, pipes and two drivers, with real processes: nothing is lost, nothing runs twice, nothing is noise."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loom_cli.interrupting import descendants, parents
from tests.loom_cli.desk import Running, effects, events, state, types
from tests.loom_cli.projects import Ended

CLAIM = ("--set", "order=A-17", "--set", "amount=40")
NOISE = ("Traceback", "Task ", "never retrieved", "was never awaited", "Exception ignored", "KeyboardInterrupt")


def begun(desk: Path, flow: str, seconds: float, step: str, **environment: str) -> Running:
    """Begin a run of *flow* as `x1` and return once its step is under way."""
    process = Running(desk, "run", flow, "--input", str(seconds), "--id", "x1", **environment)
    process.wait_until_said(f"{step} started\n")
    return process


def let_go(desk: Path) -> None:
    """Let the step end that reads the pipe."""
    (desk / "held").write_text("", encoding="utf-8")


def quietly_interrupted(done: Ended) -> None:
    assert done.status == 130, done
    assert done.out == ""
    assert [word for word in NOISE if word in done.err] == []
    assert "x1 was interrupted; nothing committed is lost\n" in done.err
    assert done.err.endswith("  go on with: loom resume x1\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_a_plain_def_step_end_and_keeps_its_result(desk: Path, number: signal.Signals) -> None:
    os.mkfifo(desk / "held")
    process = begun(desk, "holding", 60, "hold", GRACE_S="30")

    process.send(number)
    process.wait_until_said("stopping: hold may still end, for 30s at most; again to stop at once\n")
    let_go(desk)
    done = process.ended()

    quietly_interrupted(done)
    assert types(desk, "x1") == ["EXECUTION_STARTED", "STEP_STARTED", "STEP_COMPLETED"]
    assert Running(desk, "resume", "x1").ended().out == "60.0\n"
    assert effects(desk) == ["hold", "held"]


def test_the_second_signal_stops_a_plain_def_step_at_once(desk: Path) -> None:
    process = begun(desk, "holding", 60, "hold")
    began = time.monotonic()

    process.send(signal.SIGINT)
    process.wait_until_said("stopping")
    process.send(signal.SIGINT)
    done = process.ended()

    assert time.monotonic() - began < 10
    assert done.status == 130
    assert "stopping at once\n" in done.err
    assert done.err.endswith("  go on with: loom resume x1\n")
    assert types(desk, "x1") == ["EXECUTION_STARTED", "STEP_STARTED"]


def test_a_step_that_will_not_be_cancelled_does_not_keep_the_process(desk: Path) -> None:
    process = Running(desk, "run", "stubborn", "--id", "x1", GRACE_S="0.2")
    process.wait_until_said("hold_stubbornly started\n")

    process.send(signal.SIGINT)

    quietly_interrupted(process.ended())
    assert effects(desk) != []


def test_two_signals_end_a_step_that_will_not_be_cancelled(desk: Path) -> None:
    process = Running(desk, "run", "stubborn", "--id", "x1", GRACE_S="60")
    process.wait_until_said("hold_stubbornly started\n")

    process.send(signal.SIGTERM)
    process.wait_until_said("stopping")
    process.send(signal.SIGTERM)

    quietly_interrupted(process.ended())


def test_a_flow_that_swallows_the_signal_is_left_without_a_complaint(desk: Path) -> None:
    process = Running(desk, "run", "swallowing", "--id", "x1", GRACE_S="60")
    process.wait_until_said("hold_once started\n")

    process.send(signal.SIGINT)
    process.wait_until_said("stopping")
    process.send(signal.SIGINT)
    done = process.ended()

    assert done.status == 130
    assert [word for word in NOISE if word in done.err] == []
    assert done.err.endswith("  go on with: loom resume x1\n")


def test_a_step_that_outlasts_the_grace_is_left_and_runs_again(desk: Path) -> None:
    process = begun(desk, "executing", 60, "hold_in_an_executor", GRACE_S="0.2")

    process.send(signal.SIGTERM)
    done = process.ended()

    quietly_interrupted(done)
    assert types(desk, "x1") == ["EXECUTION_STARTED", "STEP_STARTED"]


@pytest.mark.proves("EFF-16")
def test_a_step_that_must_not_run_twice_is_in_doubt_after_two_signals_and_a_person_decides(desk: Path) -> None:
    process = begun(desk, "once", 60, "hold_once")
    process.send(signal.SIGINT)
    process.wait_until_said("stopping")
    process.send(signal.SIGINT)
    stopped = process.ended()

    doubtful = Running(desk, "resume", "x1").ended()
    wrong = Running(desk, "resolve", "x1", "hold_once", "--as", "done", "--value", '"much"').ended()
    resolved = Running(desk, "resolve", "x1", "hold_once", "--as", "done", "--value", "60").ended()

    assert "hold_once  was cut short; it will be in doubt" in stopped.err
    assert doubtful.status == 3
    assert "? x1 is in doubt\n" in doubtful.err
    assert "      loom resolve x1 hold_once --as retry\n" in doubtful.err
    assert (wrong.status, wrong.err.startswith("error[invalid-payload]")) == (2, True)
    assert (resolved.status, resolved.out) == (0, "60.0\n")
    assert effects(desk) == ["once"]
    verdict = next(event for event in events(desk, "x1") if event.type == "EFFECT_RESOLVED")
    assert verdict.metadata["principal"] == "ada"


def test_the_first_signal_waits_for_a_step_that_must_not_run_twice(desk: Path) -> None:
    os.mkfifo(desk / "held")
    process = begun(desk, "once", 60, "hold_once", GRACE_S="0.1")

    process.send(signal.SIGTERM)
    process.wait_until_said("stopping: hold_once may still end, for 1m 30s at most; again to stop at once\n")
    let_go(desk)

    quietly_interrupted(process.ended())
    assert Running(desk, "resume", "x1").ended().out == "60.0\n"
    assert effects(desk) == ["once", "done once"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_child_process_of_a_step_is_not_left_behind(desk: Path, number: signal.Signals) -> None:
    process = begun(desk, "parent", 600, "hold_a_child", GRACE_S="0.2")
    process.wait_until_said("the child is there")
    child = int((desk / "child.pid").read_text(encoding="utf-8"))

    process.send(number)
    done = process.ended()

    assert done.status == 130
    assert is_gone(child)
    assert types(desk, "x1") == ["EXECUTION_STARTED", "STEP_STARTED"]


def is_gone(process: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if process not in parents() or _is_zombie(process):
            return True
        select.select([], [], [], 0.02)
    return False


def _is_zombie(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def test_a_sleeping_run_stops_at_the_first_signal(desk: Path) -> None:
    process = Running(desk, "run", "nap", "--input", "3600", "--wait", "7200", "--id", "x1")
    process.wait_until_said("sleeps until")

    process.send(signal.SIGINT)
    done = process.ended()

    assert done.status == 130
    assert state(desk, "x1").status == "running"


def test_json_tells_an_interruption_as_well(desk: Path) -> None:
    os.mkfifo(desk / "held")
    process = Running(desk, "run", "holding", "--input", "60", "--id", "x1", "--json")
    process.wait_until_said("hold started")

    process.send(signal.SIGINT)
    process.wait_until_said("stopping")
    let_go(desk)
    done = process.ended()

    assert (done.status, done.json["status"], done.json["length"]) == (130, "interrupted", 3)


# -- two drivers, pipes -----------------------------------------------------------------------------------------------


@pytest.mark.proves("SUS-01")
def test_of_two_answers_at_once_exactly_one_wins_and_the_other_is_told(desk: Path) -> None:
    assert Running(desk, "run", "refund", *CLAIM, "--id", "r1").ended().status == 3

    answers = [Running(desk, "resume", "r1", "--set", f"approved={word}", "--json") for word in ("true", "false")]
    done = [process.ended() for process in answers]

    [loser] = [each for each in done if each.status != 0]
    assert "Traceback" not in loser.err
    assert loser.err.count('"error"') == 1
    assert types(desk, "r1").count("GATE_ANSWERED") == 1
    assert types(desk, "r1")[-1] == "EXECUTION_COMPLETED"
    assert effects(desk).count("pay") <= 1


def test_a_run_that_somebody_drives_already_is_not_driven_twice(desk: Path) -> None:
    os.mkfifo(desk / "held")
    first = begun(desk, "holding", 60, "hold")

    second = Running(desk, "resume", "x1", LET_GO="yes").ended()
    listed = Running(desk, "ps", "--json").ended().json
    let_go(desk)
    ended = first.ended()

    assert (second.status, second.out) == (0, "")
    assert f"x1 is driven by process {first.pid}" in second.err
    assert [(row["driver"].split("/")[3], row["lease_ms"] > 0) for row in listed] == [(str(first.pid), True)]
    assert (ended.status, ended.out) == (0, "60.0\n")
    assert types(desk, "x1").count("EXECUTION_COMPLETED") == 1
    assert types(desk, "x1").count("EXECUTION_RESUMED") == 0


def test_what_authors_print_goes_beside_the_result(desk: Path) -> None:
    done = Running(desk, "run", "refund", *CLAIM, "--id", "r1", "--json").ended()

    assert done.json["status"] == "suspended"
    assert "a word of the author's\n" in done.err


def test_a_reader_who_left_costs_the_output_and_not_the_run(desk: Path) -> None:
    command = f'"{sys.executable}" -m loom_cli run hello --id h1 | true; echo "${{PIPESTATUS[0]}}"'

    done = subprocess.run(["bash", "-c", command], cwd=desk, capture_output=True, text=True, check=False)

    assert done.stdout == "0\n"
    assert "BrokenPipe" not in done.stderr
    assert state(desk, "h1").status == "completed"


def test_messages_that_nobody_reads_do_not_stop_a_run(desk: Path) -> None:
    command = f'"{sys.executable}" -m loom_cli run holding --input 0.5 --id h1 2>&1 >/dev/null | head -c 1'

    subprocess.run(["bash", "-c", command], cwd=desk, capture_output=True, check=False)

    assert state(desk, "h1").status == "completed"


def test_descendants_are_found_at_every_depth() -> None:
    assert descendants(1, {2: 1, 3: 2, 4: 3, 5: 9, 9: 0}) == [2, 3, 4]
    assert parents()[os.getpid()] == os.getppid()
