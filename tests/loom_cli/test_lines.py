"""Runs that may not begin yet, as the command shows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loom.core.ids import ExecutionId
from loom.core.outcome import Outcome, OutcomeStatus
from loom.services.worker import Report
from loom.spi.admission_store import Admission
from loom_cli import driving
from loom_cli.commands.ps import line_words
from loom_cli.working import Parked, report_json, report_words
from tests.loom_cli.projects import loom

NOW = 1_800_000_000_000
APP = """
from datetime import timedelta

import loom


@loom.flow(starts=loom.Starts(concurrency=loom.Limit(1)))
async def ship(ctx: loom.Context, order: str) -> str:
    return await ctx.suspend("packed", expects=str)


@loom.flow(starts=loom.Starts(debounce=loom.Debounce(timedelta(hours=1))))
async def draft(ctx: loom.Context) -> str:
    return "sent"


@loom.flow(starts=loom.Starts(dedupe="id"))
async def invoice(ctx: loom.Context, order: dict) -> str:
    return await ctx.suspend("approved", expects=str)


app = loom.define_config(flows=[ship, draft, invoice], storage=loom.sqlite_storage())
"""


@pytest.fixture
def yard(desk: Path) -> Path:
    (desk / "app.py").write_text(APP, encoding="utf-8")
    for name in ("s1", "s2", "s3"):
        loom("run", "ship", "--input", '"a"', "--id", name, folder=desk)
    return desk


@pytest.mark.proves("BEY-15")
def test_the_listing_says_what_each_waits_for_and_how_many_stand_ahead(yard: Path) -> None:
    listed = loom("ps", folder=yard)
    told = loom("ps", "--json", folder=yard)

    assert [line.split()[-1] for line in listed.out.splitlines()[1:]] == ["ahead", "place", "packed"]
    assert "a place, 1 ahead" in listed.out
    lines = [row["line"] for row in told.json]
    assert lines == [
        {"stage": "line", "ahead": 1, "wake_at": None},
        {"stage": "line", "ahead": 0, "wake_at": None},
        None,
    ]


@pytest.mark.proves("BEY-15")
def test_one_run_is_shown_with_why_it_waits(yard: Path) -> None:
    shown = loom("show", "s2", folder=yard)
    told = loom("show", "s2", "--json", folder=yard)
    logged = loom("logs", "s2", folder=yard)

    assert "It waits for a place among 1 run of ship; then a driver goes on:" in shown.out
    assert told.json["why"] == "a place among 1 run of ship"
    assert "EXECUTION_SUSPENDED" in logged.out
    assert "waits for a place among 1 run of ship" in logged.out


@pytest.mark.proves("BEY-15")
def test_the_command_that_ends_a_run_goes_on_with_the_next(yard: Path) -> None:
    done = loom("resume", "s1", "--answer", '"ok"', folder=yard)

    listed = loom("ps", folder=yard)

    assert "driving s2 as well" in done.err
    assert [line.split()[-1] for line in listed.out.splitlines()[1:3]] == ["place", "packed"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (Admission("quiet", NOW + 20_000), "a quiet time, in 20s"),
        (Admission("quiet", NOW + 20_000, newer=ExecutionId("b")), "a driver"),
        (Admission("line"), "a place"),
        (Admission("line", ahead=3), "a place, 3 ahead"),
        (Admission("turn", NOW + 60_000, 2), "its turn, in 1m"),
        (Admission("turn", NOW), "a driver"),
    ],
)
def test_a_place_in_line_is_told_in_words(line: Admission, words: str) -> None:
    assert line_words(line, NOW) == words


def test_a_superseded_run_says_by_whom(desk: Path) -> None:
    (desk / "app.py").write_text(APP, encoding="utf-8")
    older = loom("run", "draft", "--id", "d1", folder=desk)
    loom("run", "draft", "--id", "d2", folder=desk)

    shown = loom("show", "d1", folder=desk)
    logged = loom("logs", "d1", folder=desk)

    assert "d1 waits for 1h without another start of draft until" in older.err
    assert "cancelled" in shown.out
    assert "d2 was started before it began" in logged.out


@pytest.mark.proves("BEY-15")
def test_a_second_start_for_the_same_thing_tells_where_the_first_stands(desk: Path) -> None:
    (desk / "app.py").write_text(APP, encoding="utf-8")
    first = loom("run", "invoice", "--set", "id=A-1", folder=desk)

    again = loom("run", "invoice", "--set", "id=A-1", folder=desk)
    told = loom("run", "invoice", "--set", "id=A-1", "--json", folder=desk)
    named = loom("run", "invoice", "--set", "id=A-1", "--id", "mine", folder=desk)

    assert first.err.startswith("invoice-A-1 started\n")
    assert "invoice-A-1 was started before; it stands so:" in again.err
    assert (first.status, again.status) == (3, 3)
    assert (json.loads(told.out)["id"], json.loads(told.out)["status"]) == ("invoice-A-1", "suspended")
    assert named.status == 2
    assert "runs of invoice are named by their id, not mine" in named.err


@pytest.mark.proves("NOT-01")
def test_who_starts_more_than_are_driven_is_told_what_was_counted(yard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "PILE", 2)

    told = [loom("run", "invoice", "--set", f"id={number}", "--detach", folder=yard).err for number in range(4)]

    assert [("more than 2 runs of invoice are due" in err) for err in told] == [False, False, True, True]
    assert "(parked runs whose time has come)" in told[-1]


@pytest.mark.proves("NOT-01")
def test_a_worker_says_in_words_that_runs_pile_up() -> None:
    report = Report("crowded", flow="ship")

    words, _ = report_words(report)

    assert words.startswith("more than 2,000 runs of ship are due and wait for a driver")
    assert "say with loom.Starts how many there may be" in words
    assert (report_json(report, NOW)["did"], report_json(report, NOW)["flow"]) == ("crowded", "ship")


def test_a_worker_says_in_words_whose_runs_it_leaves() -> None:
    words, _ = report_words(Report("unknown", flow="refund"))

    assert words == "runs of refund wait, and this app has no such flow: they are left to a worker that has it"


def test_a_worker_says_once_that_a_run_is_parked_though_it_looks_at_it_again() -> None:
    parked, lines = Parked(), list[bool]()
    looks: list[tuple[OutcomeStatus, int]] = [("suspended", 4), ("suspended", 4), ("suspended", 6), ("completed", 8)]
    for status, length in [*looks, looks[0]]:
        outcome: Outcome[None] = Outcome(execution_id=ExecutionId("w-1"), status=status, length=length)
        lines.append(parked.is_told(Report("parked", execution_id="w-1", outcome=outcome)))

    assert lines == [False, True, False, False, False]
