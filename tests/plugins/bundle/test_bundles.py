"""What is put into a bundle is what is read from it, and the same runs give the same bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId, Incarnation
from loom.core.json import JsonObject
from loom.devtools.conformance.event_trim import DONE
from loom.devtools.conformance.logs import INDEX, appended, first
from loom.driving.stored_log import log_of
from loom.lenses.execution import execution_view
from loom.lenses.folding import fold_at, log_chain, state_digest
from loom.lenses.shapes import execution_json
from loom.plugins.bundle import BundleReadOnly, BundleStorage
from loom.plugins.bundle.lines import line_of, record_of
from loom.plugins.bundle.shapes import PART_BYTES
from loom.plugins.sqlite import SqliteStorage
from loom.spi.errors import StoreNotFound
from loom.spi.event_fork import EventFork, Source
from loom.spi.event_store import EventRecord, ExecutionQuery, Storage
from loom.spi.memory import MemoryStorage
from tests.golden import logs
from tests.plugins.bundle.packing import packed, store_of

RUN = ExecutionId("refund-42")


def written(path: Path, bundle: bytes) -> Path:
    path.write_bytes(bundle)
    return path


async def opened(path: Path, bundle: bytes) -> BundleStorage:
    storage = BundleStorage(written(path, bundle))
    await storage.open()
    return storage


def shown(events: Sequence[EventEnvelope[Any]]) -> JsonObject:
    return execution_json(execution_view(fold_at(events), events))


@pytest.mark.parametrize("name", logs.names())
async def test_a_log_reads_from_a_bundle_as_from_its_store_at_every_event(name: str, tmp_path: Path) -> None:
    golden = logs.read(name)
    store = await store_of(golden.run, golden.log)
    bundle = await opened(tmp_path / "run.loombundle", (await packed(store, golden.run))[0])

    there, here = await log_of(store, golden.run), await log_of(bundle, golden.run)

    assert list(await bundle.read(golden.run)) == golden.log
    assert log_chain(here.events) == log_chain(there.events)
    assert state_digest(here.state()) == golden.digests[-1]
    assert await bundle.row(golden.run) == await store.row(golden.run)
    for end in range(1, len(golden.log) + 1):
        assert shown(here.events[:end]) == shown(there.events[:end])
    row = await store.row(golden.run)
    assert row is not None
    assert isinstance(bundle, EventFork)
    half = Source(golden.run, row.incarnation, len(golden.log) // 2)
    assert await bundle.payloads_with(half, b'"id"') == await store.payloads_with(half, b'"id"')
    assert await bundle.payloads_with(half._replace(incarnation=Incarnation(row.incarnation + 1)), b"") == []
    await bundle.close()


@given(
    st.lists(
        st.tuples(st.text(max_size=8), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=40), st.binary(max_size=9)),
        max_size=5,
    )
)
def test_an_event_is_read_as_the_bytes_that_it_was(found: list[tuple[str, int, bytes, bytes]]) -> None:
    for sequence, (type_, at, payload, metadata) in enumerate(found):
        record = EventRecord(sequence, type_.encode("utf-8", "replace").decode(), at, payload, metadata)

        assert record_of(RUN, line_of(RUN, record).rstrip(b"\n")) == record


ODD = [b'{"a": 1}', b'{"a":1e400}', b"12345678901234567890123", b'{"a":1,"a":2}', b'"\xc3\xa9"', b"\xff", b"", b"null"]


@pytest.mark.parametrize("payload", ODD)
def test_a_payload_that_others_wrote_is_kept_to_the_byte(payload: bytes) -> None:
    record = EventRecord(0, "X", 1, payload, payload)

    assert record_of(RUN, line_of(RUN, record)) == record


async def test_the_same_runs_give_the_same_bytes_from_any_store(tmp_path: Path) -> None:
    golden = logs.read("branches")
    store = await store_of(golden.run, golden.log)
    row = await store.row(golden.run)
    assert row is not None
    sqlite = SqliteStorage(tmp_path / "loom.db")
    await appended(sqlite, replace(first(golden.run), events=golden.log, index=row.index))

    once, first_time = await packed(store, golden.run)
    again, _ = await packed(store, golden.run)
    other, elsewhere = await packed(sqlite, golden.run)
    await sqlite.close()

    assert once == again == other
    assert first_time.digest == elsewhere.digest


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(start=st.integers(0, 40), stop=st.none() | st.integers(0, 40), limit=st.sampled_from([1, 200_000, 4 << 20]))
async def test_a_long_log_is_read_by_the_page_as_from_its_store(
    start: int, stop: int | None, limit: int, tmp_path: Path
) -> None:
    store = MemoryStorage()
    payloads = [b'"%s"' % (b"%02d" % number * 60_000) for number in range(37)]
    await appended(store, first(RUN, *payloads))
    data, told = await packed(store, RUN)
    bundle = await opened(tmp_path / "long.loombundle", data)

    found = await bundle.read(RUN, start=start, stop=stop, limit_bytes=limit)

    whole, place = list[EventRecord](), start
    while page := await bundle.read(RUN, start=place, stop=stop, limit_bytes=limit):
        whole += page
        place = page[-1].sequence + 1
    assert whole == list(await store.read(RUN, start=start, stop=stop, limit_bytes=1 << 40))
    assert found == whole[: len(found)]
    assert bool(found) == bool(whole)
    assert len(told.manifest.logs[0].parts) == -(-sum(map(len, payloads)) // PART_BYTES)
    assert len(data) < sum(map(len, payloads)) // 10
    await bundle.close()


# Which logs belong together


FAMILY = [
    ("p", replace(DONE, chain="p")),
    ("p~2", replace(DONE, chain="p", link=2)),
    ("p:a", replace(DONE, chain="p:a", parent="p")),
    ("p:a~2", replace(DONE, chain="p:a", link=2, parent="p")),
    ("p:a:b", replace(DONE, chain="p:a:b", parent="p:a")),
    ("q", replace(DONE, chain="q")),
]
"""A chain of two links with a child of two, which has a child itself; beside it a run that is nobody's."""


