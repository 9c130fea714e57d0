"""`loom bundle`: what it writes and says, and how every reading command reads it as it read the store."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from loom_cli.exits import ExitCode
from tests.forked import Forks
from tests.loom_cli.conftest import Project
from tests.loom_cli.projects import tree
from tests.loom_cli.terminal import Ended, loom, process


def ids(project: Project) -> list[str]:
    with closing(sqlite3.connect(project.store)) as raw:
        return [id for (id,) in raw.execute("SELECT id FROM executions WHERE link = 1 ORDER BY id")]


def bundled(project: Project, *more: str) -> Path:
    """Return a folder in which there is nothing but a bundle of all runs of the story."""
    elsewhere = project.folder.parent / f"{project.folder.name}-elsewhere"
    elsewhere.mkdir()
    done = loom("bundle", *ids(project), "-o", str(elsewhere / "all.loombundle"), *more, folder=project.folder)
    assert done.status == ExitCode.DONE, done.err
    return elsewhere


CLAIM = ("--set", "order=A-1", "--set", "amount=900")

READING = [
    ("ps", "--json"),
    ("ps",),
    ("ps", "--where", "status=failed"),
    ("gates", "--json"),
    *((verb, id, "--json") for verb in ("show", "logs") for id in ("refund-41", "refund-42")),
]


def without_store(done: Ended, project: Project, elsewhere: Path) -> str:
    there = str(elsewhere / "all.loombundle")
    return done.out.replace(f" --store {there}", "").replace(there, "STORE").replace(str(project.store), "STORE")


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_what_reads_a_store_reads_a_bundle_as_the_store_it_is_of(command: tuple[str, ...], project: Project) -> None:
    elsewhere = bundled(project)

    here = loom(*command, folder=project.folder, now_ms=project.now_ms)
    there = loom(*command, "--store", str(elsewhere / "all.loombundle"), folder=elsewhere, now_ms=project.now_ms)

    assert here.status == there.status == ExitCode.DONE, there.err
    assert without_store(there, project, elsewhere) == without_store(here, project, elsewhere)


def test_every_run_is_shown_as_it_is_in_the_store(project: Project) -> None:
    elsewhere = bundled(project)

    for id in ids(project):
        here = loom("show", id, "--json", folder=project.folder, now_ms=project.now_ms)
        there = loom("show", id, "--json", "--store", "all.loombundle", folder=elsewhere, now_ms=project.now_ms)
        assert there.json | {"unread": None} == here.json | {"unread": None}


def test_it_says_what_it_wrote(project: Project) -> None:
    done = loom("bundle", "refund-42", folder=project.folder)

    assert done.status == ExitCode.DONE
    assert done.out.startswith("wrote 1 log (")
    assert done.out.endswith(" events) to refund-42.loombundle\n")


def test_its_json(project: Project) -> None:
    done = loom("bundle", "refund-42", "--json", folder=project.folder)

    assert done.json["file"] == str(project.folder / "refund-42.loombundle")
    assert (done.json["runs"], done.json["logs"], done.json["redacted"]) == (["refund-42"], 1, False)
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    [section] = [each for each in page.split("\n## ") if each.startswith("`loom bundle`")]
    assert {field for field in done.json if f"`{field}`" not in section} == set()


def test_nothing_is_written_over_unless_it_is_said(project: Project) -> None:
    loom("bundle", "refund-42", folder=project.folder)
    before = tree(project.folder)

    again = loom("bundle", "refund-41", "-o", "refund-42.loombundle", folder=project.folder)
    nowhere = loom("bundle", "refund-42", "-o", "no/such/x.loombundle", folder=project.folder)
    nobody = loom("bundle", "nobody", folder=project.folder)
    unchanged = tree(project.folder) == before
    forced = loom("bundle", "refund-41", "-o", "refund-42.loombundle", "--force", folder=project.folder)

    assert [done.status for done in (again, nowhere, nobody)] == [ExitCode.USAGE, ExitCode.USAGE, ExitCode.NOT_FOUND]
    assert "error[file-there]" in again.err
    assert "is there already" in again.err
    assert "there is no folder" in nowhere.err
    assert unchanged
    assert forced.status == ExitCode.DONE


def test_it_goes_to_a_pipe_as_it_goes_to_a_file(project: Project) -> None:
    loom("bundle", "refund-42", folder=project.folder)

    piped = subprocess.run(
        [sys.executable, "-m", "loom_cli", "bundle", "refund-42", "-o", "-"],
        cwd=project.folder,
        capture_output=True,
        check=True,
    )

    assert piped.stdout == (project.folder / "refund-42.loombundle").read_bytes()
    assert loom("bundle", "refund-42", "-o", "-", "--json", folder=project.folder).status == ExitCode.USAGE


@pytest.mark.parametrize(
    "command",
    [
        ("resume", "C-1", "--set", "approved=true"),
        ("fork", "C-1", "--at", "0"),
        ("cancel", "C-1"),
        ("worker", "--until-idle"),
    ],
    ids=" ".join,
)
def test_whatever_would_write_to_it_is_refused_in_words(command: tuple[str, ...], desk: Path, forks: Forks) -> None:
    assert process("run", "refund", "--id", "C-1", *CLAIM, folder=desk, forks=forks).status == ExitCode.WAITING
    assert process("bundle", "C-1", folder=desk, forks=forks).status == ExitCode.DONE
    before = tree(desk)

    done = process(*command, "--store", "C-1.loombundle", folder=desk, forks=forks)

    assert done.status == ExitCode.FAILED
    assert "a bundle is for looking" in done.err
    assert "loom import" in done.err
    assert tree(desk) == before


def test_the_app_at_hand_replays_it_whatever_its_own_store_is(desk: Path, forks: Forks) -> None:
    process("run", "refund", "--id", "C-1", *CLAIM, folder=desk, forks=forks)
    process("bundle", "C-1", folder=desk, forks=forks)

    replayed = process("check", "replay", "C-1", "--store", "C-1.loombundle", folder=desk, forks=forks)
    deployed = process("deploy", "check", "--store", "bundle:C-1.loombundle", folder=desk, forks=forks)
    backed_up = process("backup", "x.db", "--store", "C-1.loombundle", folder=desk, forks=forks)

    assert replayed.status == deployed.status == ExitCode.DONE, replayed.err + deployed.err
    assert backed_up.status == ExitCode.USAGE
    assert "a bundle is one file" in backed_up.err


def test_it_says_on_a_terminal_how_far_it_is(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loom_cli.bundling._EVERY_S", 0.0)

    shown = loom("bundle", "refund-42", folder=project.folder, terminal=True)
    piped = loom("bundle", "refund-41", folder=project.folder)

    assert "events so far" in shown.err
    assert piped.err == ""


def test_a_deploy_check_opens_it_as_a_store_and_not_as_a_folder(project: Project) -> None:
    done = loom("deploy", "check", "--bundle", "x.loombundle", folder=project.folder)

    assert done.status == ExitCode.USAGE
    assert "--store x.loombundle" in done.err


def test_a_bundle_is_no_archive(project: Project) -> None:
    loom("bundle", "refund-42", folder=project.folder)

    done = loom("logs", "refund-42", "--archived", "--archive", "refund-42.loombundle", folder=project.folder)

    assert done.status == ExitCode.USAGE
    assert "is a bundle, and no archive" in done.err


def test_what_is_in_an_archive_and_so_left_out_is_counted(project: Project) -> None:
    moved = loom("compact", "refund-42", "--archive", "archive.db", "--json", folder=project.folder).json["events"]

    without = loom("bundle", "refund-42", folder=project.folder)
    whole = loom("bundle", "refund-42", "--archive", "archive.db", "-o", "w.loombundle", folder=project.folder)
    page = loom("inspect", "refund-42", "--html", "r.html", folder=project.folder)

    assert f"{moved} events are in an archive, and not in it: --archive URL puts them in\n" in without.err
    assert "archive" not in whole.err
    assert f"{moved} events are in an archive, and not on the page" in page.err
