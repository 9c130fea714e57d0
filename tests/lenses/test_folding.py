"""The state at any event: one fold, one digest, one chain for every tool."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.state import empty_state
from loom.kernel.codec import decode_events, encode_event
from loom.kernel.errors import LogCorrupt
from loom.kernel.fold import fold
from loom.lenses import folding
from loom.lenses.execution import execution_view
from loom.lenses.folding import StateDigests, event_json, fold_at, log_chain, state_digest, state_json, states
from loom.spi.event_store import EventRecord
from loom.spi.memory import MemoryStorage
from tests.house import ROOT
from tests.loom_cli.story import Event, log_of, tell

IDS = ("refund-41", "refund-42", "broken-1", "nap-1", "payout-1")


@pytest.fixture
async def logs() -> dict[str, list[Event]]:
    storage = MemoryStorage()
    await tell(storage)
    return {id_: await log_of(storage, id_) for id_ in IDS}


async def test_fold_at_is_the_fold_of_the_first_events(logs: dict[str, list[Event]]) -> None:
    for events in logs.values():
        empty = empty_state(events[0].execution_id)
        for n in range(len(events)):
            assert fold_at(events, n) == fold(events[: n + 1], empty)
        assert fold_at(events) == fold(events, empty)
        assert [state.sequence for state in states(events)] == [event.sequence for event in events]


async def test_there_is_no_state_at_an_event_that_is_not_there(logs: dict[str, list[Event]]) -> None:
    for n in (-1, len(logs["nap-1"])):
        with pytest.raises(IndexError):
            fold_at(logs["nap-1"], n)


async def test_equal_states_and_only_these_have_one_digest(logs: dict[str, list[Event]]) -> None:
    seen: dict[str, Any] = {}
    for events in logs.values():
        for state in states(events):
            name = state_digest(state)
            assert seen.setdefault(name, state) == state
    assert len(seen) == sum(map(len, logs.values()))


ODD: dict[str, Any] = {
    "one": 1.0,
    "tiny": 1e-7,
    "huge": 1e300,
    "\U0001f600": 2,
    "\uffff": [0.5, "\u20ac"],
    "n": {"b": 1, "a": []},
}


async def test_states_that_are_named_together_have_the_names_that_each_has(logs: dict[str, list[Event]]) -> None:
    for log in logs.values():
        first, *rest = log
        odd = first._replace(payload=first.payload._replace(input=ODD, attributes=ODD))
        names, all_states = StateDigests(), list(states([odd, *rest]))

        assert [names.of(state) for state in all_states] == [state_digest(state) for state in all_states]


async def test_an_event_is_written_once_however_many_states_it_is_in(
    logs: dict[str, list[Event]], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Event] = []

    def writing(event: Event) -> Any:
        written.append(event)
        return event_json(event)

    monkeypatch.setattr(folding, "event_json", writing)
    names, events = StateDigests(), logs["refund-42"]

    for state in states(events):
        names.of(state)

    assert len(written) == len(set(map(id, written)))


DIGESTS = """
import asyncio
from loom.lenses.folding import state_digest, fold_at
from loom.spi.memory import MemoryStorage
from tests.loom_cli.story import tell, log_of

async def main():
    storage = MemoryStorage()
    await tell(storage)
    events = await log_of(storage, "refund-42")
    print(*[state_digest(fold_at(events, n)) for n in range(len(events))])

asyncio.run(main())
"""


@pytest.mark.proves("PRN-02")
def test_the_digest_does_not_depend_on_the_seed_of_hashes() -> None:
    told = set()
    for seed in ("1", "2", "3"):
        environ = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", DIGESTS], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
        )
        told.add(done.stdout)
    assert len(told) == 1


async def test_the_chain_tells_every_change_of_a_log(logs: dict[str, list[Event]]) -> None:
    events = logs["refund-42"]
    chain = log_chain(events)

    changed = [[*events[:at], event._replace(at=event.at + 1), *events[at + 1 :]] for at, event in enumerate(events)]

    assert log_chain(list(events)) == chain
    assert len({chain, log_chain(events[:-1]), *map(log_chain, changed)}) == len(events) + 2


async def test_an_event_is_json_as_it_stands_on_the_log(logs: dict[str, list[Event]]) -> None:
    started = event_json(logs["refund-41"][0])

    assert started["type"] == "EXECUTION_STARTED"
    assert started["metadata"] == {"principal": "ann"}
    assert started["payload"]["input"] == "c-7"
    assert "metadata" not in event_json(logs["refund-42"][0])


def newer(events: list[Event], at: int, **changes: Any) -> list[Event]:
    """Return the log as it would be read if event *at* were written by a newer Loom."""
    records = [encode_event(event) for event in events]
    records[at] = records[at]._replace(**changes)
    return decode_events(ExecutionId("refund-42"), records)


async def test_a_log_of_a_newer_loom_can_be_looked_at(logs: dict[str, list[Event]]) -> None:
    events = logs["refund-42"]
    unknown_type = newer(events, 3, type="STEP_DREAMT")
    unknown_version = newer(events, 13, metadata=b'{"v": 9}', payload=b'{"id": "approval", "hope": 1}')

    for read in (unknown_type, unknown_version):
        assert execution_view(fold_at(read), read).flow == "refund"
    assert fold_at(unknown_type).sequence == len(events) - 1
    assert event_json(unknown_version[13])["payload"] == {"id": "approval", "hope": 1}


async def test_what_refers_to_something_newer_moves_the_sequence_only(logs: dict[str, list[Event]]) -> None:
    events = logs["refund-42"]
    start = next(event.sequence for event in events if event.type == "STEP_STARTED")

    read = newer(events, start, type="STEP_DREAMT")

    assert [state.sequence for state in states(read)] == list(range(len(events)))
    assert fold_at(read).status == fold_at(events).status


async def test_a_state_is_named_by_what_happened_so_that_a_new_field_renames_no_old_state(
    logs: dict[str, list[Event]],
) -> None:
    begun = state_json(fold_at(logs["refund-42"], 0))

    assert set(begun) == {"execution_id", "status", "sequence", "at", "facts"}
    assert not set(begun["facts"]) & {"generation", "wake_at", "failure"}


async def test_an_event_that_refers_to_nothing_is_a_corrupt_log(logs: dict[str, list[Event]]) -> None:
    events = logs["refund-42"]
    lost = [events[0], *events[2:]]

    with pytest.raises(LogCorrupt, match="event 3 of refund-42"):
        fold_at(lost)


async def test_an_unknown_event_of_an_author_is_no_newer_log() -> None:
    record = EventRecord(0, "user.noted", 5, b'{"id": "noted", "ordinal": 0, "digest": "x", "data": {"a": 1}}', b"")
    [event] = decode_events(ExecutionId("x"), [record])

    assert isinstance(event, EventEnvelope)
    assert event_json(event)["payload"]["data"] == {"a": 1}
