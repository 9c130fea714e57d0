"""What a terminal is drawn, and what else is told of a run: golden, on fixed logs."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loom.core import facts as f
from loom.core.outcome import outcome_of
from loom_cli.hints import Hints
from loom_cli.outcomes import Teller, outcome_json
from loom_cli.principals import UNKNOWN, principal_of
from loom_cli.progress import progress_of, view
from loom_cli.screen import Screen
from loom_cli.watching import painted
from tests.loom_cli.logs_by_hand import RUN, STARTED_AT, log, refused, step

NOW = STARTED_AT + 20_000
BUSY = log(
    step("assess"),
    f.StepCompleted(1, 0.7),
    f.ScopeOpened("checks", 1, "d", "parallel", ["risk", "fraud"]),
    step("checks/risk/fetch"),
    step("checks/fraud/look"),
    f.StepAttemptFailed(5, 1, refused("the risk service is busy, and has been so for quite a while now"), NOW + 1500),
    step("checks/risk/\x1b[31m名前"),
    f.StepFailed(7, refused(), 1),
    f.StepCompleted(4, 1),
)


def drawn(*, width: int = 80, unicode: bool = True) -> list[str]:
    lines = view(progress_of(BUSY, attempts_max={"look": 4}), NOW)
    return ["".join(part.text for part in parts).rstrip() for parts in painted(lines, width=width, unicode=unicode)]


def test_signs_names_times_and_notes_stand_below_each_other() -> None:
    assert drawn() == [
        "  ✓ assess             1s",
        "  checks                   2 branches",
        "    risk",
        "      ✓ fetch          5s",
        "      ✗ \\x1b[31m名前   1s  ConnectionError: refused",
        "    ↻ fraud/look      15s  attempt 2 of 4 in 1.5s, ConnectionError: the risk se…",
    ]


def test_a_narrow_terminal_and_one_without_unicode_are_drawn_as_well() -> None:
    assert max(map(len, drawn(width=50))) <= 50
    assert drawn(unicode=False)[0] == "  + assess             1s"
    assert drawn(unicode=False)[5].endswith("...")


def told(*facts: Any) -> tuple[str, str]:
    """Return what is printed to stdout and stderr of the run that *facts* leave."""
    state = progress_of(log(*facts)).state
    out, err = io.StringIO(), io.StringIO()
    Teller(Screen(out, err), Hints(RUN, "shop:app", None), lambda: NOW).outcome(state, outcome_of(state))
    return out.getvalue(), err.getvalue()


@pytest.mark.proves("EFF-16")
def test_a_doubt_is_told_with_its_three_verdicts() -> None:
    facts = [step("pay", args={"amount": 40}, once=True), f.EffectIndoubt(1, "the process was lost while it ran")]

    assert told(*facts, f.ExecutionSuspended())[1] == (
        "? refund-42 is in doubt\n"
        "  pay  nobody knows whether it happened: the process was lost while it ran\n"
        "    │  {\n"
        '    │    "amount": 40\n'
        "    │  }\n"
        "    find out, then say which it was:\n"
        "      loom resolve refund-42 pay --as done --value JSON --app shop:app\n"
        "      loom resolve refund-42 pay --as failed --app shop:app\n"
        "      loom resolve refund-42 pay --as retry --app shop:app\n"
    )


def test_a_failure_is_told_with_the_lines_of_the_step_and_of_the_flow() -> None:
    inner = refused() | {"traceback": '  File "a.py", line 3, in pay\n    charge()\n', "cause": refused("no route")}
    outer = {"type": "loom.StepFailed", "message": "pay failed", "traceback": '  File "a.py", line 9, in refund\n'}
    facts = [step("pay"), f.StepFailed(1, inner, 2), f.ExecutionFailed(outer, cause=1)]

    assert told(*facts)[1] == (
        "✗ refund-42 failed in 3s\n"
        "  in pay after 2 attempts:\n"
        '    File "a.py", line 3, in pay\n'
        "      charge()\n"
        "    ConnectionError: refused\n"
        "    from ConnectionError: no route\n"
        "  asked by the flow:\n"
        '    File "a.py", line 9, in refund\n'
        "  try again from there: loom retry refund-42 --app shop:app\n"
    )


def test_a_flow_that_failed_by_itself_is_told_so() -> None:
    failure = {"type": "ValueError", "message": "first\nsecond"}

    assert told(f.ExecutionFailed(failure))[1] == (
        "✗ refund-42 failed in 1s\n"
        "  in the flow:\n"
        "    ValueError: first\n"
        "    second\n"
        "  try again from there: loom retry refund-42 --app shop:app\n"
    )


def test_many_gates_are_cut_short() -> None:
    gates = [f.GateOpened(f"map/{n}/ask", 0, "d", "ask", schema={"type": "boolean"}) for n in range(12)]

    err = told(*gates, f.ExecutionSuspended())[1]

    assert err.count("answer: ") == 10
    assert err.endswith("  and 2 more: loom gates\n")


@pytest.mark.parametrize(
    ("show", "lines", "more"),
    [
        ("y" * 10_000, 1, "    6,000 more characters: loom show refund-42\n"),
        ("y\n" * 100, 30, "    140 more characters: loom show refund-42\n"),
        ("y\n" * 30, 30, ""),
        ({"$str": "a\\x1b\\nb"}, 2, ""),
    ],
)
def test_what_a_gate_shows_is_text_of_lines_cut_short(show: Any, lines: int, more: str) -> None:
    gate = f.GateOpened("ask", 0, "d", "ask", show=show, schema={"type": "boolean"})

    err = told(gate, f.ExecutionSuspended())[1]

    assert err.count("\u2502 ") == lines
    assert "more character" in err if more else "more character" not in err
    assert more in err
    assert len(err) < 5000


def test_a_result_goes_to_stdout_alone() -> None:
    state = progress_of(log(f.ExecutionCompleted({"paid": True}))).state
    out, err = io.StringIO(), io.StringIO()

    Teller(Screen(out, err), Hints(RUN), lambda: NOW).outcome(state, outcome_of(state, {"paid": True}))

    assert out.getvalue() == '{\n  "paid": true\n}\n'
    assert err.getvalue() == "✓ refund-42 completed in 1s\n"


def test_a_result_without_a_plain_form_is_given_as_the_log_has_it() -> None:
    state = progress_of(log(f.ExecutionCompleted({"$float": "nan"}))).state

    assert outcome_json(state, outcome_of(state, float("nan")))["result"] == {"$float": "nan"}


def test_a_person_reads_a_result_without_a_plain_form_without_its_tags() -> None:
    state = progress_of(log(f.ExecutionCompleted({"n": {"$float": "nan"}, "pair": {"$tuple": [1, 2]}}))).state
    out, err = io.StringIO(), io.StringIO()

    Teller(Screen(out, err), Hints(RUN), lambda: NOW).outcome(state, outcome_of(state, {"n": float("nan")}))

    assert json.loads(out.getvalue()) == {"n": "nan", "pair": [1, 2]}


def test_the_principal_is_the_one_given_else_the_variable_else_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOM_PRINCIPAL", "ada")
    assert (principal_of("bob"), principal_of(None)) == ("bob", "ada")

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.delenv("LOOM_PRINCIPAL")
    monkeypatch.setattr("getpass.getuser", nobody)
    assert principal_of(None) == UNKNOWN


def on_a_terminal(folder: Path, *arguments: str, **environment: str) -> str:
    """Return all that the command writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "loom_cli", *arguments],
        cwd=folder,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65536):
            written += chunk
    except OSError:  # the other end was closed
        pass
    os.close(ours)
    assert process.wait(timeout=60) in (0, 1, 3)
    return written.decode()


def test_a_terminal_sees_the_tree_redrawn_and_the_authors_words_above_it(desk: Path) -> None:
    written = on_a_terminal(desk, "run", "failing", "--id", "f1")

    assert "\x1b[?25l" in written  # the cursor is hidden while the tree is drawn,
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h")  # and shown again
    assert "a word of the author's" in written
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written)
    assert "✓ assess" in plain
    assert "✗ fail" in plain
    assert "f1 failed in " in plain


@pytest.mark.parametrize(("name", "value", "moves"), [("TERM", "dumb", False), ("NO_COLOR", "1", True)])
def test_a_terminal_is_drawn_no_more_than_it_wants(desk: Path, name: str, value: str, moves: bool) -> None:
    written = on_a_terminal(desk, "run", "failing", "--id", "f1", **{name: value})

    assert ("\x1b[?25l" in written) == moves
    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", written) is None
