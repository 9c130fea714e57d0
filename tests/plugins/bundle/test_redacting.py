"""What is left out of a bundle is nowhere in it, not as a value, not as a digest; and what is left is read as any log."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom import values
from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import appended, first
from loom.driving.errors import LogCompacted
from loom.driving.replaying import Replayer
from loom.driving.stored_log import log_of
from loom.kernel.codec import decode_events
from loom.lenses.execution import execution_view
from loom.lenses.folding import fold_at
from loom.lenses.shapes import execution_json
from loom.plugins.bundle.importing import BundleRedacted
from loom.plugins.bundle.redacting import MARK, VALUES, Redaction, RedactionRefused
from loom.spi.event_store import EventRecord
from loom.spi.memory import MemoryStorage
from tests.golden import logs
from tests.plugins.bundle.packing import members_of, packed, store_of
from tests.plugins.bundle.test_bundles import opened
from tests.plugins.bundle.test_importing import imported_from

RUN = ExecutionId("refund-42")
SECRET = "4111-1111"


def event(type_: str, payload: Any, metadata: Any = None) -> EventRecord:
    return EventRecord(0, type_, 1, orjson.dumps(payload), orjson.dumps(metadata) if metadata else b"")


def redacted(payload: Any, *fields: str, patterns: tuple[str, ...] = (), type_: str = "STEP_COMPLETED") -> Any:
    redaction = Redaction(fields, [re.compile(pattern) for pattern in patterns])
    return orjson.loads(redaction.record(RUN, event(type_, payload)).payload)


@pytest.mark.parametrize(
    ("field", "left"),
    [
        ("card", {"card": MARK, "of": {"card": MARK, "number": 7}, "list": [{"card": MARK}]}),
        ("of.number", {"card": SECRET, "of": {"card": 1, "number": MARK}, "list": [{"card": 2}]}),
        ("result.of", {"card": SECRET, "of": MARK, "list": [{"card": 2}]}),
        ("*i?t", {"card": SECRET, "of": {"card": 1, "number": 7}, "list": MARK}),
        ("result", {"card": MARK, "of": MARK, "list": MARK}),
        ("number.of", {"card": SECRET, "of": {"card": 1, "number": 7}, "list": [{"card": 2}]}),
    ],
)
def test_a_field_is_left_out_wherever_it_is(field: str, left: Any) -> None:
    result = {"card": SECRET, "of": {"card": 1, "number": 7}, "list": [{"card": 2}]}

    assert redacted({"start": 3, "result": result}, field) == {"start": 3, "result": left}


def test_a_pattern_is_left_out_of_texts_numbers_and_keys() -> None:
    result = {"told": "pay 4111 now", "number": 4111, "4111": True, "right": True, "other": 12}

    found = redacted({"start": 3, "result": result}, patterns=("4111",))

    assert found["result"] == {"told": f"pay {MARK} now", "number": MARK, MARK: True, "right": True, "other": 12}


@pytest.mark.parametrize(
    "value", [{1: SECRET, "card": SECRET}, {"$card": SECRET}, [("card", SECRET)], {"a": {"card": (SECRET,)}}]
)
def test_it_is_left_out_however_python_values_are_written(value: Any) -> None:
    found = redacted({"start": 3, "result": values.encode(value)}, patterns=(re.escape(SECRET),))

    assert SECRET not in orjson.dumps(found).decode()


def test_digests_and_addresses_are_blanked() -> None:
    started = {"id": "pay", "ordinal": 0, "digest": "abc", "args": {"card": SECRET}}
    result = {"$claimed": {"ref": "a" * 64, "size": 9}}

    assert redacted(started, "card", type_="STEP_STARTED") == {**started, "digest": "", "args": {"card": MARK}}
    assert redacted({"start": 1, "result": result}, "card")["result"] == {"$claimed": {"ref": "0" * 64, "size": 9}}


def test_a_pattern_in_a_name_is_refused_and_the_refusal_does_not_tell_it() -> None:
    started = {"id": f"pay-{SECRET}", "ordinal": 0, "digest": "abc"}

    with pytest.raises(RedactionRefused) as refused:
        redacted(started, patterns=(re.escape(SECRET),), type_="STEP_STARTED")
    with pytest.raises(RedactionRefused):
        Redaction([], [re.compile(SECRET)]).refuse_name(ExecutionId(f"r-{SECRET}"))

    assert SECRET not in str(refused.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["a", f"x {SECRET} y", SECRET]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", SECRET]), inner, max_size=3),
    max_leaves=8,
)


@given(name=st.sampled_from(sorted(VALUES)), value=json_values)
def test_nothing_of_it_is_left_anywhere_in_a_value(name: str, value: Any) -> None:
    found = redacted({"start": 3, name: value}, patterns=(re.escape(SECRET),))

    assert SECRET not in orjson.dumps(found).decode()


@pytest.mark.parametrize("name", logs.names())
async def test_a_log_without_its_values_is_shown_at_every_event_and_replayed_nowhere(name: str, tmp_path: Path) -> None:
    golden = logs.read(name)
    data, written = await packed(
        await store_of(golden.run, golden.log), golden.run, redaction=Redaction(sorted(VALUES))
    )
    bundle = await opened(tmp_path / "r.loombundle", data)

    log = await log_of(bundle, golden.run)
    verdict = (await Replayer({}, {}).replay(golden.run, await bundle.read(golden.run))).verdict

    assert len(log.events) == len(golden.log)
    for end in range(1, len(log.events) + 1):
        assert execution_json(execution_view(fold_at(log.events[:end]), log.events[:end]))
    assert written.manifest.redacted is not None
    assert (verdict.kind, verdict.is_fine) == ("redacted", False)
    with pytest.raises(BundleRedacted):
        await imported_from(tmp_path / "r.loombundle", MemoryStorage())
    await bundle.close()


async def test_neither_the_listing_nor_the_contents_of_a_redacted_bundle_tell_it(tmp_path: Path) -> None:
    golden, store = logs.read("hello"), MemoryStorage()
    start = orjson.loads(golden.log[0].payload) | {"attributes": {"card": SECRET}, "input": SECRET}
    ref = await store.content_store().put(SECRET.encode() * 99)
    place = next(number for number, record in enumerate(golden.log) if record.type == "STEP_COMPLETED")
    claimed = golden.log[place]._replace(payload=b'{"start":1,"result":{"ref":"%s","size":9}}' % ref.encode())
    records = [golden.log[0]._replace(payload=orjson.dumps(start)), *golden.log[1:]]
    records[place] = claimed
    row = await (await store_of(golden.run, records)).row(golden.run)
    assert row is not None
    await appended(store, replace(first(golden.run), events=records, index=row.index))

    data, _ = await packed(store, golden.run, redaction=Redaction(["card", "input"], [re.compile(SECRET)]))

    everything = b"".join(members_of(data).values())
    assert SECRET.encode() not in everything
    assert ref.encode() not in everything
    assert b'\\"card\\":\\"[redacted]\\"' in everything


async def test_a_compacted_log_is_redacted_with_its_archive_only() -> None:
    golden, store = logs.read("gates"), MemoryStorage()
    kept = [golden.log[0], *golden.log[3:]]
    await appended(store, replace(first(golden.run), events=kept))

    with pytest.raises(LogCompacted, match="the log cannot be redacted"):
        await packed(store, golden.run, redaction=Redaction(["card"]))


def test_an_event_that_is_redacted_is_still_one() -> None:
    for name in logs.names():
        golden = logs.read(name)
        redaction = Redaction(sorted(VALUES))
        assert decode_events(golden.run, [redaction.record(golden.run, record) for record in golden.log])
