"""`loom watch`: a run as it goes on, whoever drives it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from loom_cli.exits import ExitCode
from tests.loom_cli.conftest import Project
from tests.loom_cli.desk import Running
from tests.loom_cli.terminal import loom

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.mark.proves("CMP-15")
def test_what_has_happened_is_told_line_by_line_and_how_it_ended(project: Project) -> None:
    watched = loom("watch", "refund-41", folder=project.folder, now_ms=project.now_ms)

    assert watched.status == ExitCode.DONE
    assert watched.err == ""
    assert re.sub(r", until .*", "", watched.out).splitlines() == [
        "refund-41 started",
        "  assess_risk started",
        "  assess_risk attempt 1 failed: ValueError: the risk service is busy; attempt 2 in 0ms",
        "  assess_risk done in 240ms, 2 attempts",
        "  map opened 3 branches",
        "  map/0/fetch started",
        "  map/1/fetch started",
        "  map/2/fetch started",
        "  map/0/fetch done in 7ms",
        "  map/1/fetch done in 14ms",
        "  map/2/fetch done in 21ms",
        "  model decided large",
        "  claim_checked emitted",
        "  approval waits for an answer",
        "  resumed",
        "  approval answered by bob",
        "✓ refund-41 completed in 261ms",
        "true",
    ]


def test_the_status_is_that_of_the_run(project: Project) -> None:
    watched = loom("watch", "broken-1", "--json", folder=project.folder, now_ms=project.now_ms)

    last = json.loads(watched.out.splitlines()[-1])
    assert watched.status == ExitCode.FAILED
    assert (last["event"], last["status"]) == ("EXECUTION_FAILED", "failed")
    assert last["failure"]["type"] == "loom.StepFailed"


@pytest.mark.proves("CMP-15")
def test_a_run_that_another_process_drives_is_watched_to_its_end(desk: Path) -> None:
    Running(desk, "run", "two", "--id", "x1").ended()
    watching = Running(desk, "watch", "x1", "--json")

    Running(desk, "resume", "x1", "--gate", "legal/sign", "--answer", "true").ended()
    Running(desk, "resume", "x1", "--gate", "money/sign", "--answer", "false").ended()
    watched = watching.ended()

    states = [json.loads(line) for line in watched.out.splitlines()]
    assert watched.status == ExitCode.DONE
    assert [state["sequence"] for state in states] == list(range(len(states)))
    assert [len(state["gates"]) for state in states if state["event"] in ("GATE_OPENED", "GATE_ANSWERED")] == [
        1,
        2,
        1,
        0,
    ]
    assert states[-1]["result"] == {"legal": True, "money": False}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_watching_and_gives_the_terminal_back(desk: Path, number: signal.Signals) -> None:
    Running(desk, "run", "two", "--id", "x1").ended()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "loom_cli", "watch", "x1"],
        cwd=desk,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = _read_until(ours, "money/sign")

    process.send_signal(number)
    written += _read_until(ours, None)

    assert process.wait(timeout=30) == ExitCode.INTERRUPTED
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1
    assert "legal/sign" in ESCAPES.sub("", written)
    assert "Traceback" not in written
    assert "error" not in written


def _read_until(terminal: int, words: str | None) -> str:
    """Return what is written to *terminal* until *words* are there; None: until it is closed."""
    written = b""
    try:
        while words is None or words.encode() not in written:
            chunk = os.read(terminal, 65536)
            if not chunk:
                break
            written += chunk
    except OSError:  # the other end was closed
        pass
    if words is None:
        os.close(terminal)
    return written.decode()
