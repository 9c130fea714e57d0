"""`loom fork` and `loom diff`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loom_cli.projects import loom


@pytest.fixture
def done(desk: Path) -> Path:
    """The folder of an app in which the run `r1` has ended."""
    assert loom("run", "refund", "--set", "order=A", "--set", "amount=1", "--id", "r1", folder=desk).status == 3
    assert loom("resume", "r1", "--set", "approved=true", folder=desk).status == 0
    return desk


@pytest.mark.proves("BRN-01")
def test_a_fork_is_told_with_the_command_that_goes_on_with_it(done: Path) -> None:
    told = loom("fork", "r1", "--at", "2", "--id", "r2", folder=done)

    assert told.status == 0
    assert told.out == "r2  is a fork of r1 after event 2\n  try   loom resume r2\n"
    assert "fork of r1 after event 2" in loom("show", "r2", folder=done).out
    assert "EXECUTION_FORKED     from r1 after event 2  by ada" in loom("logs", "r2", folder=done).out.replace(
        ", by", "  by"
    )


def test_a_fork_with_an_edit_is_resumed_and_set_beside_its_source(done: Path) -> None:
    edit = ("--output", "approval", "--value", '{"approved": false}', "--reason", "had she said no")

    forked = loom("fork", "r1", *edit, "--json", folder=done)
    resumed = loom("resume", forked.json["id"], folder=done)
    diff = loom("diff", "r1", forked.json["id"], "--json", folder=done)

    assert (forked.json["status"], forked.json["edited"], forked.json["reason"]) == ("forked", True, "had she said no")
    assert resumed.status == 0
    assert diff.status == 1
    assert diff.json["differences"][0]["id"] == "approval"
    assert "they part at approval" in loom("diff", "r1", forked.json["id"], folder=done).out


def test_a_run_beside_itself_is_the_same(done: Path) -> None:
    same = loom("diff", "r1", "r1", folder=done)

    assert (same.status, same.out.splitlines()[-1]) == (0, "3 calls: all calls are alike")


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["fork", "r1"], 2, "where is it to fork?"),
        (["fork", "r1", "--output", "approval"], 2, "what is approval to be given instead?"),
        (["fork", "r1", "--value", "1"], 2, "not of which call"),
        (["fork", "r1", "--output", "a", "--input", "b", "--value", "1"], 2, "a fork changes one thing"),
        (["fork", "r1", "--at", "99"], 2, "there is no event 99"),
        (["fork", "r1", "--output", "aproval", "--value", "1"], 2, "Did you mean approval?"),
        (["fork", "r1", "--at", "1", "--id", "r1"], 1, "exists already"),
        (["fork", "nobody", "--at", "1"], 4, "no execution 'nobody'"),
        (["diff", "r1"], 2, "Name two, or more"),
        (["diff", "r1", "nobody"], 4, "no execution 'nobody'"),
    ],
)
def test_what_cannot_be_is_refused_in_words_and_changes_nothing(
    arguments: list[str], status: int, told: str, done: Path
) -> None:
    before = loom("ps", "--json", folder=done).out

    refused = loom(*arguments, folder=done)

    assert (refused.status, refused.out) == (status, "")
    assert told in refused.err
    assert loom("ps", "--json", folder=done).out == before


def test_a_simulation_is_for_a_fork_that_nobody_has_driven(done: Path) -> None:
    loom("fork", "r1", "--at", "1", "--id", "r2", folder=done)

    refused = loom("resume", "r2", "--simulate", folder=done)
    real = loom("fork", "r1", "--at", "3", "--id", "r3", folder=done)
    loom("resume", "r3", folder=done)
    again = loom("resume", "r3", "--simulate", folder=done)

    assert real.status == 0
    assert (refused.status, "asks for assess, which has no simulator" in refused.err) == (3, True)
    assert (again.status, "has done its effects for real" in again.err) == (2, True)


@pytest.mark.proves("BRN-04", "BRN-05", "BRN-06")
def test_branches_are_listed_compared_and_promoted(done: Path) -> None:
    for name, value in (("no", "false"), ("yes", "true")):
        edit = ("--output", "approval", "--value", f'{{"approved": {value}}}')
        loom("fork", "r1", *edit, "--id", name, folder=done)
        loom("resume", name, folder=done)

    compared = loom("branch", "compare", "r1", "no", "yes", folder=done)
    promoted = loom("promote", "no", "--reason", "she was right", folder=done)
    listed = loom("branch", "list", "yes", "--json", folder=done).json
    log = loom("branch", "log", "r1", "main", "--json", folder=done).json

    assert compared.status == 1
    assert "they part at approval" in compared.out
    assert promoted.out == "no  is main of r1 now; before it was r1\n"
    assert [(each["id"], each["depth"], each["names"]) for each in listed] == [
        ("r1", 0, []),
        ("no", 1, ["main"]),
        ("yes", 1, []),
    ]
    assert [(move["execution_id"], move["principal"], move["reason"]) for move in log] == [
        ("no", "ada", "she was right")
    ]
    assert "no" in loom("branch", "log", "yes", folder=done).out


@pytest.mark.proves("BRN-08")
def test_there_is_no_merge(done: Path) -> None:
    refused = loom("branch", "merge", "r1", "r1", folder=done)

    assert (refused.status, refused.out) == (2, "")
    assert "there is no merge" in refused.err
    assert "loom promote ID" in refused.err


def test_that_another_branch_counts_is_said_wherever_the_run_is_looked_at_or_driven(done: Path) -> None:
    loom("fork", "r1", "--at", "1", "--id", "live", folder=done)
    loom("fork", "r1", "--at", "1", "--id", "other", folder=done)

    promoted = loom("promote", "live", folder=done)
    source, other, live = (loom("show", name, folder=done).out for name in ("r1", "other", "live"))
    resumed, counts = loom("resume", "other", folder=done), loom("resume", "live", folder=done)

    assert promoted.out == "live  is main of r1 now; before it was r1\n"
    assert promoted.err == "live has no result yet: nobody has driven it\n"
    main = [loom("show", name, "--json", folder=done).json["main"] for name in ("other", "live")]
    assert [(each["execution_id"], each["is_it"]) for each in main] == [("live", False), ("live", True)]
    assert loom("show", "r1", "--at", "1", "--json", folder=done).json["main"] is None
    assert "\nmain is live since " in source
    assert "\nmain is live since " in other
    assert "The branch that counts is live; this goes on beside it, for real:\n  try   loom resume other\n" in other
    assert "\nit is main since " in live
    assert "main is live since" in resumed.err.splitlines()[0]
    assert "and not other: what this does, it does for real on a branch that does not count" in resumed.err
    assert "main is" not in counts.err


def test_before_a_retry_it_is_said_that_another_branch_counts(done: Path) -> None:
    loom("fork", "r1", "--at", "1", "--id", "live", folder=done)
    loom("promote", "live", folder=done)

    refused = loom("retry", "r1", folder=done)

    assert refused.err.startswith("main is live since ")
    assert "and not r1: what this does" in refused.err


def test_served_calls_are_told_together(done: Path) -> None:
    edit = ("--output", "approval", "--value", '{"approved": true, "reason": "late"}', "--reuse")
    loom("fork", "r1", *edit, "--id", "served", folder=done)

    resumed = loom("resume", "served", folder=done)

    assert "  1 call served from r1\n" in resumed.err
    assert "done in" not in resumed.err
