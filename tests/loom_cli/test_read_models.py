"""`loom rows`: rows are listed and shown without the app, brought up to date with it, and erased for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from loom_cli.exits import ExitCode
from tests.loom_cli.projects import loom
from tests.loom_cli.terminal import process

MODELLED = """
from typing import Any

import loom
from app import app as plain


@loom.read_model
def totals(row: dict[str, Any] | None, event: loom.EventEnvelope[Any]) -> dict[str, Any] | None:
    if event.type == "EXECUTION_STARTED":
        return {"flow": event.payload.flow, "said": "\\x1b[31m"}
    if event.execution_id == BAD:
        raise ValueError("no such thing")
    return row


BAD = "nobody"
app = loom.define_config(flows=list(plain.runtime.flows.values()), read_models=[totals], storage=loom.sqlite_storage())
"""


@pytest.fixture
def modelled(desk: Path) -> Path:
    """The desk with a read model, and three runs."""
    (desk / "modelled.py").write_text(MODELLED, encoding="utf-8")
    for number in range(3):
        loom("run", "hello", "--id", f"h{number}", "--attr", f"customer=c{number % 2}", folder=desk)
    return desk


def update(folder: Path, *options: str) -> list[dict[str, object]]:
    done = process("rows", "update", "--app", "modelled:app", "--json", *options, folder=folder)
    assert done.status == ExitCode.DONE, done
    return done.json  # type: ignore[no-any-return]  # JSON


def test_rows_are_brought_up_to_date_listed_and_shown(modelled: Path) -> None:
    assert "no rows of read models in sqlite:" in loom("rows", "list", folder=modelled).err
    [updated] = update(modelled)
    assert (updated["model"], updated["advanced"], updated["removed"]) == ("totals", 3, 0)
    assert update(modelled)[0]["advanced"] == 0

    [listed] = loom("rows", "list", "--json", folder=modelled).json
    shown = loom("rows", "show", "totals", "--limit", "2", "--json", folder=modelled)
    rest = loom("rows", "show", "totals", "--after", "h1", "--json", folder=modelled)
    table = loom("rows", "show", "totals", "h2", folder=modelled)

    assert (listed["model"], listed["rows"], listed["version"]) == ("totals", 3, updated["version"])
    assert [row["execution_id"] for row in shown.json] == ["h0", "h1"]
    assert shown.err == "there are more: --after h1\n"
    assert [row["execution_id"] for row in rest.json] == ["h2"]
    assert rest.json[0]["row"] == {"flow": "hello", "said": "\x1b[31m"}
    assert "\x1b" not in table.out
    assert [line.split()[0] for line in table.out.splitlines()] == ["ID", "h2"]


def test_what_is_not_there_is_told_with_what_is(modelled: Path) -> None:
    update(modelled)

    unknown = loom("rows", "show", "total", folder=modelled)
    version = loom("rows", "show", "totals", "--version", "9:", folder=modelled)
    none = loom("rows", "show", "totals", "z", folder=modelled)
    several = loom("rows", "show", "totals", "h", folder=modelled)
    missing = process("rows", "update", "total", "--app", "modelled:app", folder=modelled)

    assert "there are no rows of total in sqlite:" in unknown.err
    assert "There are totals." in unknown.err
    assert "no rows of totals 9:" in version.err
    assert (none.status, "no execution 'z'" in none.err) == (ExitCode.NOT_FOUND, True)
    assert (several.status, "'h' fits 3 executions" in several.err) == (ExitCode.USAGE, True)

    assert "no read model 'total'" in missing.err
    assert {unknown.status, version.status, missing.status} == {ExitCode.NOT_FOUND}


def test_a_run_whose_id_begins_another_is_meant_alone(modelled: Path) -> None:
    loom("run", "hello", "--id", "h10", folder=modelled)
    update(modelled)

    shown = loom("rows", "show", "totals", "h1", "--json", folder=modelled).json

    assert [row["execution_id"] for row in shown] == ["h1"]


def test_a_fold_that_raises_ends_it_with_one_and_rows_of_earlier_code_stay(modelled: Path) -> None:
    [first] = update(modelled)
    (modelled / "modelled.py").write_text(MODELLED.replace('"nobody"', '"h1"'), encoding="utf-8")

    done = process("rows", "update", "--app", "modelled:app", folder=modelled)
    versions = [each["version"] for each in loom("rows", "list", "--json", folder=modelled).json]

    assert done.status == ExitCode.FAILED
    assert done.out == "totals: 2 rows went forward\n"
    assert "the read model totals stops at event 1 of h1: ValueError: no such thing" in done.err
    assert first["version"] in versions
    assert len(versions) == 2
    (modelled / "modelled.py").write_text(MODELLED.replace('"nobody"', '"mended"'), encoding="utf-8")
    assert update(modelled)[0]["removed"] == 5
    assert len(loom("rows", "list", "--json", folder=modelled).json) == 1


@pytest.mark.proves("STO-11")
def test_what_is_erased_is_gone_for_good_and_nothing_else_is(modelled: Path) -> None:
    update(modelled)
    where = ("--where", 'attr.customer="c0"')

    planned = loom("rows", "erase", *where, "--dry-run", folder=modelled)
    refused = loom("rows", "erase", *where, folder=modelled)
    erased = loom("rows", "erase", *where, "--yes", "--json", folder=modelled)

    assert planned.out == "would erase 2 rows of 2 runs; nothing was done\n"
    assert (refused.status, "does not come back" in refused.err) == (ExitCode.USAGE, True)
    assert erased.json == {"runs": 2, "rows": 2, "dry_run": False}
    assert update(modelled)[0]["advanced"] == 0
    assert update(modelled, "--afresh")[0]["advanced"] == 1
    shown = loom("rows", "show", "totals", "--json", folder=modelled)
    assert [row["execution_id"] for row in shown.json] == ["h1"]


def test_whose_rows_are_to_be_erased_is_said_in_one_way(modelled: Path) -> None:
    neither = loom("rows", "erase", "--yes", folder=modelled)
    both = loom("rows", "erase", "h1", "--where", "status=completed", "--yes", folder=modelled)
    nobody = loom("rows", "erase", "h9", "--yes", folder=modelled)

    assert (neither.status, both.status, nobody.status) == (ExitCode.USAGE, ExitCode.USAGE, ExitCode.NOT_FOUND)


def test_a_run_whose_events_are_in_an_archive_fails_nothing_and_is_made_anew_with_it(modelled: Path) -> None:
    for run in ("f0", "f1"):
        loom("run", "failing", "--id", run, folder=modelled)
    update(modelled, "--archive", "archive.db")  # which is not looked for: nothing lacks an event
    for run in ("f0", "f1"):
        assert loom("compact", run, "--archive", "archive.db", folder=modelled).status == ExitCode.DONE
    (modelled / "modelled.py").write_text(MODELLED.replace("\\x1b[31m", "hi"), encoding="utf-8")

    told = process("rows", "update", "--app", "modelled:app", folder=modelled)
    kept = loom("rows", "list", "--json", folder=modelled).json
    [lacking] = update(modelled)
    [whole] = update(modelled, "--archive", "archive.db")

    assert (told.status, told.out) == (ExitCode.DONE, "totals: 3 rows went forward\n")
    assert told.err.count("\n") == 1
    assert "rows of 2 runs cannot be made anew" in told.err
    assert "--archive URL reads them there" in told.err
    assert sorted(each["rows"] for each in kept) == [3, 5]  # those that they have of earlier code stay
    assert (lacking["advanced"], lacking["faults"], lacking["lacking"]) == (0, [], ["f0", "f1"])
    assert (whole["advanced"], whole["removed"], whole["lacking"]) == (2, 5, [])
    assert [row["row"]["said"] for row in loom("rows", "show", "totals", "--json", folder=modelled).json] == ["hi"] * 5


def test_rows_that_cannot_be_made_anew_are_thrown_away_only_where_it_is_told_to(modelled: Path) -> None:
    for run in ("f0", "f1"):
        loom("run", "failing", "--id", run, folder=modelled)
    update(modelled)
    assert loom("compact", "f0", "--archive", "archive.db", folder=modelled).status == ExitCode.DONE
    afresh = ("rows", "update", "--app", "modelled:app", "--afresh")

    refused = process(*afresh, folder=modelled)
    elsewhere = process(*afresh, "--archive", "another.db", folder=modelled)
    kept = loom("rows", "show", "totals", "--json", folder=modelled).json
    whole = process(*afresh, "--archive", "archive.db", "--json", folder=modelled)
    dropped = process(*afresh, "--drop-lacking", "--json", folder=modelled)
    again = process(*afresh, folder=modelled)

    assert (refused.status, refused.out) == (ExitCode.USAGE, "")
    assert "error[rows-lost]" in refused.err
    assert "1 run cannot be made anew, since events are in an archive: f0" in refused.err
    assert "--drop-lacking" in refused.err
    assert elsewhere.status != ExitCode.DONE
    assert len(kept) == 5
    assert whole.json[0]["advanced"] == 5
    assert (dropped.json[0]["advanced"], dropped.json[0]["lacking"]) == (4, ["f0"])
    assert (again.status, again.out) == (ExitCode.DONE, "totals: 4 rows went forward\n")


def test_what_is_dropped_is_dropped_afresh(modelled: Path) -> None:
    done = process("rows", "update", "--app", "modelled:app", "--drop-lacking", folder=modelled)

    assert (done.status, "goes with --afresh" in done.err) == (ExitCode.USAGE, True)
