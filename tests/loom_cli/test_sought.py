"""`loom logs --grep`: the events that hold a text."""

from __future__ import annotations

import json

import pytest

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
