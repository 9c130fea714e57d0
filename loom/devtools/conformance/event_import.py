"""What every store must do that takes in whole logs: inherit the class and give the fixture *store*."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, Protocol

from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.logs import (
    CLAIM,
    INDEX,
    REFUND,
    after,
    appended,
    events,
    first,
    in_chain,
    insert,
    payloads,
    row_of,
)
from loom.spi.change_feed import ChangeFeed
from loom.spi.event_fork import EventFork, Fork
from loom.spi.event_import import Arrival, Brought, EventImport, Taken
from loom.spi.event_store import NOBODY, Appended, EventRecord, ExecutionQuery, Head, Storage
from loom.spi.snapshot_store import Snapshot, SnapshotHead, SnapshotStore, snapshot_digest
from loom.spi.where_text import parse_where

DONE: Final = replace(INDEX, status="completed", updated_at=7_000, ended=True)
_MANY: Final = 3_000


class ImportingStorage(Storage, EventImport, Protocol):
    """A store that can do both."""


class Damaged(Exception):
    """What the pages of an arrival raise that cannot be read."""


def arrival(execution_id: ExecutionId, *given: bytes, **fields: Any) -> Arrival:
    """Return a log that arrives with these payloads, two a page."""
    records, index = events(*given), in_chain(execution_id, fields.pop("index", DONE))
    pages = [records[place : place + 2] for place in range(0, len(records), 2)]
    return replace(Arrival(execution_id=execution_id, index=index, length=len(records), pages=lambda: pages), **fields)


def heads(brought: Brought) -> Sequence[Head]:
    """Return where the logs stand that were *brought*, which they must have been."""
    assert not isinstance(brought, Taken), brought
    return brought


class EventImportConformance:
    """Taking in whole logs."""

    async def test_it_is_an_event_import(self, store: ImportingStorage) -> None:
        assert isinstance(store, EventImport)

    async def test_logs_are_there_with_their_rows(self, store: ImportingStorage) -> None:
        other = arrival(CLAIM, b"3", index=replace(DONE, started_at=5, attributes='{"customer":"c7"}'))

        brought = heads(await store.bring([arrival(REFUND, b"0", b"1", b"2"), other]))

        assert [(head.execution_id, head.length) for head in brought] == [(REFUND, 3), (CLAIM, 1)]
        assert await store.head(REFUND) == brought[0]
        assert await payloads(store, REFUND) == [b"0", b"1", b"2"]
        row = await row_of(store, REFUND)
        assert (row.index, row.length, row.ended_at, row.driver) == (in_chain(REFUND, DONE), 3, 7_000, "")
        assert await store.ids() == [CLAIM, REFUND]
        found = await store.find(ExecutionQuery(where=parse_where('attr.customer="c7"', now_ms=0)))
        assert [row.execution_id for row in found] == [CLAIM]

    async def test_events_are_written_as_they_are(self, store: ImportingStorage) -> None:
        odd = EventRecord(0, "user.\u0442\u0435\u0441\u0442", 7, b'{"a":"\x00\\u0000"}', b'{"v":3}')
        plain = EventRecord(1, "X", 8, b"", b"")

        heads(await store.bring([arrival(REFUND, b"0", b"1", pages=lambda: [[odd, plain]])]))

        assert list(await store.read(REFUND)) == [odd, plain]

    async def test_a_long_log_arrives_whole(self, store: ImportingStorage) -> None:
        given = [b"%d" % number for number in range(_MANY)]

        heads(await store.bring([arrival(REFUND, *given)]))

        assert await payloads(store, REFUND) == given

    async def test_where_an_id_is_taken_nothing_is_written(self, store: ImportingStorage) -> None:
        await appended(store, first(REFUND, b"mine"))

        brought = await store.bring([arrival(CLAIM, b"0"), arrival(REFUND, b"theirs")])

        assert brought == Taken(REFUND)
        assert await store.ids() == [REFUND]
        assert await payloads(store, REFUND) == [b"mine"]

    async def test_what_arrived_is_not_taken_in_twice(self, store: ImportingStorage) -> None:
        heads(await store.bring([arrival(REFUND, b"0")]))

        assert await store.bring([arrival(REFUND, b"0")]) == Taken(REFUND)

    async def test_where_a_page_cannot_be_read_nothing_is_written(self, store: ImportingStorage) -> None:
        def torn() -> Iterator[Sequence[EventRecord]]:
            yield events(b"0")
            raise Damaged

        try:
            await store.bring([arrival(CLAIM, b"0"), arrival(REFUND, b"0", b"1", pages=torn)])
        except Damaged:
            pass
        else:
            raise AssertionError("what the pages raised was not raised")

        assert await store.ids() == []
        heads(await store.bring([arrival(CLAIM, b"0")]))

    async def test_links_and_children_stand_where_they_belong(self, store: ImportingStorage) -> None:
        link, child = ExecutionId(f"{REFUND}~2"), ExecutionId(f"{REFUND}:a")
        gone_on = replace(DONE, status="continued")

        heads(
            await store.bring(
                [
                    arrival(REFUND, b"0", index=gone_on),
                    arrival(link, b"0", index=replace(DONE, chain=REFUND, link=2)),
                    arrival(child, b"0", index=replace(DONE, parent=REFUND)),
                ]
            )
        )

        links = await store.find(ExecutionQuery(chain=REFUND, tips=True))
        children = await store.find(ExecutionQuery(parent=REFUND))
        assert [row.execution_id for row in links] == [link]
        assert [row.execution_id for row in children] == [child]
        assert (await row_of(store, REFUND)).index == in_chain(REFUND, gone_on)

    async def test_it_is_a_run_like_any_other(self, store: ImportingStorage) -> None:
        [head] = heads(await store.bring([arrival(REFUND, b"0", index=replace(INDEX, status="suspended"))]))

        number = await insert(store, Appended(head.incarnation, head.length), key="k")
        claimed = await store.claim("d", lease_ms=10, limit=9)
        await appended(store, after(Appended(head.incarnation, 1), REFUND, b"1", lease=NOBODY, consumes=[1]))

        assert number == 1
        assert [claim.row.execution_id for claim in claimed] == [REFUND]
        assert await payloads(store, REFUND) == [b"0", b"1"]

    async def test_nobody_is_given_what_has_ended_and_no_life_is_given_twice(self, store: ImportingStorage) -> None:
        own = await appended(store, first(CLAIM, b"0"))
        [head] = heads(await store.bring([arrival(REFUND, b"0")]))

        assert head.incarnation != own.incarnation
        assert await store.claim("d", lease_ms=10, limit=9) == []
        assert await store.pending(REFUND, head.incarnation) == []

    async def test_it_is_a_change_that_is_told_once(self, store: ImportingStorage) -> None:
        if not isinstance(store, ChangeFeed):
            return
        await appended(store, first(ExecutionId("before"), b"0"))
        cursor = await store.latest()

        [head] = heads(await store.bring([arrival(REFUND, b"0", b"1", b"2")]))

        told: list[int] = []
        while page := await store.changed(cursor):
            assert {(change.execution_id, change.incarnation) for change in page} == {head[:2]}
            told += [sequence for change in page for sequence in range(change.start, change.stop)]
            cursor = page[-1].cursor
        assert told == [0, 1, 2]

    async def test_a_checkpoint_is_that_of_the_new_life(self, store: ImportingStorage) -> None:
        if not isinstance(store, SnapshotStore):
            return
        body = b'{"a":1}'
        head = SnapshotHead(REFUND, Incarnation(99), 1, "1.0.0", "1.0.0", "json", True, 7, len(body), "")
        kept = Snapshot(head._replace(digest=sha256(b"of another life").hexdigest()), body)

        [there] = heads(
            await store.bring(
                [arrival(REFUND, b"0", b"1", b"2", checkpoint=kept, pages=lambda: [events(b"2", start=2)])]
            )
        )

        found = await store.latest_snapshot(REFUND, there.incarnation)
        assert found is not None
        assert (found.head.incarnation, found.head.is_checkpoint, found.body) == (there.incarnation, True, body)
        assert found.head.digest == snapshot_digest(found.head, body)
        assert [event.sequence for event in await store.read(REFUND)] == [2]
        assert there.length == 3

    async def test_a_fork_is_known_as_that_of_what_arrives_with_it(self, store: ImportingStorage) -> None:
        if not isinstance(store, EventFork):
            return
        await appended(store, first(ExecutionId("before"), b"0"))

        origin, fork = heads(await store.bring([arrival(REFUND, b"0", b"1"), arrival(CLAIM, b"0", source=(REFUND, 0))]))

        assert await store.forks_of(REFUND, origin.incarnation) == [Fork(CLAIM, fork.incarnation, 0)]
        source = await store.source_of(CLAIM)
        assert source is not None
        assert (source.execution_id, source.incarnation, source.through) == (REFUND, origin.incarnation, 0)
