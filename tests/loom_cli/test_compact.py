"""`loom compact`, and what the other commands say of a run that was compacted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.loom_cli.conftest import Project
from tests.loom_cli.projects import Ended
from tests.loom_cli.projects import loom as at_the_desk
from tests.loom_cli.test_reading_commands import Run, run

__all__ = ["run"]

RUNS = ("refund-42", "refund-41", "payout-1", "nap-1", "broken-1")
APPROVED = '{"approved": true}'


def lines(ended: Any) -> list[Any]:
    """Return what was printed as JSON, line by line."""
    assert ended.status == 0, ended
    return [json.loads(line) for line in ended.out.splitlines()]


def archived(project: Project) -> tuple[str, str]:
    return "--archive", str(project.folder / "archive.db")


@pytest.mark.proves("LIF-07")
def test_without_an_archive_nothing_is_done_and_it_is_said_what_to_do(run: Run, project: Project) -> None:
    before = project.store.read_bytes()

    ended = run("compact", "refund-42")

    assert (ended.status, ended.out) == (2, "")
    assert "error[usage]: no archive is named" in ended.err
    assert "--archive URL, LOOM_ARCHIVE, or archive in [tool.loom]" in ended.err
    assert project.store.read_bytes() == before


@pytest.mark.proves("LIF-07", "CLI-17")
def test_what_is_moved_is_printed_again_in_its_place_and_marked(run: Run, project: Project) -> None:
    whole = lines(run("logs", "refund-42", "--json"))

    moved = run("compact", "refund-42", *archived(project), "--json").json
    left = lines(run("logs", "refund-42", "--json"))
    told = lines(run("logs", "refund-42", "--archived", *archived(project), "--json"))

    assert moved["events"] == len(whole) - len(left) > 10
    assert (moved["length"], moved["through"], moved["dry_run"]) == (len(whole), len(whole) - 2, False)
    assert [each["sequence"] for each in left] == [0, len(whole) - 1]
    assert [{name: each[name] for name in each if name != "archived"} for each in told] == whole
    assert [each["sequence"] for each in told if not each["archived"]] == [0, len(whole) - 1]


@pytest.mark.proves("LIF-07")
def test_the_log_says_where_the_rest_of_it_is(run: Run, project: Project) -> None:
    run("compact", "refund-42", *archived(project), "--keep", "step_completed")

    shown, from_twelve = run("logs", "refund-42"), run("logs", "refund-42", "--from", "12")
    marked = run("logs", "refund-42", "--archived", *archived(project))

    where = "loom logs refund-42 --archived --archive URL (the one that it was moved to)"
    assert f"events 1 to 2 are in an archive: {where}\n" in shown.err
    assert "assess_risk  0.7" in shown.out  # the name of a call whose start is gone
    assert "event 0" not in from_twelve.out
    assert "events 1 to" not in from_twelve.err
    assert "assess_risk  archived," in marked.out
    assert marked.err == ""


def test_a_pattern_of_the_authors_own_kinds_stays(run: Run, project: Project) -> None:
    run("compact", "refund-42", *archived(project), "--keep", "user.*", "--keep", "DECISION_RECORDED")

    types = [each["type"] for each in lines(run("logs", "refund-42", "--json"))]

    assert types == ["EXECUTION_STARTED", "DECISION_RECORDED", "user.claim_checked", "EXECUTION_SUSPENDED"]


@pytest.mark.proves("LIF-05")
@pytest.mark.parametrize("id", RUNS)
def test_show_shows_the_same_but_for_what_only_the_events_told(id: str, run: Run, project: Project) -> None:
    before = run("show", id, "--json").json

    last = run("compact", id, *archived(project), "--json").json["through"]

    after = run("show", id, "--json").json
    assert after.pop("chain") is None
    assert after.pop("compacted") == last
    for call in (*before["steps"], *after["steps"]):
        call.pop("attempts")
    assert after == {name: before[name] for name in before if name not in ("chain", "compacted")}
    assert f"events up to {last} are in an archive" in run("show", id).out


def test_attempts_that_nothing_tells_any_more_are_unknown(run: Run, project: Project) -> None:
    before = [step["attempts"] for step in run("show", "refund-42", "--json").json["steps"]]

    run("compact", "refund-42", *archived(project))

    after = [step["attempts"] for step in run("show", "refund-42", "--json").json["steps"]]
    assert (before, after) == ([2, 1, 1, 1], [None, None, None, None])
    assert "attempts" not in run("show", "refund-42", "assess_risk").out


def test_show_at_an_event_that_is_gone_is_refused_and_names_the_archive(run: Run, project: Project) -> None:
    there = run("show", "refund-42", "--at", "7", "--json").json["digest"]
    run("compact", "refund-42", *archived(project), "--through", "7")

    gone = run("show", "refund-42", "--at", "6")

    assert gone.status == 2
    assert "the state after event 6 is not known here" in gone.err
    assert "`loom logs refund-42 --archived --archive URL` shows them" in gone.err
    assert run("show", "refund-42", "--at", "7", "--json").json["digest"] == there
    assert run("show", "refund-42", "--at", "9").status == 0
    assert run("show", "refund-42", "--at", "9", "--against", "3").status == 2
    assert run("show", "refund-42", "--at", "9", "--against", "8").status == 0


@pytest.mark.parametrize("command", [("gates",), ("gates", "--json"), ("ps", "--json"), ("inbox", "refund-42")])
def test_what_only_asks_for_the_state_prints_the_same(command: tuple[str, ...], run: Run, project: Project) -> None:
    before = run(*command)

    run("compact", "--where", "started < -0s", "--yes", *archived(project))

    assert run(*command) == before


def test_two_runs_are_compared_by_their_checkpoints(run: Run, project: Project) -> None:
    before = run("diff", "refund-41", "refund-42", "--json").json
    run("compact", "refund-41", *archived(project))

    after = run("diff", "refund-41", "refund-42", "--json").json

    assert [side["shared"] for side in after["runs"]] == [None, None]
    assert [each["id"] for each in after["differences"]] == [each["id"] for each in before["differences"]]
    assert [side["digest"] for side in after["runs"]] == [side["digest"] for side in before["runs"]]


@pytest.mark.proves("LIF-05")
def test_several_are_compacted_once_they_are_agreed_to(run: Run, project: Project) -> None:
    would = lines(run("compact", "--where", "flow=refund", "--dry-run", "--json"))
    unasked = run("compact", "--where", "flow=refund", *archived(project))
    done = lines(run("compact", "--where", "flow=refund", "--yes", *archived(project), "--json"))
    again = run("compact", "refund-41", "refund-42", *archived(project))

    assert unasked.status == 2
    assert "nobody is there to ask" in unasked.err
    assert [each["id"] for each in done] == [each["id"] for each in would]
    assert [{**each, "dry_run": False} for each in would] == done
    assert "moved 0 events and 0 requests of 2 runs to the archive" in again.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("compact",), "which runs?"),
        (("compact", "refund-42", "--where", "flow=refund"), "each say which runs"),
        (("compact", "refund-42", "--keep", "STEP_DREAMT", "--dry-run"), "no event is of type 'STEP_DREAMT'"),
        (("compact", "refund-42", "--through", "400", "--dry-run"), "event 400 of refund-42 stays"),
        (("compact", "refund-41", "refund-42", "--through", "4", "--dry-run"), "--through is the number of an event"),
        (("logs", "refund-42", "--archived"), "no archive is named"),
        (("logs", "refund-42", "--archived", "--archive", "a.db", "--follow"), "grows no more"),
        (("logs", "refund-42", "--archive", "a.db"), "--archive goes with --archived"),
    ],
)
def test_what_cannot_be_done_is_refused_with_2(arguments: tuple[str, ...], told: str, run: Run) -> None:
    ended = run(*arguments)

    assert (ended.status, ended.out) == (2, "")
    assert told in ended.err


def test_an_unknown_run_and_an_archive_that_is_not_there_are_not_found(run: Run, project: Project) -> None:
    unknown = run("compact", "refund-43", *archived(project))
    none = run("logs", "refund-42", "--archived", *archived(project), "--json")
    assert not (project.folder / "archive.db").exists()

    assert unknown.status == 4
    assert none.status == 4
    assert "there is no database" in none.err or "the database is empty" in none.err


def test_the_archive_is_named_by_the_surroundings(run: Run, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("doctor", "--json").json["archive"] == {"state": "none is named: loom compact needs one"}

    (project.folder / "pyproject.toml").write_text('[tool.loom]\narchive = "kept/archive.db"\n', encoding="utf-8")
    by_file = run("doctor", "--json").json["archive"]
    run("compact", "nap-1")
    monkeypatch.setenv("LOOM_ARCHIVE", "other.db")
    by_variable = run("doctor", "--json").json["archive"]

    assert by_file["url"] == f"sqlite:{project.folder / 'kept' / 'archive.db'}"
    assert by_file["state"] == "not there yet: the first compaction makes it"
    assert by_variable["url"] == f"sqlite:{project.folder / 'other.db'}"
    assert by_variable["named_by"] == "LOOM_ARCHIVE"
    monkeypatch.delenv("LOOM_ARCHIVE")
    assert run("doctor", "--json").json["archive"]["state"] == "holds events"


def test_an_archive_that_is_no_text_is_told(run: Run, project: Project) -> None:
    (project.folder / "pyproject.toml").write_text("[tool.loom]\narchive = 7\n", encoding="utf-8")

    ended = run("compact", "nap-1")

    assert ended.status == 2
    assert "[tool.loom] archive" in ended.err
    assert "is 7, no text" in ended.err


# -- driving one


def drive(desk: Path, *arguments: str) -> Ended:
    return at_the_desk(*arguments, folder=desk)


@pytest.mark.proves("LIF-05", "RNG-16", "NOT-09")
def test_a_compacted_run_is_answered_replayed_and_checked_without_its_archive(desk: Path) -> None:
    claim = '{"order": "o-1", "amount": 5}'
    drive(desk, "run", "refund", "--id", "r-1", "--input", claim)
    drive(desk, "run", "failing", "--id", "f-1")
    for id in ("r-1", "f-1"):
        assert drive(desk, "compact", id, "--archive", "archive.db").status == 0
    (desk / "archive.db").unlink()

    checked = drive(desk, "check", "replay", "--all", "--json")
    deployed = drive(desk, "deploy", "check", "--json")
    replayed = drive(desk, "replay", "r-1", "--json").json
    proved = drive(desk, "replay", "r-1", "--prove")
    moved = drive(desk, "migrate", "r-1", "--dry-run", "--json")
    answered = drive(desk, "resume", "r-1", "--answer", APPROVED)
    (desk / "mended").touch()
    retried = drive(desk, "retry", "f-1")

    assert [json.loads(line)["verdict"] for line in checked.out.splitlines()] == ["same", "same"]
    assert (deployed.status, deployed.json["safe"]) == (0, True)
    assert (replayed["verdict"]["verdict"], replayed["chain"], replayed["compacted"]) == ("same", None, 3)
    assert proved.status == 2
    assert "not all of it can be proved" in proved.err
    assert moved.status == 0
    assert (answered.status, retried.status) == (0, 0)
    assert (desk / "effects.txt").read_text().split() == ["assess", "assess", "fail", "pay", "fail"]


@pytest.mark.proves("LIF-05")
def test_a_compacted_run_whose_code_has_changed_breaks_where_it_did(desk: Path) -> None:
    claim = '{"order": "o-1", "amount": 5}'
    for id in ("r-1", "r-2"):
        drive(desk, "run", "refund", "--id", id, "--input", claim)
    drive(desk, "compact", "r-2", "--archive", "archive.db")
    code = (desk / "app.py").read_text()
    (desk / "app.py").write_text(code.replace("risk = await ctx.run(assess, claim)", "risk = 0.7"))

    sys.modules.pop("app")
    checked = drive(desk, "check", "replay", "r-1", "r-2", "--json")

    [one, other] = [json.loads(line) for line in checked.out.splitlines()]
    assert one["verdict"] == "breaks"
    names = {"id": "r-2", "digest": other["digest"]}  # the state of a run tells its id, too
    assert {**one, **names} == other


def test_a_compacted_run_is_watched_from_its_checkpoint_on(desk: Path) -> None:
    drive(desk, "run", "failing", "--id", "f-1")
    drive(desk, "compact", "f-1", "--archive", "archive.db")

    watched, followed = drive(desk, "watch", "f-1"), drive(desk, "logs", "f-1", "--follow", "--json")

    assert watched.status == 1
    assert "f-1 goes on" in watched.out
    assert [json.loads(line)["type"] for line in followed.out.splitlines()] == ["EXECUTION_STARTED", "EXECUTION_FAILED"]


def test_a_bundle_of_a_compacted_run_is_made_with_its_archive(desk: Path) -> None:
    drive(desk, "run", "failing", "--id", "f-1")
    drive(desk, "compact", "f-1", "--archive", "archive.db")
    (desk / "bundle").mkdir()
    part = drive(desk, "logs", "f-1", "--json").out
    whole = drive(desk, "logs", "f-1", "--archived", "--archive", "archive.db", "--json").out

    (desk / "bundle" / "f-1.jsonl").write_text(part)
    refused = drive(desk, "deploy", "check", "--bundle", "bundle", "--json").json
    (desk / "bundle" / "f-1.jsonl").write_text(whole)
    checked = drive(desk, "deploy", "check", "--bundle", "bundle", "--json").json

    assert "loom logs ID --archived --archive URL --json" in json.dumps(refused)
    assert checked["safe"]


@pytest.mark.proves("LIF-06")
def test_a_fork_of_what_is_gone_is_refused_in_words(desk: Path) -> None:
    drive(desk, "run", "refund", "--id", "r-1", "--input", '{"order": "o-1", "amount": 5}')
    drive(desk, "compact", "r-1", "--archive", "archive.db")

    ended = drive(desk, "fork", "r-1", "--at", "2")

    assert ended.status == 2
    assert (
        "error[compacted-fork-point]: the events of r-1 up to 3 are in an archive, so it cannot be forked at event 2\n"
        "try: It can be forked at any event from 3 on.\n"
    ) in ended.err
    assert [row["id"] for row in drive(desk, "ps", "--json").json] == ["r-1"]


@pytest.mark.proves("LIF-06")
def test_a_fork_where_a_snapshot_was_taken_is_a_run_like_any_that_was_compacted(desk: Path) -> None:
    drive(desk, "run", "refund", "--id", "r-1", "--input", '{"order": "o-1", "amount": 5}')
    whole = lines(drive(desk, "logs", "r-1", "--json"))
    taken = drive(desk, "snapshot", "take", "r-1", "--at", "2", "--json").json
    drive(desk, "compact", "r-1", "--archive", "archive.db")
    listed = drive(desk, "snapshot", "list", "r-1")

    refused, forked = drive(desk, "fork", "r-1", "--at", "1"), drive(desk, "fork", "r-1", "--at", "2", "--id", "f-1")

    assert (taken["sequence"], taken["checkpoint"]) == (2, False)
    assert "fork point" in listed.out
    assert "try: It can be forked at event 2, and at any from 3 on." in refused.err
    assert forked.out.startswith("f-1  is a fork of r-1 after event 2")

    assert drive(desk, "show", "f-1", "--json").json["status"] == "forked"
    below, proved = drive(desk, "show", "f-1", "--at", "1"), drive(desk, "replay", "f-1", "--prove")
    debugged = drive(desk, "debug", "f-1", "--json", "--at", "1")
    assert [ended.status for ended in (below, proved, debugged)] == [2, 2, 2]
    assert (debugged.out, '"code": "log-compacted"' in debugged.err) == ("", True)
    assert drive(desk, "debug", "f-1", "--json", "--at", "3", "--against", "0").status == 2
    assert drive(desk, "debug", "f-1", "--json", "--at", "3").json["sequence"] == 3
    assert "error[log-compacted]: the events of f-1 up to 2 are in an archive" in below.err
    assert "error[log-compacted]: the events of f-1 up to 2 are in an archive" in proved.err
    told = lines(drive(desk, "logs", "f-1", "--archived", "--archive", "archive.db", "--json"))
    assert [each["sequence"] for each in told] == [0, 1, 2, 3]
    assert [each["payload"] for each in told[:3]] == [each["payload"] for each in whole[:3]]
    assert [each["archived"] for each in told] == [False, True, True, False]
    assert "events 1 to 2 are in an archive: loom logs f-1 --archived" in drive(desk, "logs", "f-1").err

    assert drive(desk, "resume", "f-1").status == 3
    assert drive(desk, "resume", "f-1", "--answer", APPROVED).status == 0
    assert drive(desk, "replay", "f-1").status == 0
    assert drive(desk, "snapshot", "take", "f-1").status == 0
    assert drive(desk, "compact", "f-1", "--archive", "archive.db").status == 0
    story = lines(drive(desk, "logs", "f-1", "--archived", "--archive", "archive.db", "--json"))
    assert [each["sequence"] for each in story] == list(range(len(story)))
    assert drive(desk, "backup", "copy.db").status == 0
    assert drive(desk, "bundle", "f-1", "-o", "f.loombundle").status == 0
    for store in ("copy.db", "f.loombundle"):
        assert drive(desk, "show", "f-1", "--store", store, "--json").json["status"] == "completed"


def test_a_snapshot_is_not_taken_after_an_event_that_is_not_there(desk: Path) -> None:
    drive(desk, "run", "refund", "--id", "r-1", "--input", '{"order": "o-1", "amount": 5}')

    ended = drive(desk, "snapshot", "take", "r-1", "--at", "99")

    assert ended.status == 2
    assert "error[event-not-there]: r-1 has no event 99\ntry: Its events are numbered 0 to 4." in ended.err


def test_the_store_is_not_taken_for_its_own_archive_by_whatever_name(desk: Path) -> None:
    drive(desk, "run", "refund", "--id", "r-1", "--input", '{"order": "o-1", "amount": 5}')
    (desk / "link.db").symlink_to(desk / ".loom" / "loom.db")
    before = drive(desk, "logs", "r-1", "--json").out

    for name in (".loom/loom.db", "link.db"):
        ended = drive(desk, "compact", "r-1", "--archive", name)
        assert ended.status == 2
        assert "error[archive-is-the-store]: the archive is the store itself" in ended.err

    assert drive(desk, "logs", "r-1", "--json").out == before


@pytest.mark.parametrize("name", [":memory:", "file:archive.db"])
def test_an_archive_that_is_no_file_is_refused_and_none_is_made(desk: Path, name: str) -> None:
    drive(desk, "run", "refund", "--id", "r-1", "--input", '{"order": "o-1", "amount": 5}')

    ended = drive(desk, "compact", "r-1", "--archive", name)

    assert ended.status == 2
    assert f"error[invalid-declaration]: {name!r} names no file" in ended.err
    assert not (desk / name).exists()
