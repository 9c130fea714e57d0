"""`loom logs --grep`: the events that hold a text."""

from __future__ import annotations

import json

import pytest

from loom_cli.sought import around
from tests.loom_cli.conftest import Project
from tests.loom_cli.terminal import loom


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("gate_opened", {"GATE_OPENED"}),
        ("BOB", set()),
        ("assess_risk", {"STEP_STARTED", "STEP_ATTEMPT_FAILED", "STEP_COMPLETED"}),
        ("c-7", {"EXECUTION_STARTED", "STEP_STARTED", "GATE_OPENED"}),
    ],
)
def test_an_event_is_found_by_its_type_its_call_and_what_it_records(
    text: str, types: set[str], project: Project
) -> None:
    found = loom("logs", "refund-41", "--grep", text, "--json", folder=project.folder)

    assert {event["type"] for event in map(json.loads, found.out.splitlines())} == types


def test_it_goes_with_the_other_conditions_and_is_drawn_as_ever(project: Project) -> None:
    found = loom("logs", "refund-41", "--grep", "c-7", "--type", "STEP_*", folder=project.folder)

    assert [line.split()[3] for line in found.out.splitlines()] == ["STEP_STARTED"]


def test_what_would_be_cut_off_before_the_text_begins_shortly_before_it() -> None:
    words = "a" * 200 + " the Timeout " + "b" * 200

    assert "Timeout" in around(words, "timeout", 40, mark="...")[:40]
    assert around(words, "Timeout", 40, mark="...").startswith("...a")
    assert around(words, "nothing", 40, mark="...") == words
    assert around("a timeout", "timeout", 40, mark="...") == "a timeout"


def test_on_a_terminal_the_text_is_on_the_line(project: Project) -> None:
    drawn = loom(
        "logs",
        "refund-41",
        "--grep",
        "c-7",
        "--type",
        "EXECUTION_STARTED",
        folder=project.folder,
        width=60,
        terminal=True,
    )

    assert "c-7" in drawn.out


def test_that_no_event_holds_it_is_said_and_no_failure(project: Project) -> None:
    none = loom("logs", "refund-41", "--grep", "BOB", folder=project.folder)

    assert (none.status, none.out, none.err) == (0, "", "no event holds 'BOB'\n")