async def family(store: Storage) -> None:
    for name, index in FAMILY:
        await appended(store, first(ExecutionId(name), b"0", index=index))


async def test_links_children_and_theirs_come_along_and_nobody_else(tmp_path: Path) -> None:
    store = MemoryStorage()
    await family(store)

    bundle = await opened(tmp_path / "p.loombundle", (await packed(store, "p"))[0])

    assert await bundle.ids() == ["p", "p:a", "p:a:b", "p:a~2", "p~2"]
    for query in (
        ExecutionQuery(tips=True),
        ExecutionQuery(parent="p"),
        ExecutionQuery(chain="p"),
        ExecutionQuery(ended=True, before=(DONE.started_at, "p:z")),
    ):
        kept = [row for row in await store.find(query) if row.execution_id != "q"]
        assert [row.execution_id for row in await bundle.find(query)] == [row.execution_id for row in kept]
    await bundle.close()


async def test_contents_come_along_and_those_that_are_gone_are_named(tmp_path: Path) -> None:
    store = MemoryStorage()
    contents = store.content_store()
    large = b"page" * 700_000
    there, gone = await contents.put(large), "0" * 64
    named = [b'{"result":{"$claimed":{"ref":"%s","size":%d}}}' % (ref.encode(), 4) for ref in (there, gone)]
    await appended(store, first(RUN, *named, index=INDEX))

    data, told = await packed(store, RUN)
    bundle = await opened(tmp_path / "run.loombundle", data)
    kept = bundle.content_store()

    assert told.manifest.missing == [gone]
    assert await kept.sizes([there]) == {there: len(large)}
    assert await kept.get_many([there]) == {there: large}
    assert b"".join([piece async for piece in kept.stream(there, start=5, stop=2_000_001)]) == large[5:2_000_001]
    await bundle.close()


async def test_nothing_is_written_to_a_bundle(tmp_path: Path) -> None:
    store = MemoryStorage()
    await appended(store, first(RUN, b"0"))
    bundle = await opened(tmp_path / "run.loombundle", (await packed(store, RUN))[0])
    before = (tmp_path / "run.loombundle").read_bytes()

    with pytest.raises(BundleReadOnly, match="a bundle is for looking"):
        await bundle.append([first(ExecutionId("other"), b"0")])
    with pytest.raises(BundleReadOnly):
        await bundle.claim("me", lease_ms=1, limit=1)
    with pytest.raises(BundleReadOnly):
        await bundle.content_store().put(b"x")

    assert (tmp_path / "run.loombundle").read_bytes() == before
    await bundle.close()


async def test_a_feed_gives_what_is_there(tmp_path: Path) -> None:
    store = MemoryStorage()
    await appended(store, first(RUN, b"0", b"1", b"2"))
    bundle = await opened(tmp_path / "run.loombundle", (await packed(store, RUN))[0])

    feed: AsyncIterator[EventRecord] = bundle.subscribe(RUN, start=1)

    assert [(await anext(feed)).sequence for _ in range(2)] == [1, 2]
    await bundle.close()


async def test_one_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFound, match="there is no such bundle"):
        await BundleStorage(tmp_path / "none.loombundle").open()
