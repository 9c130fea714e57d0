"""`loom import`: what it says, and what becomes of a run that was carried elsewhere."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from loom_cli.exits import ExitCode
from loom_cli.importing import Bars
from loom_cli.screen import Screen
from tests.loom_cli.conftest import Project
from tests.loom_cli.projects import loom as at_the_desk
from tests.loom_cli.projects import tree
from tests.loom_cli.terminal import loom

CLAIM = ("--set", "order=A-1", "--set", "amount=900")


@pytest.fixture
def carried(project: Project) -> Path:
    """An empty folder with a bundle of a run that waits in it."""
    elsewhere = project.folder.parent / f"{project.folder.name}-elsewhere"
    elsewhere.mkdir()
    done = loom("bundle", "refund-42", "-o", str(elsewhere / "run.loombundle"), folder=project.folder)
    assert done.status == ExitCode.DONE, done.err
    return elsewhere


@pytest.mark.proves("BEY-10")
def test_a_run_is_carried_to_an_empty_folder_and_opened_forked_and_deleted(project: Project, carried: Path) -> None:
    opened = loom("show", "refund-42", "--json", "--store", "run.loombundle", folder=carried, now_ms=project.now_ms)
    at_home = loom("show", "refund-42", "--json", folder=project.folder, now_ms=project.now_ms)

    imported = loom("import", "run.loombundle", "--as", "ada", folder=carried)
    length = opened.json["sequence"] + 1
    forked = loom("fork", "refund-42", "--at", str(length - 1), "--id", "again", folder=carried)
    logs = loom("logs", "refund-42", "--json", folder=carried)
    fork = loom("show", "again", "--json", folder=carried)
    deleted = loom("retention", "run", "--ttl", "1m", "--json", folder=carried, now_ms=10**15)
    shutil.rmtree(carried / ".loom")

    assert opened.json | {"unread": None} == at_home.json | {"unread": None}
    assert (imported.status, imported.out) == (
        ExitCode.DONE,
        f"brought 1 log ({length} events) into sqlite:{carried / '.loom' / 'loom.db'}\n",
    )
    assert imported.err == "refund-42 had not ended: here it ends as imported, and a fork of it goes on\n"
    assert '"cause": "imported"' in logs.out.splitlines()[-1]
    assert logs.out.splitlines()[:-1] == loom("logs", "refund-42", "--json", folder=project.folder).out.splitlines()
    assert forked.status == ExitCode.DONE, forked.err
    assert fork.json["status"] == "forked"
    assert deleted.status == ExitCode.DONE, deleted.err
    assert [file.name for file in carried.iterdir()] == ["run.loombundle"]


def test_to_bring_it_in_again_is_nothing_to_do(carried: Path) -> None:
    loom("import", "run.loombundle", folder=carried)
    before = tree(carried)

    again = loom("import", "run.loombundle", "--json", folder=carried)

    assert [log["became"] for log in again.json["logs"]] == ["there"]
    assert again.err == ""
    after = tree(carried)
    assert after.keys() == before.keys()


def test_a_long_one_says_how_far_it_has_come_and_json_does_not() -> None:
    out, err = io.StringIO(), io.StringIO()
    loud, quiet = Bars(Screen(out, err), quiet=False), Bars(Screen(out, err), quiet=True)

    for bars in (loud, quiet):
        bars.begin(100_000)
        for phase in ("reading", "writing"):
            for _ in range(4):
                bars.told(phase, 25_000)
        bars.end()

    assert (out.getvalue(), err.getvalue().splitlines()) == (
        "",
        [f"{did} {done:,} of 100,000" for did in ("read", "wrote") for done in (25_000, 50_000, 75_000)],
    )


def test_its_json(carried: Path) -> None:
    done = loom("import", "run.loombundle", "--json", folder=carried)

    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    [section] = [each for each in page.split("\n## ") if each.startswith("`loom import`")]
    fields = [*done.json, *done.json["logs"][0]]
    assert {field for field in fields if f"`{field}`" not in section} == set()
    assert done.json["logs"][0]["ended_here"] is True


def test_a_bundle_that_is_not_there_or_is_none_makes_no_store(tmp_path: Path) -> None:
    (tmp_path / "text.loombundle").write_text("hello")

    missing = loom("import", "none.loombundle", folder=tmp_path)
    none = loom("import", "text.loombundle", folder=tmp_path)

    assert (missing.status, none.status) == (ExitCode.NOT_FOUND, ExitCode.USAGE)
    assert "there is no such bundle" in missing.err
    assert "error[not-a-bundle]" in none.err
    assert "it is no bundle" in none.err
    assert [file.name for file in tmp_path.iterdir()] == ["text.loombundle"]


def test_a_redacted_one_is_for_looking_only(project: Project, carried: Path) -> None:
    made = loom("bundle", "refund-42", "--redact", "claim", "-o", str(carried / "r.loombundle"), folder=project.folder)

    shown = loom("show", "refund-42", "--store", "r.loombundle", folder=carried)
    imported = loom("import", "r.loombundle", folder=carried)
    pattern = loom("bundle", "refund-42", "--redact-matching", "refund-4", "--force", folder=project.folder)
    bad = loom("bundle", "refund-42", "--redact-matching", "(", folder=project.folder)
    empty = loom("bundle", "refund-42", "--redact", "a..b", folder=project.folder)

    assert "values were left out" in made.err
    assert "[redacted]" in shown.out
    assert (imported.status, "for looking only" in imported.err) == (ExitCode.FAILED, True)
    assert [done.status for done in (pattern, bad, empty)] == [ExitCode.USAGE] * 3


def test_a_bundle_is_not_brought_into_a_bundle(carried: Path) -> None:
    shutil.copy(carried / "run.loombundle", carried / "other.loombundle")

    done = loom("import", "run.loombundle", "--store", "other.loombundle", folder=carried)

    assert done.status == ExitCode.USAGE
    assert "takes in no logs" in done.err


def test_what_is_to_be_done_with_a_run_in_a_bundle_begins_with_the_import(desk: Path) -> None:
    at_the_desk("run", "failing", "--id", "broken-1", folder=desk)
    assert at_the_desk("bundle", "broken-1", folder=desk).status == ExitCode.DONE

    refused = at_the_desk("resume", "broken-1", "--store", "broken-1.loombundle", folder=desk)

    assert "loom import broken-1.loombundle brings it into a store" in refused.err
    assert "loom retry" not in refused.err
