"""What every `ArchiveStore` must do: inherit the class and give the fixture *store*, empty and open to each test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.logs import CLAIM, NOBODY, REFUND, events
from loom.spi.archive_store import ArchivedLife, ArchiveStore
from loom.spi.errors import ArchiveConflict
from loom.spi.event_store import EventRecord, Request

FIRST: Final = Incarnation(3)
SECOND: Final = Incarnation(8)


def requests(*bodies: bytes, start: int = 1) -> list[Request]:
    """Return messages with these bodies, numbered from *start*."""
    return [
        Request(start + place, "message", f"key-{start + place}", 1_700_000_000_000 + place, body)
        for place, body in enumerate(bodies)
    ]


async def all_archived(
    store: ArchiveStore, execution_id: ExecutionId, incarnation: Incarnation, **page: Any
) -> list[EventRecord]:
    """Return all events kept of a life, read page by page."""
    found: list[EventRecord] = []
    while records := await store.read_archived(
        execution_id, incarnation, start=found[-1].sequence + 1 if found else 0, **page
    ):
        found += records
    return found


async def all_archived_requests(
    store: ArchiveStore, execution_id: ExecutionId, incarnation: Incarnation, **page: Any
) -> list[Request]:
    """Return all requests kept of a life, read page by page."""
    found: list[Request] = []
    while some := await store.archived_requests(
        execution_id, incarnation, after=found[-1].number if found else 0, **page
    ):
        found += some
    return found


class ArchiveStoreConformance:
    """Keeping copies, and reading them again."""

    async def test_it_is_an_archive_store_with_a_name(self, store: ArchiveStore) -> None:
        assert isinstance(store, ArchiveStore)
        assert store.url

    async def test_what_is_archived_can_be_read(self, store: ArchiveStore) -> None:
        kept = [EventRecord(1, "A", 5, b'{"a":1}', b'{"v":2}'), EventRecord(2, "B", 6, b"", b"")]

        await store.archive(REFUND, FIRST, kept)

        assert list(await store.read_archived(REFUND, FIRST)) == kept
        assert list(await store.archived_lives()) == [ArchivedLife(REFUND, FIRST, 2, 2, 0)]

    async def test_nothing_is_kept_of_what_nobody_archived(self, store: ArchiveStore) -> None:
        await store.archive(REFUND, FIRST, [])
        await store.archive_requests(REFUND, FIRST, [])

        assert list(await store.read_archived(NOBODY, FIRST)) == []
        assert list(await store.archived_requests(NOBODY, FIRST)) == []
        assert list(await store.archived_lives()) == []

    async def test_to_archive_again_changes_nothing(self, store: ArchiveStore) -> None:
        await store.archive(REFUND, FIRST, events(b"1", b"2", start=1))

        await store.archive(REFUND, FIRST, events(b"1", b"2", start=1))
        await store.archive(REFUND, FIRST, events(b"1", b"2", b"3", b"4", start=1))

        assert [event.payload for event in await store.read_archived(REFUND, FIRST)] == [b"1", b"2", b"3", b"4"]
        assert list(await store.archived_lives()) == [ArchivedLife(REFUND, FIRST, 4, 4, 0)]

    async def test_gaps_stay_gaps_and_are_filled_in_any_order(self, store: ArchiveStore) -> None:
        log = events(*(b"%d" % number for number in range(8)))

        await store.archive(REFUND, FIRST, [log[7], log[2]])
        await store.archive(REFUND, FIRST, [log[5]])

        assert list(await store.read_archived(REFUND, FIRST)) == [log[2], log[5], log[7]]

    async def test_another_event_under_a_sequence_is_refused_whole(self, store: ArchiveStore) -> None:
        log = events(b"1", b"2", start=1)
        await store.archive(REFUND, FIRST, log)
        others = [log[1]._replace(**change) for change in CHANGES]

        for other in others:
            assert await _refused(store.archive(REFUND, FIRST, [*events(b"3", start=3), other])) == "event 2"

        assert list(await store.read_archived(REFUND, FIRST)) == log

    async def test_another_request_under_a_number_is_refused_whole(self, store: ArchiveStore) -> None:
        kept = requests(b"1", b"2")
        await store.archive_requests(REFUND, FIRST, kept)

        again = [*requests(b"3", start=3), kept[1]._replace(body=b"other")]
        assert await _refused(store.archive_requests(REFUND, FIRST, again)) == "request 2"

        assert list(await store.archived_requests(REFUND, FIRST)) == kept

    async def test_a_life_that_follows_another_is_not_mixed_with_it(self, store: ArchiveStore) -> None:
        await store.archive(REFUND, FIRST, events(b"old 1", b"old 2", start=1))
        await store.archive_requests(REFUND, FIRST, requests(b"old"))

        await store.archive(REFUND, SECOND, events(b"new 1", start=1))
        await store.archive_requests(REFUND, SECOND, requests(b"new", b"new too"))

        assert [event.payload for event in await store.read_archived(REFUND, FIRST)] == [b"old 1", b"old 2"]
        assert [event.payload for event in await store.read_archived(REFUND, SECOND)] == [b"new 1"]
        assert [request.body for request in await store.archived_requests(REFUND, FIRST)] == [b"old"]
        assert list(await store.archived_lives(prefix=REFUND)) == [
            ArchivedLife(REFUND, FIRST, 2, 2, 1),
            ArchivedLife(REFUND, SECOND, 1, 1, 2),
        ]

    async def test_requests_come_back_as_they_were(self, store: ArchiveStore) -> None:
        odd = [
            Request(1, "message", "", 5, b'{"topic":"a"}'),
            Request(2, "answer", "gate:17", 6, b""),
            Request(3, "message", "ü\x00\u2028😀", 7, b"\xff\x00"),
        ]

        await store.archive_requests(REFUND, FIRST, odd)
        await store.archive_requests(REFUND, FIRST, odd)

        assert list(await store.archived_requests(REFUND, FIRST)) == odd
        assert list(await store.archived_lives()) == [ArchivedLife(REFUND, FIRST, 0, -1, 3)]

    async def test_a_range_is_read_up_to_but_not_including_its_end(self, store: ArchiveStore) -> None:
        await store.archive(REFUND, FIRST, events(*(b"%d" % number for number in range(1, 10)), start=1))

        found = await store.read_archived(REFUND, FIRST, start=3, stop=6)

        assert [event.sequence for event in found] == [3, 4, 5]
        assert list(await store.read_archived(REFUND, FIRST, start=10)) == []
        assert list(await store.read_archived(REFUND, FIRST, stop=1)) == []

    async def test_pages_end_once_they_are_large_enough(self, store: ArchiveStore) -> None:
        await store.archive(REFUND, FIRST, events(*[b"x" * 40] * 10, start=1))
        await store.archive_requests(REFUND, FIRST, requests(*[b"x" * 40] * 10))

        page = await store.read_archived(REFUND, FIRST, limit_bytes=100)
        some = await store.archived_requests(REFUND, FIRST, limit_bytes=100)

        assert [event.sequence for event in page] == [1, 2, 3]
        assert [request.number for request in some] == [1, 2, 3]
        assert len(await all_archived(store, REFUND, FIRST, limit_bytes=0)) == 10
        assert len(await all_archived_requests(store, REFUND, FIRST, limit_bytes=0)) == 10

    async def test_payloads_come_back_byte_for_byte(self, store: ArchiveStore) -> None:
        odd = [b"", b"\x00", b"a\x00b", b"\xff\xfe\x80", "ü\u2028😀".encode(), bytes(range(256)) * 4096]

        await store.archive(REFUND, FIRST, events(*odd))

        assert [event.payload for event in await all_archived(store, REFUND, FIRST)] == odd

    async def test_lives_are_in_order_and_come_page_by_page(self, store: ArchiveStore) -> None:
        names = ["a%1", "a_1", "A", "ä", "😀", "z"]
        for name in names:
            for life in (SECOND, FIRST):
                await store.archive(ExecutionId(name), life, events(b"1", start=1))
        seen: list[tuple[str, int]] = []

        while page := await store.archived_lives(after=seen[-1] if seen else ("", 0), limit=5):
            seen += [(life.execution_id, life.incarnation) for life in page]

        assert seen == sorted((name, life) for name in names for life in (FIRST, SECOND))
        assert {life.execution_id for life in await store.archived_lives(prefix="a")} == {"a%1", "a_1"}

    async def test_many_that_archive_the_same_at_once_keep_it_once(self, store: ArchiveStore) -> None:
        log = events(*(b"%d" % number for number in range(50)))

        await asyncio.gather(*(store.archive(REFUND, FIRST, log[place : place + 20]) for place in range(0, 40, 5)))

        assert list(await store.read_archived(REFUND, FIRST)) == log[:50]
        assert list(await store.archived_lives()) == [ArchivedLife(REFUND, FIRST, 50, 49, 0)]

    async def test_a_large_log_is_archived_at_once(self, store: ArchiveStore) -> None:
        log = events(*[b"{}"] * 25_000)

        await store.archive(CLAIM, FIRST, log)
        await store.archive(CLAIM, FIRST, log)

        assert await all_archived(store, CLAIM, FIRST) == log

    async def test_what_was_archived_is_there_after_a_close(self, store: ArchiveStore) -> None:
        await store.archive(REFUND, FIRST, events(b"1", start=1))

        await store.close()
        await store.open()

        assert [event.payload for event in await store.read_archived(REFUND, FIRST)] == [b"1"]


CHANGES: Final[tuple[dict[str, Any], ...]] = ({"type": "X"}, {"at": 1}, {"payload": b"other"}, {"metadata": b'{"a":1}'})
"""Each makes another event of one."""


async def _refused(archiving: Awaitable[None]) -> str | None:
    """Return what was refused as another, None when nothing was."""
    try:
        await archiving
    except ArchiveConflict as error:
        return error.what
    return None
