"""What is shown of runs that are cancelled, are being cancelled, or are paused; and deadlines from the command."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from loom.core.ids import ExecutionId
from loom.plugins.sqlite.storage import SqliteStorage
from loom.spi.event_store import cancel_key
from tests.loom_cli.projects import Ended, loom


def waiting(desk: Path, flow: str = "tidying", *arguments: str) -> Ended:
    done = loom("run", flow, "--id", "x1", *arguments, folder=desk)
    assert done.status == 3, done.err
    return done


def ask_for_cancellation(desk: Path, name: str) -> None:
    """Put a request to cancel into the lane, as a process does that drives nothing."""

    async def insert() -> None:
        storage = SqliteStorage(desk / ".loom" / "loom.db")
        try:
            row = await storage.row(ExecutionId(name))
            assert row is not None
            body, key = b'{"cause":"request"}', cancel_key(1)
            await storage.insert(row.execution_id, row.incarnation, kind="cancel", key=key, at=1, body=body)
        finally:
            await storage.close()

    asyncio.run(insert())


def test_an_error_of_the_clean_up_is_told(desk: Path) -> None:
    waiting(desk, "tidying", "--input", "false")

    done = loom("cancel", "x1", folder=desk)

    assert done.status == 0
    assert "  its clean-up failed\n" in done.err
    assert "ValueError: cannot tidy up" in done.err


@pytest.mark.proves("RNG-12")
def test_a_run_that_takes_longer_than_its_deadline_is_cancelled(desk: Path) -> None:
    done = loom("run", "nap", "--input", "60", "--id", "x1", "--wait", "inf", "--deadline", "0.2", folder=desk)

    assert done.status == 1
    assert "cancelled since its time was over; its clean-up has time until " in done.err
    assert "x1 cancelled in " in done.err


def test_show_says_that_a_run_is_being_cancelled_and_until_when(desk: Path) -> None:
    waiting(desk, "guarded")

    asked = loom("cancel", "x1", "--grace", "3600", "--reason", "stop", folder=desk)
    shown = loom("show", "x1", folder=desk)

    assert asked.status == 3
    assert shown.out.startswith("x1  suspended, cancelling\n")
    assert re.search(r"^cancelled by ada: stop, grace until .* \(in 1h\)$", shown.out, re.MULTILINE)
    assert "sign  waits" in shown.out
    [row] = json.loads(loom("ps", "--json", folder=desk).out)
    assert (row["status"], row["cancelling"]) == ("suspended", True)
    assert json.loads(loom("show", "x1", "--json", folder=desk).out)["cancelling"] is True
    assert re.search(r"^x1 +guarded +cancelling ", loom("ps", folder=desk).out, re.MULTILINE)


@pytest.mark.proves("RNG-12")
def test_ps_says_that_a_run_is_being_cancelled_by_its_deadline(desk: Path) -> None:
    late = loom("run", "guarded", "--id", "x1", "--deadline", "0.2", "--wait", "1", folder=desk)
    patient = loom("run", "guarded", "--id", "y1", "--deadline", "3600", folder=desk)
    assert (late.status, patient.status) == (3, 3), (late.err, patient.err)

    listed, rows = loom("ps", folder=desk).out, json.loads(loom("ps", "--json", folder=desk).out)

    assert re.search(r"^x1 +guarded +cancelling ", listed, re.MULTILINE)
    assert re.search(r"^y1 +guarded +suspended ", listed, re.MULTILINE)
    assert {row["id"]: (row["status"], row["cancelling"]) for row in rows} == {
        "x1": ("suspended", True),
        "y1": ("suspended", False),
    }
    assert json.loads(loom("show", "x1", "--json", folder=desk).out)["cancelling"] is True


@pytest.mark.proves("RNG-11")
def test_a_request_to_cancel_that_waits_in_the_lane_is_told_and_resume_goes_on_with_it(desk: Path) -> None:
    waiting(desk)
    ask_for_cancellation(desk, "x1")

    listed, shown = loom("ps", folder=desk), loom("show", "x1", "--json", folder=desk)
    resumed = loom("resume", "x1", folder=desk)

    assert re.search(r"^x1 +tidying +cancelling ", listed.out, re.MULTILINE)
    assert [json.loads(shown.out)[name] for name in ("status", "cancelling", "cancel")] == ["suspended", True, None]
    assert resumed.status == 1
    assert "x1 cancelled in " in resumed.err
    assert json.loads(loom("show", "x1", "--json", folder=desk).out)["cancelling"] is False


@pytest.mark.proves("RNG-11")
def test_an_answer_to_a_run_whose_cancellation_waits_in_the_lane_comes_too_late(desk: Path) -> None:
    waiting(desk)
    ask_for_cancellation(desk, "x1")

    answered = loom("resume", "x1", "--answer", "true", folder=desk)

    assert answered.status == 1, answered.err
    assert "x1 cancelled in " in answered.err


def test_show_ps_and_logs_tell_what_is_cancelled_or_paused(desk: Path) -> None:
    waiting(desk, "tidying", "--input", "false")
    loom("cancel", "x1", "--reason", "stop", folder=desk)
    loom("run", "tidying", "--id", "y1", folder=desk)
    loom("pause", "y1", "--reason", "audit", folder=desk)

    cancelled, paused = (loom("show", run, folder=desk).out for run in ("x1", "y1"))
    logs = loom("logs", "x1", folder=desk).out

    assert cancelled.startswith("x1  cancelled\n")
    assert "\ncancelled by ada: stop\n" in cancelled
    assert "\nits clean-up failed\n" in cancelled
    assert paused.startswith("y1  paused\n")
    assert "\npaused by ada: audit\n" in paused
    assert "  try   loom unpause y1\n" in paused
    assert re.search(r"EXECUTION_CANCEL_REQUESTED +stop, by ada\n", logs)
    assert re.search(r"EXECUTION_CANCELLED +stop, .*ValueError: cannot tidy up", logs)
    listed = loom("ps", folder=desk).out
    assert re.search(r"^x1 +tidying +cancelled", listed, re.MULTILINE)
    assert re.search(r"^y1 +tidying +paused", listed, re.MULTILINE)
