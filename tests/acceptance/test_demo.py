"""`make demo`, as somebody runs it who has just cloned the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.house import ROOT

DEMO: Final = ROOT / "examples" / "refund_desk" / "demo.py"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo tells somebody whose home is empty, and who stands in another folder."""
    home, elsewhere = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("elsewhere")
    done = demo(home, elsewhere)

    assert done.returncode == 0, done.stdout
    assert [*home.iterdir(), *elsewhere.iterdir()] == [], "the demo cleans up"
    return done.stdout


def demo(home: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {"HOME": str(home), "TMPDIR": str(home), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, str(DEMO)],
        cwd=folder,
        env=clean | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )


def answer_to(command: str, told: str) -> str:
    """Return what the first command that begins so wrote, up to the next one."""
    _, found, rest = told.partition(f"\n$ {command}")
    assert found, f"the demo never typed {command}"
    return rest.partition("\n$ ")[0]


def test_no_line_is_a_traceback_or_coloured(told: str) -> None:
    assert "Traceback" not in told
    assert "\x1b" not in told


@pytest.mark.proves("PRN-04")
def test_the_run_outlives_its_process_and_stops_at_a_gate(told: str) -> None:
    assert "is dead (SIGKILL)" in answer_to("REFUND_DESK_PAUSE_AT='before assess_risk' loom run", told)
    assert "assess_risk" in answer_to("loom show C-101", told)

    parked = answer_to("loom resume C-101", told)

    assert "approval" in parked
    assert "loom resume C-101" in parked, "it says how to go on"


def test_the_question_shows_why_it_is_asked(told: str) -> None:
    assert "a claim was refused before" in answer_to("loom gates", told)


def test_the_mail_server_is_asked_until_it_answers(told: str) -> None:
    assert len(re.findall("STEP_ATTEMPT_FAILED", answer_to("loom logs C-101", told))) == 2


@pytest.mark.proves("RNG-14", "EFF-16")
@pytest.mark.parametrize(("claim", "verdict"), [("C-128", "done"), ("C-102", "retry")])
def test_a_payment_that_died_waits_for_a_verdict(told: str, claim: str, verdict: str) -> None:
    assert "in doubt" in answer_to(f"loom resume {claim}", told)
    assert "refunded" in answer_to(f"loom resolve {claim} pay --as {verdict}", told)


def test_money_moved_exactly_once_per_claim(told: str) -> None:
    *_, ledger, last = told.rsplit("\n$ ", maxsplit=1)[-1].strip().split("\n\n")

    assert sorted(re.findall(r"C-\d{3}", ledger)) == ["C-101", "C-102", "C-128"]
    assert last.endswith("the money moved exactly once for each claim.")
