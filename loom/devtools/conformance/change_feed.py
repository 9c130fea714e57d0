"""What every `ChangeFeed` must do. *store* is a `Storage`, `SnapshotStore`, `EventTrim` and `EventFork` that is one, empty and open."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, Protocol

from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.event_fork import done, fork, source
from loom.devtools.conformance.event_trim import DONE
from loom.devtools.conformance.logs import CLAIM, REFUND, after, appended, first
from loom.devtools.conformance.trimming import begun as begun_with
from loom.devtools.conformance.trimming import sequences, trimmed
from loom.spi.change_feed import Change, ChangeFeed, CursorUnknown
from loom.spi.event_fork import EventFork
from loom.spi.event_store import Appended, Head, Storage
from loom.spi.event_trim import EventTrim
from loom.spi.snapshot_store import SnapshotStore

Seen = tuple[ExecutionId, Incarnation, int]
_PATIENCE_S: Final = 10.0


class ChangingStorage(Storage, ChangeFeed, EventTrim, SnapshotStore, EventFork, Protocol):
    """A store that can do all of it."""


class ChangeFeedConformance:
    """Every event once, and those of a log in their order."""

    async def test_it_is_a_change_feed(self, store: ChangingStorage) -> None:
        assert isinstance(store, ChangeFeed)

    async def test_nothing_has_changed_in_an_empty_store(self, store: ChangingStorage) -> None:
        assert list(await store.changed()) == []
        assert list(await store.changed(await store.latest())) == []

    async def test_every_event_is_seen_once_in_the_order_of_its_log(self, store: ChangingStorage) -> None:
        refund = await appended(store, first(REFUND, b"0", b"1"))
        claim = await appended(store, first(CLAIM, b"0"))
        refund = await appended(store, after(refund, REFUND, b"2"))
        await store.append([after(claim, CLAIM, b"1", b"2"), after(refund, REFUND, b"3")])

        for limit in (1, 2, 1000):
            seen = await _seen(store, limit=limit)
            assert [each for each in seen if each[0] == REFUND] == _events(REFUND, refund, 4)
            assert [each for each in seen if each[0] == CLAIM] == _events(CLAIM, claim, 3)
            assert len(seen) == 7

    async def test_a_reader_goes_on_behind_any_change(self, store: ChangingStorage) -> None:
        for number in range(5):
            begun = await appended(store, first(ExecutionId(f"r{number}"), b"0"))
            await appended(store, after(begun, ExecutionId(f"r{number}"), b"1", b"2"))
        whole = await _seen(store)
        changes = await store.changed(limit=1000)

        for place, change in enumerate(changes, 1):
            before = [each for known in changes[:place] for each in _of(known)]
            assert before + await _seen(store, start=change.cursor) == whole

    async def test_what_comes_later_is_behind_the_cursor(self, store: ChangingStorage) -> None:
        begun = await appended(store, first(REFUND, b"0"))
        cursor = (await store.changed())[-1].cursor
        assert list(await store.changed(cursor)) == []

        await appended(store, after(begun, REFUND, b"1"))

        assert await _seen(store, start=cursor) == [(REFUND, begun.incarnation, 1)]

    async def test_the_latest_cursor_is_behind_all_there_is(self, store: ChangingStorage) -> None:
        begun = await appended(store, first(REFUND, b"0", b"1"))
        cursor = await store.latest()
        assert await _seen(store, start=cursor) == []

        await appended(store, after(begun, REFUND, b"2"))

        assert await _seen(store, start=cursor) == [(REFUND, begun.incarnation, 2)]

    async def test_a_write_that_is_refused_or_repeated_changes_nothing(self, store: ChangingStorage) -> None:
        item = first(REFUND, b"0")
        begun = await appended(store, item)
        more = after(begun, REFUND, b"1")

        await store.append([item, replace(more, expected=9), more])
        await store.append([more])

        assert await _seen(store) == _events(REFUND, begun, 2)

    async def test_what_a_fork_copies_are_changes_of_the_fork(self, store: ChangingStorage) -> None:
        begun = await appended(store, first(REFUND, b"0", b"1"))
        cursor = await store.latest()

        forked = done(await store.fork(source(begun, 1), fork(b"own", copied=2)))

        assert await _seen(store, start=cursor) == _events(ExecutionId("refund-42-fork"), forked, 3)

    async def test_a_deleted_run_is_gone_and_the_reader_goes_on(self, store: ChangingStorage) -> None:
        gone = await appended(store, first(REFUND, b"0", index=replace(DONE, chain=REFUND)))
        cursor = (await store.changed())[-1].cursor
        stays = await appended(store, first(CLAIM, b"0"))

        await store.delete([[Head(REFUND, *gone)]])

        assert await _seen(store) == await _seen(store, start=cursor) == _events(CLAIM, stays, 1)

    async def test_a_place_that_was_deleted_is_given_to_no_other(self, store: ChangingStorage) -> None:
        begun = await appended(store, first(CLAIM, b"0"))
        gone = await appended(store, first(REFUND, b"0", b"1", index=replace(DONE, chain=REFUND)))
        cursor = (await store.changed())[-1].cursor
        await store.delete([[Head(REFUND, *gone)]])
        assert list(await store.changed(cursor)) == []

        again = await appended(store, first(REFUND, b"0"))
        await appended(store, after(begun, CLAIM, b"1"))

        assert await _seen(store, start=cursor) == [(REFUND, again.incarnation, 0), (CLAIM, begun.incarnation, 1)]
        assert again.incarnation != gone.incarnation

    async def test_an_emptied_store_goes_on_behind_the_cursor(self, store: ChangingStorage) -> None:
        families, cursor = [], ""
        for number in range(3):
            name = ExecutionId(f"r{number}")
            families.append(
                [Head(name, *await appended(store, first(name, b"0", b"1", index=replace(DONE, chain=name))))]
            )
            cursor = (await store.changed())[-1].cursor
        for family in reversed(families):
            await store.delete([family])

        begun = await appended(store, first(REFUND, b"0"))

        assert await _seen(store, start=cursor) == _events(REFUND, begun, 1)

    async def test_what_is_left_of_a_log_that_is_trimmed_comes_once(self, store: ChangingStorage) -> None:
        begun = await begun_with(store)
        log = await appended(store, after(begun, REFUND, b"8"))
        cursors = ["", *(change.cursor for change in await store.changed(limit=1)), await store.latest()]

        assert await trimmed(store, log, 4, "STARTED", "user.seen") == 3
        log = await appended(store, after(log, REFUND, b"9"))

        seen = [[sequence for _, _, sequence in await _seen(store, start=cursor, limit=1)] for cursor in cursors]
        left = await sequences(store)
        assert left == [0, 2, 5, 6, 7, 8, 9]
        assert [each for each in seen[0] if each in left] == left
        assert [each for each in seen[1] if each in left] == [each for each in left if each >= min(seen[1])]
        assert seen[2] == [9]
        assert sorted(set(seen[0])) == seen[0]

    async def test_the_place_of_an_event_that_was_trimmed_is_given_to_no_other(self, store: ChangingStorage) -> None:
        log = await begun_with(store)
        cursor = (await store.changed())[-1].cursor

        await trimmed(store, log, log.length - 1)
        await appended(store, after(log, REFUND, b"8"))
        await appended(store, first(CLAIM, b"0"))

        assert [(name, sequence) for name, _, sequence in await _seen(store, start=cursor)] == [(REFUND, 8), (CLAIM, 0)]

    async def test_a_cursor_of_another_store_is_refused(self, store: ChangingStorage) -> None:
        await appended(store, first(REFUND, b"0"))

        for cursor in ("yesterday", "-1", "9" * 18, f"{'9' * 18}.1.1", "1.1", "é"):
            try:
                await store.changed(cursor)
            except CursorUnknown:
                continue
            raise AssertionError(f"{cursor!r} was taken for a cursor")

    async def test_pages_come_as_they_are_written(self, store: ChangingStorage) -> None:
        begun = await appended(store, first(REFUND, b"0"))
        pages: Any = store.changes()

        async with asyncio.timeout(_PATIENCE_S), aclosing(pages):
            [there] = await anext(pages)
            waiting = asyncio.ensure_future(anext(pages))
            await asyncio.sleep(0)
            await appended(store, after(begun, REFUND, b"1"))
            [came] = await waiting

        assert _of(there) + _of(came) == _events(REFUND, begun, 2)

    async def test_many_writers_and_a_reader_at_once(self, store: ChangingStorage) -> None:
        async def grow(name: ExecutionId) -> None:
            head = await appended(store, first(name, b"0"))
            for number in range(1, 6):
                head = await appended(store, after(head, name, b"%d" % number))

        names = [ExecutionId(f"r{number}") for number in range(20)]
        writing = asyncio.gather(*map(grow, names))
        seen: list[Seen] = []
        cursor = ""
        async with asyncio.timeout(6 * _PATIENCE_S):
            while len(seen) < len(names) * 6:
                for change in await store.changed(cursor, limit=7):
                    seen += _of(change)
                    cursor = change.cursor
                await asyncio.sleep(0)
            await writing

        assert {name: [n for each, _, n in seen if each == name] for name in names} == {
            name: list(range(6)) for name in names
        }


async def _seen(store: ChangeFeed, *, start: str = "", limit: int = 1000) -> list[Seen]:
    """Return all that is behind *start*, page by page."""
    seen: list[Seen] = []
    while changes := await store.changed(start, limit=limit):
        seen += [each for change in changes for each in _of(change)]
        start = changes[-1].cursor
    return seen


def _of(change: Change) -> list[Seen]:
    assert change.start < change.stop
    return [(change.execution_id, change.incarnation, sequence) for sequence in range(change.start, change.stop)]


def _events(name: ExecutionId, head: Appended, count: int) -> Sequence[Seen]:
    return [(name, head.incarnation, sequence) for sequence in range(count)]
