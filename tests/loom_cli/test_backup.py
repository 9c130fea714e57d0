"""`loom backup`: what it says, and what it refuses."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from loom_cli.exits import ExitCode
from tests.loom_cli.conftest import Project
from tests.loom_cli.projects import loom, tree


def test_it_copies_a_store_and_says_what_is_in_the_copy(project: Project) -> None:
    done = loom("backup", "copy.db", folder=project.folder)

    with closing(sqlite3.connect(project.folder / "copy.db")) as raw:
        [(runs, events)] = raw.execute("SELECT count(*), sum(length) FROM executions")
    assert (done.status, done.err) == (ExitCode.DONE, "")
    assert done.out == f"copied {runs} logs ({events} events) to copy.db\n"


def test_its_json(project: Project) -> None:
    done = loom("backup", "copy.db", "--json", folder=project.folder)

    copy = project.folder / "copy.db"
    assert done.json["store"] == f"sqlite:{project.store}"
    assert (done.json["file"], done.json["bytes"]) == (str(copy), copy.stat().st_size)
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    [section] = [each for each in page.split("\n## ") if each.startswith("`loom backup`")]
    assert {field for field in done.json if f"`{field}`" not in section} == set()


def test_nothing_is_written_over_and_a_store_that_is_not_there_is_told(project: Project, tmp_path: Path) -> None:
    loom("backup", "copy.db", folder=project.folder)
    before = tree(tmp_path)

    again = loom("backup", "copy.db", folder=project.folder)
    missing = loom("backup", "other.db", "--store", "none.db", folder=project.folder)
    nowhere = loom("backup", "no/such/folder.db", folder=project.folder)

    assert [done.status for done in (again, missing, nowhere)] == [ExitCode.USAGE, ExitCode.NOT_FOUND, ExitCode.USAGE]
    assert "is there already" in again.err
    assert "there is no database" in missing.err
    assert "there is no folder" in nowhere.err
    assert tree(tmp_path) == before


def test_a_store_in_postgres_is_left_to_its_own_tools(tmp_path: Path) -> None:
    done = loom("backup", "copy.db", "--store", "postgresql://ada:secret@nowhere/loom", folder=tmp_path)

    assert done.status == ExitCode.USAGE
    assert "pg_dump" in done.err
    assert "secret" not in done.err
