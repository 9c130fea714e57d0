"""What every store must do that can begin a log with a copy of another: inherit the class and give the fixture *store*."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
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
    insert,
    payloads,
    row_of,
)
from loom.devtools.conformance.snapshot_store import snapshot
from loom.spi.event_fork import EventFork, Fork, Forked, Source, SourceLacking
from loom.spi.event_store import Append, Appended, Conflict, EventRecord, ExecutionQuery, LeaseChange, Storage
from loom.spi.event_trim import EventTrim
from loom.spi.snapshot_store import SnapshotStore, reborn
from loom.spi.where_text import parse_where

FORK: Final = ExecutionId("refund-42-fork")
_MANY: Final = 3_000


class ForkingStorage(Storage, EventFork, Protocol):
    """A store that can do both."""


def source(head: Appended, through: int, *, execution_id: ExecutionId = REFUND) -> Source:
    """Return the beginning of the log that stands at *head*."""
    return Source(execution_id, head.incarnation, through)


def fork(*added: bytes, copied: int, execution_id: ExecutionId = FORK, **fields: Any) -> Append:
    """Return an item that begins a log behind so many *copied* events."""
    item = Append(
        execution_id=execution_id,
        incarnation=None,
        expected=copied,
        append_id=uuid.uuid4().hex,
        events=events(*added, start=copied),
        index=replace(INDEX, status="forked", chain=execution_id),
    )
    return replace(item, **fields)


def done(result: Forked) -> Appended:
    """Return *result*, which must be a success."""
    assert isinstance(result, Appended), result
    return result


class EventForkConformance:
    """Beginning a log with a copy of another."""

    async def test_it_is_an_event_fork(self, store: ForkingStorage) -> None:
        assert isinstance(store, EventFork)

    async def test_a_fork_has_the_prefix_and_then_what_is_its_own(self, store: ForkingStorage) -> None:
        head = await appended(store, first(REFUND, b"0", b"1", b"2"))

        forked = done(await store.fork(source(head, 1), fork(b"own", copied=2)))

        assert await payloads(store, FORK) == [b"0", b"1", b"own"]
        assert forked.length == 3
        assert forked.incarnation != head.incarnation
        assert await payloads(store, REFUND) == [b"0", b"1", b"2"]

    async def test_payloads_that_hold_a_text_are_found_up_to_where_the_copy_ends(self, store: ForkingStorage) -> None:
        head = await appended(store, first(REFUND, b'{"ref":"\xc3\xa9"}', b"{}", b'{"a":{"ref":1}}', b'{"ref":2}'))

        assert await store.payloads_with(source(head, 2), b'"ref":') == [b'{"ref":"\xc3\xa9"}', b'{"a":{"ref":1}}']
        assert await store.payloads_with(source(head, 3), b'":"\xc3\xa9"') == [b'{"ref":"\xc3\xa9"}']
        assert await store.payloads_with(source(head, 3), b"%") == []
        gone = source(head, 3)._replace(incarnation=Incarnation(head.incarnation + 1))
        assert await store.payloads_with(gone, b"ref") == []

    async def test_events_are_copied_as_they_are(self, store: ForkingStorage) -> None:
        odd = EventRecord(1, "user.\u0442\u0435\u0441\u0442", 7, b'{"a":"\x00\\u0000"}', b'{"v":3}')
        head = await appended(store, first(REFUND, b"0"))
        head = await appended(store, after(head, REFUND, events=[odd]))

        done(await store.fork(source(head, 1), fork(b"own", copied=2)))

        assert (await store.read(FORK, start=1, stop=2))[0] == odd

    async def test_a_fork_is_listed_and_held_by_nobody(self, store: ForkingStorage) -> None:
        head = await appended(store, first(REFUND, b"0"))
        head = await appended(store, after(head, REFUND, b"1", lease=LeaseChange("somebody", 60_000)))

        done(await store.fork(source(head, 0), fork(b"own", copied=1)))

        row = await row_of(store, FORK)
        assert (row.length, row.index.status, row.index.chain, row.driver) == (2, "forked", FORK, "")
        assert await store.drivers() == ["somebody"]

    async def test_a_fork_is_found_by_its_attributes(self, store: ForkingStorage) -> None:
        index = replace(INDEX, attributes='{"customer":"c7"}')
        begun = await appended(store, first(REFUND, b"1", index=index))
        done(await store.fork(source(begun, 0), fork(copied=1, index=replace(index, chain=FORK, started_at=9_000))))

        found = await store.find(ExecutionQuery(where=parse_where("attr.customer=c7", now_ms=0)))

        assert [row.execution_id for row in found] == [FORK, REFUND]

    async def test_a_fork_goes_on_by_itself(self, store: ForkingStorage) -> None:
        head = await appended(store, first(REFUND, b"0", b"1"))
        forked = done(await store.fork(source(head, 0), fork(b"own", copied=1)))

        await appended(store, after(forked, FORK, b"more"))
        await appended(store, after(head, REFUND, b"2"))

        assert await payloads(store, FORK) == [b"0", b"own", b"more"]
        assert await payloads(store, REFUND) == [b"0", b"1", b"2"]

    async def test_requests_are_not_copied(self, store: ForkingStorage) -> None:
        head = await appended(store, first(REFUND, b"0"))
        await insert(store, head, key="gate:1")

        forked = done(await store.fork(source(head, 0), fork(b"own", copied=1)))

        assert list(await store.pending(FORK, forked.incarnation)) == []
        assert await insert(store, forked, execution_id=FORK, key="gate:1") == 1

    async def test_an_id_that_is_taken_is_a_conflict(self, store: ForkingStorage) -> None:
        head = await appended(store, first(REFUND, b"0"))
        taken = await appended(store, first(FORK, b"theirs"))

        result = await store.fork(source(head, 0), fork(b"own", copied=1))

        assert result == Conflict(1, taken.incarnation)
        assert await payloads(store, FORK) == [b"theirs"]

    async def test_a_fork_whose_answer_was_lost_is_repeated_in_place(self, store: ForkingStorage) -> None:
        head = await appended(store, first(REFUND, b"0"))
        item = fork(b"own", copied=1)
        forked = await store.fork(source(head, 0), item)

        assert await store.fork(source(head, 0), item) == forked
        assert await payloads(store, FORK) == [b"0", b"own"]

    async def test_what_is_not_there_is_not_copied(self, store: ForkingStorage) -> None:
        head = await appended(store, first(REFUND, b"0"))
        another = Source(REFUND, type(head.incarnation)(head.incarnation + 1), 0)

        assert await store.fork(source(head, 1), fork(b"own", copied=2)) == SourceLacking()
        assert await store.fork(another, fork(b"own", copied=1)) == SourceLacking()
        assert await store.fork(source(head, 0, execution_id=CLAIM), fork(b"own", copied=1)) == SourceLacking()

        assert await store.head(FORK) is None
        assert await payloads(store, FORK) == []

    async def test_a_fork_of_a_compacted_log_begins_with_a_checkpoint(self, store: ForkingStorage) -> None:
        if not isinstance(store, SnapshotStore) or not isinstance(store, EventTrim):
            return
        head = await appended(store, first(REFUND, *(b"%d" % n for n in range(6))))
        await store.trim(snapshot(head, 3, is_checkpoint=True), keeping=[])
        left = [await store.read(REFUND), await store.snapshots(REFUND, head.incarnation)]

        mine = snapshot(head, 3, run=FORK, body=b"mine", is_checkpoint=True)
        forked = done(await store.fork(source(head, 4), fork(b"own", copied=5), checkpoint=mine))

        assert [event.sequence for event in await store.read(FORK)] == [4, 5]
        assert (forked.length, (await row_of(store, FORK)).length) == (6, 6)
        assert await store.latest_snapshot(FORK, forked.incarnation) == reborn(mine, forked.incarnation)
        assert [await store.read(REFUND), await store.snapshots(REFUND, head.incarnation)] == left
        assert await store.source_of(FORK) == source(head, 4)

    async def test_what_comes_after_the_checkpoint_of_a_fork_must_be_there(self, store: ForkingStorage) -> None:
        if not isinstance(store, SnapshotStore) or not isinstance(store, EventTrim):
            return
        head = await appended(store, first(REFUND, *(b"%d" % n for n in range(6))))
        await store.trim(snapshot(head, 3, is_checkpoint=True), keeping=[])
        mine = snapshot(head, 2, run=FORK, is_checkpoint=True)

        assert await store.fork(source(head, 4), fork(b"own", copied=5)) == SourceLacking()
        assert await store.fork(source(head, 4), fork(b"own", copied=5), checkpoint=mine) == SourceLacking()
        another = Source(REFUND, type(head.incarnation)(head.incarnation + 1), 2)
        assert await store.fork(another, fork(b"own", copied=3), checkpoint=mine) == SourceLacking()

        assert await store.head(FORK) is None
        assert await payloads(store, FORK) == []

    async def test_a_fork_with_a_checkpoint_whose_answer_was_lost_is_repeated_in_place(
        self, store: ForkingStorage
    ) -> None:
        if not isinstance(store, SnapshotStore) or not isinstance(store, EventTrim):
            return
        head = await appended(store, first(REFUND, *(b"%d" % n for n in range(6))))
        await store.trim(snapshot(head, 4, is_checkpoint=True), keeping=[])
        mine, item = snapshot(head, 2, run=FORK, is_checkpoint=True), fork(b"own", copied=3)
        forked = await store.fork(source(head, 2), item, checkpoint=mine)

        assert await store.fork(source(head, 2), item, checkpoint=mine) == forked
        again = await store.fork(source(head, 2), fork(b"own", copied=3), checkpoint=mine)
        assert again == Conflict(4, done(forked).incarnation)

        assert [each.sequence for each in await store.snapshots(FORK, done(forked).incarnation)] == [2]
        assert [event.sequence for event in await store.read(FORK)] == [3]

    async def test_many_forks_of_one_log_at_once(self, store: ForkingStorage) -> None:
        head = await appended(store, first(REFUND, b"0", b"1"))
        names = [ExecutionId(f"fork-{number}") for number in range(10)]

        await asyncio.gather(
            *(store.fork(source(head, n % 2), fork(b"own", copied=n % 2 + 1, execution_id=names[n])) for n in range(10))
        )

        assert [await payloads(store, name) for name in names[:2]] == [[b"0", b"own"], [b"0", b"1", b"own"]]
        assert len({(await row_of(store, name)).incarnation for name in names}) == 10

    async def test_a_long_log_is_copied_whole(self, store: ForkingStorage) -> None:
        head = await appended(store, first(REFUND, *(b"%d" % n for n in range(_MANY))))

        done(await store.fork(source(head, _MANY - 1), fork(b"own", copied=_MANY)))

        copied = await payloads(store, FORK)
        assert copied[:_MANY] == [b"%d" % n for n in range(_MANY)]
        assert copied[_MANY:] == [b"own"]

    async def test_who_is_a_fork_of_whom_is_known(self, store: ForkingStorage) -> None:
        head = await appended(store, first(REFUND, b"0", b"1"))
        one = done(await store.fork(source(head, 0), fork(b"own", copied=1)))
        two = done(await store.fork(source(head, 1), fork(b"own", copied=2, execution_id=CLAIM)))
        above = Source(FORK, one.incarnation, 0)
        deep = done(await store.fork(above, fork(b"own", copied=1, execution_id=ExecutionId("deep"))))

        assert list(await store.forks_of(REFUND, head.incarnation)) == [
            Fork(FORK, one.incarnation, 0),
            Fork(CLAIM, two.incarnation, 1),
        ]
        assert list(await store.forks_of(FORK, one.incarnation)) == [Fork(ExecutionId("deep"), deep.incarnation, 0)]
        assert [await store.source_of(each) for each in (FORK, CLAIM)] == [source(head, 0), source(head, 1)]
        assert await store.source_of(ExecutionId("deep")) == above
        assert await store.source_of(REFUND) is None
        assert list(await store.forks_of(REFUND, two.incarnation)) == []
