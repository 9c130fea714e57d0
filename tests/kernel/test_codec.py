from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loom
from loom.core import facts
from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.state import empty_state
from loom.core.upcasting import Upcaster, upcast
from loom.driving.reading import refuse_newer
from loom.kernel import codec
from loom.kernel.codec import decode_events, encode_event
from loom.kernel.errors import LogCorrupt, LogNewerThanCode
from loom.kernel.fold import EVENTS, fold
from loom.spi.event_store import EventRecord
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, Damaged, kinds, runtime

ID = ExecutionId(RUN)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=6,
)
SAMPLES: dict[str, Any] = {"int": st.integers(0, 10**9), "str": st.text("abc/#", max_size=5), "float": st.floats(0, 1)}


def facts_of(payload: type[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for facts of one type, by the annotations of its fields."""
    fields: dict[str, Any] = {}
    for name, note in payload.__annotations__.items():
        text = getattr(note, "__forward_arg__", str(note))
        base = text.removesuffix(" | None")
        strategy = SAMPLES.get(base, JSON.filter(lambda value: value is not None))
        if base.startswith("list[int]"):
            strategy = st.lists(st.integers(0, 99), max_size=3)
        fields[name] = st.none() | strategy if text.endswith("| None") else strategy
    return st.builds(payload, **fields)


@pytest.mark.proves("KER-02")
@pytest.mark.parametrize("row", EVENTS.values(), ids=EVENTS)
@given(data=st.data())
def test_every_type_comes_back_as_it_was_written(row: Any, data: st.DataObject) -> None:
    metadata: dict[str, Any] = data.draw(
        st.sampled_from([{}, {"principal": "ada"}, {"request": 3, "principal": "bob"}])
    )
    event = EventEnvelope(ID, 4, row.name, 1000, data.draw(facts_of(row.payload)), metadata)

    [again] = decode_events(ID, [encode_event(event)])

    assert again == event
    assert type(again.payload) is row.payload


def test_a_field_that_this_code_does_not_know_is_kept() -> None:
    stored = EventRecord(1, "STEP_COMPLETED", 5, b'{"start":0,"result":7,"from_tomorrow":{"a":[1]}}', b"")

    [event] = decode_events(ID, [stored])

    assert event.payload.result == 7
    assert orjson.loads(encode_event(event).payload) == orjson.loads(stored.payload)


@pytest.mark.parametrize(
    ("type_", "metadata"), [("SOMETHING_NEW", b""), ("STEP_COMPLETED", b'{"v":2}'), ("EXECUTION_RETRIED", b'{"v":99}')]
)
def test_what_is_newer_can_be_looked_at_but_is_not_driven(type_: str, metadata: bytes) -> None:
    stored = EventRecord(1, type_, 5, b'{"other":"shape"}', metadata)

    [event] = decode_events(ID, [stored])

    assert event.payload == {"other": "shape"}
    assert encode_event(event).payload == stored.payload
    with pytest.raises(LogNewerThanCode):
        refuse_newer([event])


@pytest.mark.proves("RNG-07")
@pytest.mark.parametrize(
    ("metadata", "payload", "result"),
    [
        (b"", b'{"begin":1,"value":5}', 5),
        (b'{"v":2}', b'{"begin":1,"result":6}', 6),
        (b'{"v":3}', b'{"start":1}', None),
    ],
)
def test_an_old_payload_is_up_cast_when_it_is_read_and_written_as_the_present_version(
    monkeypatch: pytest.MonkeyPatch, metadata: bytes, payload: bytes, result: int | None
) -> None:
    steps: dict[int, Upcaster] = {
        1: lambda fields: {"begin": fields["begin"], "result": fields["value"]},
        2: lambda fields: {"start": fields.pop("begin"), **fields},
    }
    monkeypatch.setitem(EVENTS, "STEP_COMPLETED", EVENTS["STEP_COMPLETED"]._replace(version=3))
    monkeypatch.setattr(codec, "upcast", partial(upcast, upcasters={"STEP_COMPLETED": steps}))

    [event] = decode_events(ID, [EventRecord(3, "STEP_COMPLETED", 5, payload, metadata)])

    assert event.payload == facts.StepCompleted(start=1, result=result)
    refuse_newer([event])
    assert json.loads(encode_event(event).metadata) == {"v": 3}


def test_an_old_payload_that_nothing_reads_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EVENTS, "STEP_COMPLETED", EVENTS["STEP_COMPLETED"]._replace(version=2))

    with pytest.raises(LogCorrupt, match="how version 1 of STEP_COMPLETED is read"):
        decode_events(ID, [EventRecord(3, "STEP_COMPLETED", 5, b'{"start":1}', b"")])


@loom.flow
async def waits(ctx: loom.Context) -> Any:
    return await ctx.suspend("g")


async def _store_with(*records: EventRecord) -> MemoryStorage:
    storage = Damaged()
    await runtime(waits, storage=storage).start(waits, id=RUN)
    storage._logs[ID].events.extend(records)
    storage._logs[ID].length += len(records)
    return storage


@pytest.mark.parametrize("type_", ["SOMETHING_NEW", "STEP_COMPLETED"])
async def test_a_run_with_a_newer_event_is_refused_by_every_verb_that_drives(type_: str) -> None:
    storage = await _store_with(EventRecord(3, type_, 9**13, b'{"start":1}', b'{"v":2}'))
    over = runtime(waits, storage=storage)

    verbs: list[Callable[[], Awaitable[Any]]] = [
        lambda: over.resume(RUN),
        lambda: over.resume(RUN, answer=1),
        lambda: over.retry(RUN),
    ]
    for verb in verbs:
        with pytest.raises(LogNewerThanCode):
            await verb()

    assert (await kinds(over))[-1] == type_
    assert len(storage._logs[ID].events) == 4


@pytest.mark.parametrize(
    ("payload", "metadata"),
    [
        (b"", b""),
        (b"{", b""),
        (b"[]", b""),
        (b"7", b""),
        (b"null", b""),
        (b"{}", b""),
        (b'{"result":1}', b""),
        (b'{"start":1}', b"["),
        (b'{"start":1}', b"[]"),
        (b'{"start":1}', b"7"),
        (b'{"start":1}', b'{"v":"x"}'),
        (b"\xff", b""),
    ],
)
def test_a_record_that_is_damaged_is_told_with_its_place(payload: bytes, metadata: bytes) -> None:
    stored = EventRecord(3, "STEP_COMPLETED", 5, payload, metadata)

    with pytest.raises(LogCorrupt) as told:
        decode_events(ID, [stored])

    assert told.value.sequence == 3


@pytest.mark.parametrize("start", [0, 99, "abc", None, [1]])
async def test_an_outcome_of_something_that_was_never_asked_is_corruption_and_no_crash(start: Any) -> None:
    payload = json.dumps({"start": start, "result": 1}).encode()
    storage = await _store_with(EventRecord(3, "TIMER_FIRED", 9**13, payload, b""))

    with pytest.raises(LogCorrupt):
        await runtime(waits, storage=storage).resume(RUN)


def test_an_event_of_an_author_without_our_fields_is_readable() -> None:
    with pytest.raises(LogCorrupt):
        decode_events(ID, [EventRecord(1, "user.made", 5, b"[1]", b"")])


async def test_the_log_is_plain_json_that_any_tool_reads() -> None:
    storage = await _store_with()

    for record in storage._logs[ID].events:
        assert json.loads(record.payload) is not None
        if record.metadata:
            assert json.loads(record.metadata) is not None
    assert fold(decode_events(ID, storage._logs[ID].events), empty_state(ID)).status == "suspended"
