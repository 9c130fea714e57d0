"""`loom why` on the story's runs: what was asked and where it is from, in words and as JSON."""

from __future__ import annotations

import pytest

from loom_cli.exits import ExitCode
from tests.loom_cli.conftest import Project
from tests.loom_cli.terminal import loom


def test_a_call_that_waits_is_explained_by_what_is_shown_there(project: Project) -> None:
    done = loom("why", "refund-42", folder=project.folder)

    assert done.status == ExitCode.DONE
    assert done.out.startswith("approval  event ")
    assert any(
        line.strip().startswith("show.claim") and "the input (event 0)" in line for line in done.out.splitlines()
    )
    assert "from outside the flow by then, and nothing declares it trusted: 1 decision, 4 steps, 1 input" in done.out


def test_everything_is_listed_when_that_is_asked_for(project: Project) -> None:
    done = loom("why", "refund-42", "--all", folder=project.folder)

    assert "the input" in done.out
    assert "not seen in it" in done.out or "may be in it" in done.out or "is in it" in done.out


@pytest.mark.parametrize("run", ["refund-41", "refund-42", "broken-1", "payout-1"])
def test_it_is_the_same_as_json(project: Project, run: str) -> None:
    [*found] = loom("why", run, "--json", folder=project.folder).json

    assert {each["run"] for each in found} == {run}
    for each in found:
        assert all(source["sequence"] < (each["call"] or {"start": 10**6})["start"] for source in each["seen"])


def test_no_text_of_a_run_drives_the_terminal(project: Project) -> None:
    runs = loom("ps", "--json", "--limit", "100", folder=project.folder).json
    for run in runs:
        done = loom("why", run["id"], "--all", folder=project.folder)
        assert done.status == ExitCode.DONE, done
        assert not set(done.out) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_a_call_that_was_never_asked_is_refused_in_words(project: Project) -> None:
    done = loom("why", "refund-42", "approvall", folder=project.folder)

    assert done.status == ExitCode.NOT_FOUND
    assert "Did you mean" in done.err
