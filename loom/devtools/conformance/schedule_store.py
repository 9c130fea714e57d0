"""What every `ScheduleStore` must do: inherit the class and give the fixture *store*, empty and open to each test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from loom.core.errors import InvalidId
from loom.core.ids import ExecutionId
from loom.spi.schedule_store import ENTRIES_MAX, ScheduleCursor, ScheduleEntry, ScheduleStore

DAILY: Final = "daily"
WEEKLY: Final = "weekly"
HOUR: Final = 3_600_000
SEEN: Final = ScheduleCursor(HOUR)


def started(tick_at: int, **fields: Any) -> ScheduleEntry:
    """Return the entry of a tick that started an execution."""
    given: dict[str, Any] = {
        "until_at": tick_at,
        "count": 1,
        "at": tick_at + 7,
        "execution_id": ExecutionId(f"daily-{tick_at}"),
    }
    return ScheduleEntry(tick_at=tick_at, **(given | fields))


def skipped(tick_at: int, until_at: int, *, count: int) -> ScheduleEntry:
    """Return the entry of ticks that were missed."""
    return ScheduleEntry(tick_at=tick_at, until_at=until_at, count=count, at=until_at + 9, reason="catch-up")


async def recorded(store: ScheduleStore, *ticks: int) -> ScheduleCursor:
    """Record a schedule that is seen at one hour and starts something at each of *ticks*."""
    cursor = SEEN
    assert await store.record_ticks(DAILY, None, cursor, entries=[])
    for tick in ticks:
        then = ScheduleCursor(tick, ExecutionId(f"daily-{tick}"))
        assert await store.record_ticks(DAILY, cursor, then, entries=[started(tick)])
        cursor = then
    return cursor


class ScheduleStoreConformance:
    """How far schedules are handled, and what became of their ticks."""

    async def test_it_is_a_schedule_store(self, store: ScheduleStore) -> None:
        assert isinstance(store, ScheduleStore)

    async def test_an_id_that_is_no_word_is_refused_by_name(self, store: ScheduleStore) -> None:
        for hostile in ("", "a\x00b", "\ud800", "two words", "x" * 201):
            assert await _refused(store.record_ticks(hostile, None, SEEN, entries=[])) == hostile
            assert await _refused(store.schedule_cursor(hostile)) == hostile
            assert await _refused(store.schedule_entries(hostile)) == hostile

    async def test_a_schedule_that_was_never_seen_has_no_cursor_and_no_entries(self, store: ScheduleStore) -> None:
        assert await store.schedule_cursor(DAILY) is None
        assert list(await store.schedule_entries(DAILY)) == []

    async def test_a_schedule_is_seen_once(self, store: ScheduleStore) -> None:
        assert await store.record_ticks(DAILY, None, SEEN, entries=[])

        assert not await store.record_ticks(DAILY, None, ScheduleCursor(2 * HOUR), entries=[started(2 * HOUR)])
        assert await store.schedule_cursor(DAILY) == SEEN
        assert list(await store.schedule_entries(DAILY)) == []

    async def test_the_cursor_moves_with_its_entries(self, store: ScheduleStore) -> None:
        await recorded(store)
        moved = ScheduleCursor(5 * HOUR, ExecutionId("daily-ü"))
        entries = [skipped(2 * HOUR, 4 * HOUR, count=3), started(5 * HOUR, execution_id=ExecutionId("daily-ü"))]

        assert await store.record_ticks(DAILY, SEEN, moved, entries=entries)

        assert await store.schedule_cursor(DAILY) == moved
        assert list(await store.schedule_entries(DAILY)) == entries[::-1]

    async def test_a_cursor_that_stands_elsewhere_is_not_moved_and_nothing_is_written(
        self, store: ScheduleStore
    ) -> None:
        stands = await recorded(store, 2 * HOUR)
        moved = ScheduleCursor(3 * HOUR, ExecutionId("daily-3"))

        for expected in (None, SEEN, moved, stands._replace(latest=None), stands._replace(latest=ExecutionId("x"))):
            assert not await store.record_ticks(DAILY, expected, moved, entries=[started(3 * HOUR)])

        assert await store.schedule_cursor(DAILY) == stands
        assert list(await store.schedule_entries(DAILY)) == [started(2 * HOUR)]

    async def test_a_schedule_that_was_never_seen_is_not_moved(self, store: ScheduleStore) -> None:
        assert not await store.record_ticks(DAILY, SEEN, ScheduleCursor(2 * HOUR), entries=[started(2 * HOUR)])

        assert await store.schedule_cursor(DAILY) is None
        assert list(await store.schedule_entries(DAILY)) == []

    async def test_each_schedule_has_a_record_of_its_own(self, store: ScheduleStore) -> None:
        await recorded(store, 2 * HOUR)

        assert await store.record_ticks(WEEKLY, None, ScheduleCursor(9 * HOUR), entries=[])

        assert await store.schedule_cursor(DAILY) == ScheduleCursor(2 * HOUR, ExecutionId(f"daily-{2 * HOUR}"))
        assert await store.schedule_cursor(WEEKLY) == ScheduleCursor(9 * HOUR)
        assert list(await store.schedule_entries(WEEKLY)) == []

    async def test_entries_come_page_by_page_the_newest_first(self, store: ScheduleStore) -> None:
        await recorded(store, *(hour * HOUR for hour in range(2, 9)))
        pages: list[list[int]] = []
        before: int | None = None

        while page := await store.schedule_entries(DAILY, limit=3, before=before):
            pages.append([entry.tick_at // HOUR for entry in page])
            before = page[-1].tick_at

        assert pages == [[8, 7, 6], [5, 4, 3], [2]]

    async def test_the_newest_entries_of_each_schedule_are_kept_and_no_more(self, store: ScheduleStore) -> None:
        await recorded(store, 2 * HOUR, 3 * HOUR)
        first, last = 4 * HOUR, 4 * HOUR + ENTRIES_MAX
        many = [started(tick) for tick in range(first, last - 1)]
        cursor = await store.schedule_cursor(DAILY)
        assert await store.record_ticks(WEEKLY, None, ScheduleCursor(HOUR), entries=[started(HOUR)])

        assert await store.record_ticks(DAILY, cursor, ScheduleCursor(last - 2), entries=many)
        assert [entry.tick_at for entry in await store.schedule_entries(DAILY, before=first)] == [3 * HOUR]
        assert await store.record_ticks(DAILY, ScheduleCursor(last - 2), ScheduleCursor(last), entries=[started(last)])

        kept = await store.schedule_entries(DAILY, limit=2 * ENTRIES_MAX)
        assert [entry.tick_at for entry in kept] == [last, *reversed(range(first, last - 1))]
        assert list(await store.schedule_entries(WEEKLY)) == [started(HOUR)]

    async def test_more_entries_at_once_than_are_kept_leave_the_newest(self, store: ScheduleStore) -> None:
        await recorded(store, 2 * HOUR)
        many = [started(3 * HOUR + number) for number in range(ENTRIES_MAX + 2)]
        cursor = await store.schedule_cursor(DAILY)

        assert await store.record_ticks(DAILY, cursor, ScheduleCursor(many[-1].tick_at), entries=many)

        assert list(await store.schedule_entries(DAILY, limit=2 * ENTRIES_MAX)) == many[:1:-1]

    async def test_of_many_who_move_the_cursor_one_wins(self, store: ScheduleStore) -> None:
        await recorded(store)

        async def move(poller: int) -> bool:
            entry = started(2 * HOUR, at=poller)
            return await store.record_ticks(DAILY, SEEN, ScheduleCursor(2 * HOUR, entry.execution_id), entries=[entry])

        moved = await asyncio.gather(*(move(poller) for poller in range(20)))

        assert moved.count(True) == 1
        assert [entry.at for entry in await store.schedule_entries(DAILY)] == [moved.index(True)]


async def _refused(asking: Awaitable[object]) -> str | None:
    """Return the id that was refused, None when it was not."""
    try:
        await asking
    except InvalidId as refused:
        return refused.text
    return None
