"""Two states differ exactly in what is told, and whoever looks has no way to write."""

from __future__ import annotations

import inspect
from itertools import pairwise

import pytest

from loom.core.missing import MISSING
from loom.driving.run_reader import LogReader
from loom.lenses.differing import Change, change_json, changes
from loom.lenses.folding import fold_at, state_digest, states
from tests.golden import logs


@pytest.mark.proves("GOV-05")
@pytest.mark.parametrize("name", logs.names())
def test_states_differ_exactly_when_their_digests_do_and_the_sequence_always_does(name: str) -> None:
    told = list(states(logs.read(name).events))

    for before, after in pairwise(told):
        found = {change.path: change for change in changes(before, after)}
        assert found["sequence",] == Change(("sequence",), before.sequence, after.sequence)
        assert state_digest(before) != state_digest(after)
    assert changes(told[-1], told[-1]) == []


@pytest.mark.proves("GOV-05")
def test_a_step_that_ends_is_told_by_the_number_of_its_start() -> None:
    events = logs.read("hello").events
    start = next(event.sequence for event in events if event.type == "STEP_STARTED")
    end = next(event.sequence for event in events if event.type == "STEP_COMPLETED")

    found = {change.path: change for change in changes(fold_at(events, start), fold_at(events, end))}

    assert found["settled",].before is MISSING
    assert found["settled",].after[str(start)]["by"] == end
    assert change_json(found["open",]) == {"path": ["open"], "before": found["open",].before}
    assert list(found) == sorted(found)


@pytest.mark.proves("GOV-05")
def test_the_handle_that_a_replay_is_given_can_only_read() -> None:
    assert [name for name, _ in inspect.getmembers(LogReader, inspect.isfunction) if name[0] != "_"] == ["read"]
