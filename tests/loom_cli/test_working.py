"""`loom worker` in a process of its own: what it drives, what it says, and how it ends."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import pytest

from tests.loom_cli.desk import Running, effects, state, types


def enqueued(desk: Path, *arguments: str) -> None:
    done = Running(desk, "run", *arguments, "--detach").ended()
    assert (done.status, done.out) == (0, f"{arguments[arguments.index('--id') + 1]}\n")


def until_in_the_log(desk: Path, type_: str) -> None:
    looks = threading.Event()
    for _ in range(300):
        if type_ in types(desk, "x1"):
            return
        looks.wait(0.1)
    raise AssertionError(f"{type_} was never written")


def test_what_was_detached_is_driven_by_a_worker_and_told_line_by_line(desk: Path) -> None:
    enqueued(desk, "hello", "--id", "h1")
    enqueued(desk, "nap", "--input", "3600", "--id", "n1")

    done = Running(desk, "worker", "--until-idle", "--json").ended()

    told = [json.loads(line) for line in done.out.splitlines()]
    assert done.status == 0
    assert {(each["did"], each["id"], each["status"]) for each in told} == {
        ("took", "h1", None),
        ("ended", "h1", "completed"),
        ("took", "n1", None),
        ("parked", "n1", "suspended"),
    }
    assert [each["result"] for each in told if each["did"] == "ended"] == ["hello world"]
    assert "h1 completed\n" in done.err
    assert state(desk, "n1").status == "suspended"


@pytest.mark.proves("SUS-07")
def test_the_first_signal_ends_a_worker_and_leaves_its_runs_to_others(desk: Path) -> None:
    enqueued(desk, "executing", "--input", "3", "--id", "x1")
    worker = Running(desk, "worker", "--poll", "0.05", GRACE_S="0.2")
    worker.wait_until_said("working on")
    until_in_the_log(desk, "STEP_STARTED")

    worker.send(signal.SIGTERM)
    ended = worker.ended()

    assert (ended.status, ended.out) == (0, "")
    assert "x1 was stopped where it stood; nothing committed is lost" in ended.err
    [row] = json.loads(Running(desk, "ps", "--json").ended().out)
    assert (row["status"], row["lease_ms"]) == ("running", 0)
    assert "let it go" in Running(desk, "ps").ended().out


def test_the_second_signal_ends_it_at_once(desk: Path) -> None:
    enqueued(desk, "holding", "--input", "60", "--id", "x1")
    worker = Running(desk, "worker", "--poll", "0.05")
    until_in_the_log(desk, "STEP_STARTED")

    worker.send(signal.SIGINT)
    worker.wait_until_said("stopping; again to stop at once")
    worker.send(signal.SIGINT)

    assert worker.ended().status == 130


def test_only_the_flows_that_are_named_are_driven(desk: Path) -> None:
    enqueued(desk, "hello", "--id", "h1")
    enqueued(desk, "echo", "--input", "1", "--id", "e1")

    done = Running(desk, "worker", "--until-idle", "--flow", "echo", "--quiet").ended()
    unknown = Running(desk, "worker", "--flow", "ecco").ended()

    assert (done.status, done.out, done.err) == (0, "", "")
    assert (state(desk, "e1").status, state(desk, "h1").status) == ("completed", "suspended")
    assert unknown.status == 4
    assert "Did you mean echo" in unknown.err


@pytest.mark.proves("SUS-07")
def test_a_run_whose_process_was_killed_is_taken_over_at_once(desk: Path) -> None:
    first = Running(desk, "run", "holding", "--input", "60", "--id", "x1")
    first.wait_until_said("hold")
    first.send(signal.SIGKILL)
    first.ended()

    worker = Running(desk, "worker", "--until-idle", "--json", LET_GO="yes").ended()

    told = [json.loads(line) for line in worker.out.splitlines()]
    assert [(each["did"], each["found"]) for each in told] == [("took", "gone"), ("ended", "gone")]
    assert "x1 is taken over: its process is gone" in worker.err
    assert types(desk, "x1").count("EXECUTION_TAKEN_OVER") == 1
    assert effects(desk).count("hold") <= 2
