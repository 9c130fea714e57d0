"""`loom show --against` tells what is different between the states after two events, and nothing else."""

from __future__ import annotations

import pytest

from tests.loom_cli.conftest import Project
from tests.loom_cli.terminal import Ended, loom


def show(project: Project, *arguments: str) -> Ended:
    return loom("show", "refund-42", *arguments, folder=project.folder, now_ms=project.now_ms)


@pytest.mark.proves("GOV-05")
def test_what_came_is_told_with_what_it_replaced(project: Project) -> None:
    told = show(project, "--at", "2", "--against", "1")
    as_json = show(project, "--at", "2", "--against", "1", "--json").json

    assert {"path": ["sequence"], "before": 1, "after": 2} in as_json
    assert told.status == 0
    assert told.out.splitlines()[0].strip() == "1 assess_risk"
    assert "the risk service is busy" in told.out
    assert "sequence" not in told.out, "the number of the event was asked for"


def test_what_came_is_told_by_calls_in_the_words_of_the_log(project: Project) -> None:
    told = show(project, "--at", "9", "--against", "1").out.splitlines()

    at = told.index("  5 map/0/fetch")
    assert told[at : at + 3] == ["  5 map/0/fetch", '+   STEP_STARTED  {"n": 1}', "+   STEP_COMPLETED  1"]
    assert not any(line.startswith("-") for line in told), "nothing is gone"


def test_a_state_is_not_different_from_itself(project: Project) -> None:
    told = show(project, "--at", "2", "--against", "2")

    assert (told.status, told.out, told.err) == (0, "", "nothing is different\n")
    assert show(project, "--at", "2", "--against", "2", "--json").json == []


def test_an_event_that_is_not_there_is_refused(project: Project) -> None:
    refused = show(project, "--against", "999")

    assert refused.status == 2
    assert "there is no event 999" in refused.err
