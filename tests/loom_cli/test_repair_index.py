"""`loom repair index`: what it tells, what it changes, and how it ends."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from loom_cli.exits import ExitCode
from tests.loom_cli.conftest import Project
from tests.loom_cli.projects import Ended, loom


def spoil(project: Project, statement: str) -> None:
    with closing(sqlite3.connect(project.store, isolation_level=None)) as raw:
        raw.execute(statement)


def status_of(project: Project, run: str) -> str:
    with closing(sqlite3.connect(project.store)) as raw:
        return str(raw.execute("SELECT status FROM executions WHERE id = ?", (run,)).fetchone()[0])


def repair(project: Project, *options: str) -> Ended:
    return loom("repair", "index", *options, folder=project.folder)


def test_what_differs_is_told_and_put_right(project: Project) -> None:
    was = status_of(project, "refund-41")
    spoil(project, "UPDATE executions SET status = 'nonsense', gates = '[]' WHERE id = 'refund-41'")

    would = repair(project, "refund-41", "--dry-run")
    still = status_of(project, "refund-41")
    did = repair(project)
    again = repair(project)

    assert (would.status, did.status, again.status) == (ExitCode.DONE, ExitCode.DONE, ExitCode.DONE)
    assert "refund-41  wrong" in would.out
    assert f"    status: 'nonsense' should be '{was}'" in would.out
    assert (still, status_of(project, "refund-41")) == ("nonsense", was)
    assert "refund-41  repaired" in did.out
    assert again.out.endswith("all are right\n")


def test_its_json_says_what_was_and_what_should_be(project: Project) -> None:
    was = status_of(project, "refund-41")
    spoil(project, "UPDATE executions SET status = 'nonsense' WHERE id = 'refund-41'")

    done = repair(project, "--json")

    [run] = done.json["runs"]
    assert run == {
        "id": "refund-41",
        "became": "repaired",
        "differences": {"status": {"was": "nonsense", "should": was}},
        "error": None,
    }
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    [section] = [each for each in page.split("\n## ") if each.startswith("`loom repair index`")]
    assert {field for field in (*done.json, *run, "was", "should") if f"`{field}`" not in section} == set()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE executions SET parent = 'nobody' WHERE id = 'refund-41'", "parent: 'nobody' should be ''"),
        (
            "UPDATE events SET payload = x'7b' WHERE run = (SELECT run FROM executions WHERE id = 'refund-41')",
            "cannot be read",
        ),
    ],
)
def test_what_stays_wrong_ends_with_1(project: Project, statement: str, words: str) -> None:
    spoil(project, statement)

    done = repair(project, "refund-41")

    assert done.status == ExitCode.FAILED
    assert words in done.out


def test_what_is_hostile_is_shown_harmlessly(project: Project) -> None:
    spoil(project, "UPDATE executions SET status = char(27) || '[2Jgone' WHERE id = 'refund-41'")

    done = repair(project, "refund-41")

    assert "\x1b" not in done.out


def test_a_run_or_a_store_that_is_not_there_is_told(project: Project) -> None:
    assert repair(project, "nobody").status == ExitCode.NOT_FOUND
    assert repair(project, "--store", "none.db").status == ExitCode.NOT_FOUND
    assert not (project.folder / "none.db").exists()
