"""A state and its bytes: what is written comes back equal, goes on like the fold, and has one object where there was one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom.core import facts as f
from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.state import Attempts, ExecutionState, empty_state
from loom.driving.state_codec import NotAState, decode, encode
from loom.kernel.codec import decode_events, encode_event
from loom.kernel.fold import evolve, fold
from loom.lenses.folding import state_digest
from loom.spi.event_store import EventRecord
from loom.values import encode as encoded_value
from tests.golden import logs as golden
from tests.kernel.test_fold import GATE, ONCE, STARTED, STEP, logs, state_after

RUN = ExecutionId("run-1")


def states(events: Sequence[EventEnvelope[Any]]) -> Iterator[ExecutionState]:
    state = empty_state(events[0].execution_id)
    for event in events:
        state = evolve(state, event)
        yield state


def assert_comes_back(state: ExecutionState, rest: Sequence[EventEnvelope[Any]] = ()) -> None:
    """Assert that *state* is the same after a snapshot, and stays so with the *rest* of its log."""
    body = encode(state)
    again = decode(body)

    assert again == state
    assert shape(again) == shape(state)
    assert state_digest(again) == state_digest(state)
    assert encode(again) == body
    assert fold(rest, again) == fold(rest, state)


def shape(state: ExecutionState) -> list[list[int]]:
    """Return which of the events that a state holds are one object: by where they are found, the first place of each."""
    held = [event for settled in state.settled for event in settled]
    held += [event for start in sorted(state.cuts) for event in state.cuts[start]]
    held += [each[start] for each in (state.open, state.gates) for start in sorted(each)]
    held += [doubt for start in sorted(state.attempts) if (doubt := state.attempts[start].doubt)]
    held += [*state.facts.outcomes, *(e for e in (state.facts.cancel, state.facts.grace_ended) if e)]
    firsts: dict[int, int] = {}
    return [[place, firsts.setdefault(id(event), place)] for place, event in enumerate(held)]


def strict(value: Any) -> Any:
    """Return *value* with the type of everything in it, since 1, 1.0 and True are equal."""
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [strict(each) for each in value]
    if isinstance(value, dict):
        return {key: strict(each) for key, each in value.items()}
    return type(value).__name__, repr(value)


@pytest.mark.proves("LIF-04", "KER-14")
@pytest.mark.parametrize("name", golden.names())
def test_at_every_event_of_every_golden_log_the_snapshot_is_the_fold(name: str) -> None:
    events = golden.read(name).events

    for length, state in enumerate(states(events), 1):
        assert_comes_back(state, events[length:])


@pytest.mark.proves("LIF-04")
@given(logs())
def test_at_every_event_of_any_log_the_snapshot_is_the_fold(events: list[EventEnvelope[Any]]) -> None:
    for length, state in enumerate(states(events), 1):
        assert_comes_back(state, events[length:])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150)
@given(st.lists(st.tuples(VALUES, VALUES), max_size=8))
def test_any_values_keep_their_types_and_their_order(pairs: list[tuple[Any, Any]]) -> None:
    """Columns of one type are written shorter; which they are must not matter."""
    facts: list[tuple[str, Any]] = [STARTED]
    for number, (args, result) in enumerate(pairs):
        start = len(facts)
        facts += [
            ("STEP_STARTED", f.StepStarted(f"s#{number}", number, "d", args=args)),
            ("STEP_COMPLETED", f.StepCompleted(start, result)),
        ]
    log = read_back(facts)
    state = fold(log, empty_state(RUN))

    again = decode(encode(state))

    assert [strict(each) for each in again.settled] == [strict(each) for each in state.settled]


def read_back(facts: Sequence[tuple[str, Any]], metadata: Any = None) -> list[EventEnvelope[Any]]:
    """Return a log of *facts* as it is read from a store."""
    events = [EventEnvelope(RUN, i, type_, 1000 + i, fact, metadata or {}) for i, (type_, fact) in enumerate(facts)]
    return decode_events(RUN, [encode_event(event) for event in events])


@pytest.mark.parametrize("number", [0, -1, 1 << 53, -(1 << 53), (1 << 63) - 1, -(1 << 63), 1.0, -0.0, 1e300, True])
def test_columns_of_numbers_come_back_exactly(number: Any) -> None:
    for column in ([number], [number] * 3, [number, 0, number], [0, number, 2 * 0]):
        facts = [("DECISION_RECORDED", f.DecisionRecorded(f"d#{i}", i, "d", each)) for i, each in enumerate(column)]
        state = fold(read_back([STARTED, *facts]), empty_state(RUN))

        again = decode(encode(state))

        assert [strict(each) for each in again.settled] == [strict(each) for each in state.settled]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1 << 80, b"\x00", {1, 2}, "\ud800", "\x00"])
def test_tagged_encodings_survive(value: Any) -> None:
    step = ("STEP_STARTED", f.StepStarted("s", 0, "d", args={"x": encoded_value(value)}))
    state = fold(
        read_back([STARTED, step, ("STEP_COMPLETED", f.StepCompleted(1, encoded_value(value)))]), empty_state(RUN)
    )

    assert_comes_back(state)


def test_user_events_unknown_fields_and_metadata_survive() -> None:
    records = [
        EventRecord(0, "EXECUTION_STARTED", 1000, orjson.dumps(f.ExecutionStarted("f", "p", "s", {})._asdict()), b""),
        EventRecord(1, "STEP_STARTED", 1001, b'{"id":"a","ordinal":0,"digest":"d","colour":"red"}', b""),
        EventRecord(2, "STEP_COMPLETED", 1002, b'{"start":1,"mood":{"x":[1]}}', b'{"principal":"ana"}'),
        EventRecord(3, "user.order.paid", 1003, b'{"id":"e","ordinal":1,"digest":"d","data":{"n":1},"new":2}', b""),
        EventRecord(4, "GATE_OPENED", 1004, b'{"id":"g","ordinal":2,"digest":"d","label":"g"}', b'{"request":7}'),
        EventRecord(5, "SOMETHING_NEWER", 1005, b'{"any":"thing"}', b""),
    ]
    for state in states(decode_events(RUN, records)):
        assert_comes_back(state)
        held = [event.metadata for settled in decode(encode(state)).settled for event in settled]
        assert held == [event.metadata for settled in state.settled for event in settled]


def test_what_is_rare_in_a_state_comes_back() -> None:
    doubt = ("EFFECT_INDOUBT", f.EffectIndoubt(1, "lost"))
    failed = ("STEP_ATTEMPT_FAILED", f.StepAttemptFailed(2, 3, {"type": "E", "message": "m"}, 99))
    cancel = ("EXECUTION_CANCEL_REQUESTED", f.ExecutionCancelRequested("request", 9, closed=[]))
    kept = [
        ("TOPIC_HELD", f.TopicHeld("b")),
        ("TOPIC_HELD", f.TopicHeld("a")),
        ("OUTCOME_ATTACHED", f.OutcomeAttached(1)),
    ]
    migrated = f.ExecutionMigrated("a", "b", [{"sequence": 2, "asked": {"digest": "z"}}], unpatched=["p"])
    state = state_after(STARTED, ONCE, STEP, GATE, doubt, failed, *kept, ("EXECUTION_MIGRATED", migrated), cancel)

    again = decode(encode(state))

    assert_comes_back(state)
    assert again.attempts[1].doubt is not None
    assert again.attempts[2] == Attempts(3, 99, in_flight=False, last={"type": "E", "message": "m"})
    assert again.facts.held == frozenset({"a", "b"})
    assert again.facts.noted == {2: "z"}
    assert again.gates[1] is again.open[1]


def test_the_lane_of_a_chain_is_that_again() -> None:
    link = f.ExecutionStarted("flow", "print", "seed", {}, chain=["first", 7], link=2)

    assert decode(encode(state_after(("EXECUTION_STARTED", link)))).facts.chain == ("first", 7)


def test_an_older_snapshot_is_read_with_what_was_added_since_as_it_begins() -> None:
    state = fold(read_back([STARTED, STEP, GATE]), empty_state(RUN))
    whole = orjson.loads(encode(state))
    for group in whole["events"]:
        group["fields"] = {
            name: column for name, column in group["fields"].items() if name not in {"gen", "key", "tool"}
        }

    assert decode(orjson.dumps(whole)) == state


def test_a_snapshot_of_a_newer_shape_is_refused() -> None:
    state = fold(read_back([STARTED, STEP, GATE]), empty_state(RUN))
    changes: list[Callable[[Any], None]] = [
        lambda whole: whole["events"][0].update(version=2),
        lambda whole: whole["events"][0]["fields"].update(colour=["red"]),
        lambda whole: whole["events"][0].update(type="STEP_DREAMT"),
        lambda whole: whole["facts"].update(mood="good"),
    ]
    for change in changes:
        whole = orjson.loads(encode(state))
        change(whole)
        with pytest.raises(NotAState):
            decode(orjson.dumps(whole))


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b"[]", b"\xff", b'{"execution_id":"a"}'])
def test_what_is_no_state_is_refused(body: bytes) -> None:
    with pytest.raises(NotAState):
        decode(body)


@pytest.mark.parametrize("part", list(orjson.loads(encode(empty_state(RUN)))))
def test_a_state_that_lacks_a_part_is_refused(part: str) -> None:
    whole = orjson.loads(encode(fold(golden.read("doubts").events, empty_state(RUN))))
    del whole[part]

    with pytest.raises(NotAState):
        decode(orjson.dumps(whole))


def test_a_column_that_is_too_short_is_refused() -> None:
    whole = orjson.loads(encode(fold(golden.read("doubts").events, empty_state(RUN))))
    steps = next(group for group in whole["events"] if group["type"] == "STEP_STARTED")
    steps["fields"]["id"].pop()

    with pytest.raises(NotAState):
        decode(orjson.dumps(whole))


def test_a_state_that_no_fold_makes_is_not_written() -> None:
    state = state_after(STARTED, STEP)
    odd = state.open[1]._replace(payload={"id": "a"})

    with pytest.raises(NotAState):
        encode(state._replace(open=state.open.insert(1, odd)))
    with pytest.raises(NotAState):
        encode(state._replace(open=state.open.insert(1, odd._replace(type="SOMETHING_NEW"))))
