"""What every `EventTrim` must do to logs and lanes that go on: the part of its kit that is not about deleting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, Protocol

from loom.core.ids import Incarnation
from loom.devtools.conformance.logs import CLAIM, INDEX, NOBODY, REFUND, after, appended, first, insert, ok, row_of
from loom.spi.event_store import (
    Appended,
    Conflict,
    EventRecord,
    Head,
    Lane,
    LaneNotEmpty,
    LeaseChange,
    Request,
    RequestTaken,
    Storage,
)
from loom.spi.event_trim import EventTrim
from loom.spi.snapshot_store import Snapshot, SnapshotHead, SnapshotStore, snapshot_digest

TYPES: Final = ("STARTED", "ASKED", "user.seen", "DONE", "ASKED", "user.heard", "DONE", "ASKED")
_PATIENCE_S: Final = 10.0


class CompactedStorage(Storage, EventTrim, SnapshotStore, Protocol):
    """A store of logs that can be trimmed, with the checkpoints that stand for what is gone."""


def snapshot(log: Appended, sequence: int, *, body: bytes = b"state", **fields: Any) -> Snapshot:
    """Return a snapshot of the log after the event at *sequence*; *fields* are others of its head."""
    head = SnapshotHead(REFUND, log.incarnation, sequence, "1.0.0", "1.0.0", "json", False, 5_000, len(body), "")
    head = head._replace(**fields)
    return Snapshot(head._replace(digest=snapshot_digest(head, body)), body)


async def begun(store: Storage, *types: str) -> Appended:
    """Write a log of events of these types, each with its number as its payload."""
    events = [
        EventRecord(place, type_, 1_000 + place, b"%d" % place, b"") for place, type_ in enumerate(types or TYPES)
    ]
    return await appended(store, replace(first(REFUND), events=events))


async def sequences(store: Storage, start: int = 0, stop: int | None = None) -> list[int]:
    """Return the sequences of the events that the store has of the log."""
    return [event.sequence for event in await store.read(REFUND, start=start, stop=stop)]


async def trimmed(store: CompactedStorage, log: Appended, sequence: int, *keeping: str) -> int | None:
    """Trim the log up to *sequence*, with a checkpoint there."""
    return await store.trim(snapshot(log, sequence, is_checkpoint=True), keeping=keeping)


async def whole(store: EventTrim, lane: Lane, **page: Any) -> list[Request]:
    """Return the consumed requests of a lane that are whole, read page by page."""
    found: list[Request] = []
    while some := await store.consumed(lane, after=found[-1].number if found else 0, **page):
        found += some
    return found


class TrimmingConformance:
    """The first part of a log goes; nothing else moves."""

    async def test_events_up_to_the_checkpoint_go_and_it_stays(self, store: CompactedStorage) -> None:
        log = await begun(store)
        checkpoint = snapshot(log, 4, is_checkpoint=True)

        assert await store.trim(checkpoint, keeping=["STARTED"]) == 4

        assert await sequences(store) == [0, 5, 6, 7]
        assert await store.latest_snapshot(REFUND, log.incarnation) == checkpoint
        assert [head.is_checkpoint for head in await store.snapshots(REFUND, log.incarnation)] == [True]

    async def test_what_stays_is_as_it_was(self, store: CompactedStorage) -> None:
        log = await begun(store)
        before = [event for event in await store.read(REFUND) if event.sequence in (0, 2, 5, 6, 7)]

        assert await trimmed(store, log, 5, "STARTED", "user.seen", "user.heard") == 3

        assert list(await store.read(REFUND)) == before

    async def test_length_row_and_lease_are_as_before(self, store: CompactedStorage) -> None:
        log = await begun(store)
        item = after(log, REFUND, b"more", lease=LeaseChange("mine", 15_000), index=replace(INDEX, gates="[7]"))
        log = await appended(store, item)
        row = await row_of(store, REFUND)

        await trimmed(store, log, 8)

        assert await store.head(REFUND) == Head(REFUND, log.incarnation, 9)
        assert await row_of(store, REFUND) == row
        assert await sequences(store) == []

    async def test_the_log_goes_on_where_it_ended(self, store: CompactedStorage) -> None:
        log = await begun(store)
        await trimmed(store, log, 7, "STARTED")

        result = await appended(store, after(log, REFUND, b"8", b"9"))

        assert result == Appended(log.incarnation, 10)
        assert await sequences(store) == [0, 8, 9]
        assert await store.append([after(log, REFUND, b"stray")]) == [Conflict(10, log.incarnation)]

    async def test_a_write_of_unknown_outcome_is_repeated_in_place(self, store: CompactedStorage) -> None:
        log = await begun(store)
        item = after(log, REFUND, b"8")
        result = await appended(store, item)
        await trimmed(store, result, 8, "STARTED")

        assert await appended(store, item) == result
        assert await sequences(store) == [0]

    async def test_ranges_and_pages_go_over_what_is_gone(self, store: CompactedStorage) -> None:
        log = await begun(store)
        await trimmed(store, log, 4, "STARTED", "user.seen")

        assert await sequences(store, 1, 5) == [2]
        assert await sequences(store, 3, 5) == []
        assert await sequences(store, 3) == [5, 6, 7]
        assert [event.sequence for event in await store.read(REFUND, start=1, limit_bytes=0)] == [2]

    async def test_a_feed_goes_over_what_is_gone(self, store: CompactedStorage) -> None:
        log = await begun(store)
        async with aclosing(_feed(store)) as feed:
            seen = [(await _next(feed)).sequence]
            await trimmed(store, log, 4, "STARTED", "user.seen")
            async with aclosing(_feed(store)) as later:
                told = [(await _next(later)).sequence for _ in range(5)]
                await appended(store, after(log, REFUND, b"8"))
                told.append((await _next(later)).sequence)
            seen += [(await _next(feed)).sequence for _ in range(8)]

        assert told == [0, 2, 5, 6, 7, 8]
        assert seen == list(range(9))  # it had read the page already

    async def test_a_second_trim_goes_on_from_the_first(self, store: CompactedStorage) -> None:
        log = await begun(store)
        await trimmed(store, log, 2, "STARTED", "user.seen")

        assert await trimmed(store, log, 6, "STARTED", "user.heard") == 4

        assert await sequences(store) == [0, 5, 7]
        assert [head.sequence for head in await store.snapshots(REFUND, log.incarnation)] == [6]

    async def test_a_trim_that_a_later_one_has_overtaken_does_nothing(self, store: CompactedStorage) -> None:
        log = await begun(store)
        await trimmed(store, log, 5, "STARTED", "user.seen")
        there = await store.latest_snapshot(REFUND, log.incarnation)

        for sequence in (5, 3):
            assert await trimmed(store, log, sequence) is None

        assert await sequences(store) == [0, 2, 6, 7]
        assert await store.latest_snapshot(REFUND, log.incarnation) == there

    async def test_a_snapshot_at_its_place_becomes_the_checkpoint(self, store: CompactedStorage) -> None:
        log = await begun(store)
        assert await store.put_snapshot(snapshot(log, 4, body=b"as a cache"))
        assert await store.put_snapshot(snapshot(log, 6, body=b"later"))

        assert await trimmed(store, log, 4, "STARTED") == 4

        assert [(h.sequence, h.is_checkpoint) for h in await store.snapshots(REFUND, log.incarnation)] == [
            (6, False),
            (4, True),
        ]

    async def test_another_life_an_unknown_id_and_a_log_that_is_shorter_are_left_alone(
        self, store: CompactedStorage
    ) -> None:
        log = await begun(store)
        another = Appended(Incarnation(log.incarnation + 1), 8)

        assert await trimmed(store, another, 3) is None
        assert await trimmed(store, log, 8) is None
        assert await store.trim(snapshot(log, 0, execution_id=NOBODY, is_checkpoint=True), keeping=()) is None

        assert await sequences(store) == list(range(8))
        assert list(await store.snapshots(REFUND, log.incarnation)) == []

    async def test_other_logs_are_left_alone(self, store: CompactedStorage) -> None:
        log = await begun(store)
        await appended(store, first(CLAIM, b"1", b"2", b"3"))

        await trimmed(store, log, 7)

        assert [event.payload for event in await store.read(CLAIM)] == [b"1", b"2", b"3"]

    async def test_of_many_that_trim_at_once_the_last_checkpoint_stands(self, store: CompactedStorage) -> None:
        log = await begun(store)

        results = await asyncio.gather(*(trimmed(store, log, place % 8, "STARTED") for place in range(32)))

        assert [head.sequence for head in await store.snapshots(REFUND, log.incarnation)] == [7]
        assert any(each is not None for each in results)
        assert sum(each or 0 for each in results) == 7
        assert await sequences(store) == [0]

    async def test_who_appends_meanwhile_is_not_disturbed(self, store: CompactedStorage) -> None:
        log = await begun(store)

        async def grow() -> Appended:
            head = log
            for number in range(8, 40):
                [result] = await store.append([after(head, REFUND, b"%d" % number)])
                head = ok(result)
            return head

        growing = asyncio.create_task(grow())
        for _ in range(8):
            there = await store.head(REFUND)
            assert there is not None
            await trimmed(store, log, there.length - 1, "STARTED")
        last = await growing

        assert last.length == 40
        base = (await store.snapshots(REFUND, log.incarnation))[0].sequence
        assert await sequences(store) == [0, *range(base + 1, 40)]

    async def test_a_later_life_has_nothing_of_it(self, store: CompactedStorage) -> None:
        done = replace(INDEX, status="completed", ended=True)
        log = await begun(store)
        log = await appended(store, after(log, REFUND, b"end", index=done))
        await trimmed(store, log, 8, "STARTED")
        await store.delete([[Head(REFUND, *log)]])

        again = await appended(store, first(REFUND, b"new"))

        assert await trimmed(store, log, 0) is None
        assert await store.latest_snapshot(REFUND, again.incarnation) is None
        assert [event.payload for event in await store.read(REFUND)] == [b"new"]


class LaneTrimmingConformance:
    """Consumed requests go; what may happen once still happens once."""

    async def test_consumed_requests_are_told_and_pending_ones_are_not(self, store: CompactedStorage) -> None:
        lane, _ = await _consumed(store, 1, 3)

        assert await whole(store, lane) == [_message(1), _message(3)]
        assert await whole(store, lane, limit_bytes=0) == [_message(1), _message(3)]
        assert [each.number for each in await store.consumed(lane, after=1)] == [3]
        assert list(await store.consumed(Lane(NOBODY, lane.incarnation))) == []

    async def test_what_is_trimmed_is_gone_once(self, store: CompactedStorage) -> None:
        lane, _ = await _consumed(store, 1, 3)

        assert await store.trim_lane(lane, [1, 3]) == 2
        assert await store.trim_lane(lane, [1, 3]) == 0

        assert await whole(store, lane) == []
        assert [each.number for each in await store.pending(*lane)] == [2, 4]

    async def test_pending_and_unknown_requests_stay(self, store: CompactedStorage) -> None:
        lane, _ = await _consumed(store, 1)

        assert await store.trim_lane(lane, [2, 4, 77]) == 0
        assert await store.trim_lane(lane._replace(incarnation=Incarnation(lane.incarnation + 1)), [1]) == 0

        assert await whole(store, lane) == [_message(1)]
        assert list(await store.pending(*lane)) == [_message(2), _message(3), _message(4)]

    async def test_a_key_stays_taken(self, store: CompactedStorage) -> None:
        lane, log = await _consumed(store, 1, 2)
        await store.trim_lane(lane, [1, 2])

        assert await insert(store, log, key="key-2") == RequestTaken(2, pending=False)
        assert list(await store.pending(*lane)) == [_message(3), _message(4)]

    async def test_a_number_is_not_given_again(self, store: CompactedStorage) -> None:
        lane, log = await _consumed(store, 1, 2, 3, 4, keyed=False)
        await store.trim_lane(lane, [1, 2, 3, 4])

        assert [await insert(store, log) for _ in range(2)] == [5, 6]

        assert [each.number for each in await store.pending(*lane)] == [5, 6]
        await appended(store, after(log, REFUND, b"{}", consumes=[5]))
        assert [each.number for each in await whole(store, lane)] == [5]

    async def test_a_trimmed_request_keeps_nobody_from_parking(self, store: CompactedStorage) -> None:
        lane, log = await _consumed(store, 1, 2, 3)
        await store.trim_lane(lane, [1, 2, 3])

        [refused] = await store.append([after(log, REFUND, b"{}", lane_above=3)])
        result = await appended(store, after(log, REFUND, b"{}", lane_above=4))

        assert (refused, result.length) == (LaneNotEmpty(1), log.length + 1)

    async def test_that_the_end_was_asked_for_is_still_told(self, store: CompactedStorage) -> None:
        log = await appended(store, first(REFUND))
        await insert(store, log, key="cancel")
        log = await appended(store, after(log, REFUND, b"{}", consumes=[1]))

        await store.trim_lane(Lane(REFUND, log.incarnation), [1])

        assert (await row_of(store, REFUND)).cancel_asked


def _message(number: int, *, keyed: bool = True) -> Request:
    return Request(number, "message", f"key-{number}" if keyed else "", 100 + number, b'{"topic":"t%d"}' % number)


async def _consumed(store: Storage, *numbers: int, keyed: bool = True) -> tuple[Lane, Appended]:
    """Return a lane with four messages of which *numbers* are consumed, and where its log stands."""
    log = await appended(store, first(REFUND))
    for each in (_message(number, keyed=keyed) for number in range(1, 5)):
        inserted = await store.insert(REFUND, log.incarnation, kind=each.kind, key=each.key, at=each.at, body=each.body)
        assert inserted == each.number
    return Lane(REFUND, log.incarnation), await appended(store, after(log, REFUND, b"{}", consumes=list(numbers)))


def _feed(store: Storage) -> Any:
    return store.subscribe(REFUND)


async def _next(feed: AsyncIterator[EventRecord]) -> EventRecord:
    async with asyncio.timeout(_PATIENCE_S):
        return await anext(feed)
