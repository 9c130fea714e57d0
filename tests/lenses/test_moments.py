"""A growing log with the state at any event: the same state, and the same changes, as a fold from its beginning gives."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest

from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.missing import MISSING
from loom.core.state import ExecutionState, empty_state
from loom.driving.errors import LogCompacted
from loom.kernel.codec import decode_events
from loom.kernel.errors import LogCorrupt
from loom.lenses.differing import Change
from loom.lenses.folding import fold_at, state_digest, state_json, states
from loom.lenses.moments import Moments
from loom.spi.event_store import EventRecord
from tests.golden import logs

Event = EventEnvelope[Any]


def plain_changes(before: ExecutionState, after: ExecutionState) -> set[tuple[object, ...]]:
    """Return what differs between the whole JSON of two states, written with nothing in mind but that."""

    def keyed(state: ExecutionState) -> dict[str, Any]:
        whole: dict[str, Any] = dict(state_json(state))
        for name in {"open", "outcomes"} & whole.keys():
            whole[name] = {str(event["sequence"]): event for event in whole[name]}
        for name in {"attempts", "cuts"} & whole.keys():
            whole[name] = {str(start): value for start, value in whole[name]}
        if "settled" in whole:
            whole["settled"] = {str(start["sequence"]): {"start": start, "by": by} for start, by in whole["settled"]}
        return whole

    found: set[tuple[object, ...]] = set()

    def compare(path: tuple[str, ...], old: Any, new: Any) -> None:
        if old == new:
            return
        if isinstance(old, dict) and isinstance(new, dict):
            for name in {*old, *new}:
                compare((*path, name), old.get(name, MISSING), new.get(name, MISSING))
            return
        found.add((path, as_text(old), as_text(new)))

    compare((), keyed(before), keyed(after))
    return found


def as_set(changes: list[Change]) -> set[tuple[object, ...]]:
    return {(change.path, as_text(change.before), as_text(change.after)) for change in changes}


def as_text(side: Any) -> str:
    return "nothing" if side is MISSING else json.dumps(side, sort_keys=True)


def moments_of(events: list[Event], *, page: int = 7) -> Moments:
    moments = Moments(events[0].execution_id)
    for begin in range(0, len(events), page):
        moments.add(events[begin : begin + page])
    return moments


@pytest.mark.proves("GOV-05")
@pytest.mark.parametrize("name", logs.names())
def test_the_state_at_an_event_is_the_fold_of_the_events_up_to_it(name: str) -> None:
    golden = logs.read(name)
    moments = moments_of(golden.events)
    numbers = list(range(len(golden.events)))
    random.Random(name).shuffle(numbers)

    for n in numbers:
        assert moments.state_at(n) == fold_at(golden.events, n)
        assert state_digest(moments.state_at(n)) == golden.digests[n]
    assert moments.now == fold_at(golden.events)
    assert (moments.first, moments.last) == (0, numbers and len(numbers) - 1)


@pytest.mark.parametrize("name", logs.names())
def test_what_an_event_changed_is_the_difference_of_the_whole_states(name: str) -> None:
    events = logs.read(name).events
    moments = moments_of(events)
    told = [empty_state(events[0].execution_id), *states(events)]

    for before, after in pairwise(told):
        assert as_set(moments.changes_at(after.sequence)) == plain_changes(before, after)


@pytest.mark.parametrize("name", logs.names())
def test_what_is_different_from_any_other_event_is_the_difference_of_the_whole_states(name: str) -> None:
    events = logs.read(name).events
    moments = moments_of(events)
    told = [empty_state(events[0].execution_id), *states(events)]
    chosen = random.Random(name)

    for _ in range(60):
        mark, at = chosen.randrange(-1, len(events)), chosen.randrange(len(events))
        assert as_set(moments.changes_at(at, mark)) == plain_changes(told[mark + 1], told[at + 1])


def test_a_log_of_many_blocks_is_folded_in_pieces_and_says_the_same() -> None:
    events = long_log(700)
    moments = moments_of(events, page=101)
    told = list(states(events))

    for n in (0, 1, 63, 64, 65, 500, 699, 3, 640, 130, 699, 1, *range(699, 0, -23)):
        assert moments.state_at(n) == told[n]
        assert as_set(moments.changes_at(n, n // 2)) == plain_changes(told[n // 2], told[n])


def test_an_event_that_comes_twice_is_taken_once_and_a_block_that_was_looked_at_grows() -> None:
    events = long_log(40)
    moments = Moments(events[0].execution_id)
    moments.add(events[:20])
    assert moments.state_at(19) == fold_at(events, 19)

    moments.add(events[10:])

    assert [event.sequence for event in moments.events] == list(range(40))
    assert [moments.state_at(n) for n in (19, 25, 39)] == [fold_at(events, n) for n in (19, 25, 39)]


def test_there_is_no_state_at_an_event_that_is_not_there() -> None:
    moments = moments_of(logs.read("hello").events)

    for n in (-1, 4):
        with pytest.raises(IndexError):
            moments.state_at(n)
        with pytest.raises(IndexError):
            moments.event(n)


def test_before_the_state_that_stands_for_what_was_moved_away_none_is_known() -> None:
    events = logs.read("gates").events
    base = fold_at(events, 5)
    moments = Moments(events[0].execution_id, base=base)
    moments.add([events[0], events[3], *events[5:]])

    assert [moments.state_at(n) for n in (5, 6, len(events) - 1)] == [
        fold_at(events, n) for n in (5, 6, len(events) - 1)
    ]
    assert (moments.first, moments.event(3)) == (5, events[3])
    assert as_set(moments.changes_at(6)) == plain_changes(base, fold_at(events, 6))
    for n in (3, 4):
        with pytest.raises(LogCompacted):
            moments.state_at(n)
    for n in (3, 5):
        with pytest.raises(LogCompacted):
            moments.changes_at(n)


def test_what_comes_before_an_event_that_does_not_fit_is_there() -> None:
    events = logs.read("hello").events
    moments = Moments(events[0].execution_id)

    with pytest.raises(LogCorrupt):
        moments.add([events[0], events[2]._replace(sequence=1)])

    assert (moments.last, moments.now) == (0, fold_at(events, 0))


def test_a_log_of_a_newer_loom_is_looked_at_as_everywhere() -> None:
    run = ExecutionId("newer")
    known = logs.read("hello").log
    newer = EventRecord(1, "STEP_TELEPORTED", known[1].at, b'{"id":"far","ordinal":0}', b'{"v":9}')
    settles = EventRecord(2, "STEP_COMPLETED", known[2].at, b'{"start":1,"result":7}', b"")
    events = decode_events(run, [known[0], newer, settles, known[3]])

    moments = moments_of(events, page=1)

    assert [moments.state_at(n) for n in range(4)] == list(states(events))


def long_log(length: int) -> list[Event]:
    """Return a log of steps that succeed and fail, a decision now and then, and one retry in the middle."""
    at = 1_700_000_000_000
    begin = b'{"flow":"long","fingerprint":"f","seed":"s","rules":{"identity":1,"delivery":1,"derivation":1}}'
    records = [EventRecord(0, "EXECUTION_STARTED", at, begin, b"")]
    while len(records) < length:
        n = len(records)
        if n == 301:
            failed = b'{"failure":{"type":"E","message":"m"},"cause":299}'
            records.append(EventRecord(n, "EXECUTION_FAILED", at + n, failed, b""))
            again = b'{"generation":1,"void":[5],"reopened":[299],"cuts":[]}'
            records.append(EventRecord(n + 1, "EXECUTION_RETRIED", at + n, again, b""))
            records.append(EventRecord(n + 2, "STEP_COMPLETED", at + n, b'{"start":299,"result":1}', b""))
            continue
        asked = f'{{"id":"work#{n}","ordinal":{n},"digest":"d","args":{{"n":{n}}}}}'.encode()
        records.append(EventRecord(n, "STEP_STARTED", at + n, asked, b""))
        done = f'{{"start":{n},"result":{{"of":{n}}}}}'.encode()
        records.append(EventRecord(n + 1, "STEP_COMPLETED", at + n + 1, done, b""))
    return decode_events(ExecutionId("long"), records[:length])
