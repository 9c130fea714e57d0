"""All runs at once: each event comes once, in the order of its run, wherever the reader was cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import loom
from loom.coordination.subscribing import RunEvent, Seen, all_events, seen_of, subscribe, unseen
from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.change_feed import ChangingStorage
from loom.devtools.conformance.event_trim import DONE
from loom.devtools.conformance.logs import CLAIM, REFUND, after, appended, first
from loom.kernel.errors import LogCorrupt
from loom.plugins.sqlite import SqliteStorage
from loom.spi.change_feed import Change, CursorUnknown
from loom.spi.event_store import EventRecord, Head
from loom.spi.memory import MemoryStorage

Told = tuple[str, int, int]


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ChangingStorage]:
    made: Any = MemoryStorage() if request.param == "memory" else SqliteStorage(tmp_path / "loom.db")
    yield made
    await made.close()


def told(each: RunEvent) -> Told:
    return each.event.execution_id, each.incarnation, each.event.sequence


async def taken(store: ChangingStorage, count: int, *, start: str = "") -> list[RunEvent]:
    async with asyncio.timeout(10), aclosing(all_events(store, after=start, follow=True)) as events:
        return [await anext(events) for _ in range(count)]


def noted(*numbers: int, start: int = 0) -> list[EventRecord]:
    """Return events of a type that no kernel knows: they follow on anything."""
    return [EventRecord(start + at, "NOTED", 5, b'{"number":%d}' % number, b"") for at, number in enumerate(numbers)]


async def test_events_of_all_runs_come_once_in_the_order_of_each(store: ChangingStorage) -> None:
    refund = await appended(store, replace(first(REFUND), events=noted(0, 1)))
    claim = await appended(store, replace(first(CLAIM), events=noted(0)))
    await appended(store, replace(after(refund, REFUND), events=noted(2, start=2)))

    seen = await taken(store, 4)

    assert [told(each)[::2] for each in seen if told(each)[0] == REFUND] == [(REFUND, 0), (REFUND, 1), (REFUND, 2)]
    assert [told(each) for each in seen if told(each)[0] == CLAIM] == [(CLAIM, claim.incarnation, 0)]
    assert [each.event.payload["number"] for each in seen if told(each)[0] == REFUND] == [0, 1, 2]


@pytest.mark.proves("STO-08")
async def test_a_reader_goes_on_exactly_where_another_was_cut_off(store: ChangingStorage) -> None:
    heads = {}
    for number in range(3):
        name = ExecutionId(f"r{number}")
        heads[name] = await appended(store, replace(first(name), events=noted(0, 1, 2)))
    for name, head in heads.items():
        await appended(store, replace(after(head, name), events=noted(3, 4, start=3)))
    whole = await taken(store, 15)

    for count in range(15):
        rest = await taken(store, 15 - count, start=whole[count - 1].cursor if count else "")
        assert [told(each) for each in whole[:count] + rest] == [told(each) for each in whole]


async def test_a_reader_that_was_cut_off_in_a_run_goes_on_when_that_is_deleted(store: ChangingStorage) -> None:
    gone = await appended(store, replace(first(REFUND, index=replace(DONE, chain=REFUND)), events=noted(0, 1, 2)))
    await appended(store, replace(first(CLAIM), events=noted(0, 1)))
    [_, half] = await taken(store, 2)

    await store.delete([[Head(REFUND, *gone)]])
    again = await appended(store, replace(first(REFUND), events=noted(0)))

    rest = await taken(store, 3, start=half.cursor)
    assert [told(each)[::2] for each in rest] == [(CLAIM, 0), (CLAIM, 1), (REFUND, 0)]
    assert rest[-1].incarnation == again.incarnation


async def test_events_come_as_they_are_written_and_closing_ends_it(store: ChangingStorage) -> None:
    events = all_events(store, after="", follow=True)
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)

    await appended(store, replace(first(REFUND), events=noted(0)))

    assert told(await waiting)[::2] == (REFUND, 0)
    await events.aclose()


async def test_an_event_that_cannot_be_read_is_told_and_the_next_one_comes(tmp_path: Path) -> None:
    damaged = noted(0, 1)
    damaged[0] = damaged[0]._replace(payload=b"{")
    store = SqliteStorage(tmp_path / "loom.db")
    await appended(store, replace(first(REFUND), events=damaged))

    async with aclosing(all_events(store, after="", follow=True)) as events:
        with pytest.raises(LogCorrupt, match=f"event 0 of {REFUND}"):
            await anext(events)
        assert told(await anext(events))[::2] == (REFUND, 1)
    await store.close()


async def test_the_events_of_an_app_are_those_of_its_store() -> None:
    @loom.flow
    async def hello(ctx: loom.Context) -> str:
        return "hello"

    async with loom.define_config(flows=[hello]) as app:
        await app.runtime.start(hello, id="h-1")
        async with asyncio.timeout(10), aclosing(loom.subscribe(app.runtime)) as events:
            kinds = [(await anext(events)).event.type for _ in range(2)]

    assert kinds == ["EXECUTION_STARTED", "EXECUTION_COMPLETED"]


async def test_a_reader_that_does_not_follow_ends_with_what_is_there(store: ChangingStorage) -> None:
    await appended(store, replace(first(REFUND), events=noted(0, 1)))
    await appended(store, replace(first(CLAIM), events=noted(0)))
    events = all_events(store, after="", follow=False)

    seen = [told(each)[::2] async for each in events]

    assert seen == [(REFUND, 0), (REFUND, 1), (CLAIM, 0)]
    assert [each async for each in all_events(store, after=events.cursor, follow=False)] == []


async def test_runs_that_alternate_are_read_once_a_page_and_large_ones_in_parts(store: ChangingStorage) -> None:
    names = [ExecutionId(f"r{number}") for number in range(4)]
    heads = {name: await appended(store, replace(first(name), events=noted(0))) for name in names}
    for place in range(1, 20):
        for name in names:
            large = [each._replace(payload=b'{"x":"%s"}' % (b"x" * 9_000)) for each in noted(place, start=place)]
            item = after(heads[name], name)
            heads[name] = await appended(
                store, replace(item, events=large if name == "r0" else noted(place, start=place))
            )
    reads: list[str] = []
    read = store.read

    async def counted(execution_id: ExecutionId, **page: Any) -> Sequence[EventRecord]:
        reads.append(execution_id)
        return await read(execution_id, **page)

    store.read = counted  # type: ignore[method-assign]

    seen = [told(each)[::2] async for each in all_events(store, after="", follow=False)]

    assert seen == [(name, place) for place in range(20) for name in names]
    assert {name: reads.count(name) for name in names} == {"r0": 3, "r1": 1, "r2": 1, "r3": 1}


async def test_a_store_that_does_not_tell_is_refused() -> None:
    class Mute(MemoryStorage):
        changed = None  # type: ignore[assignment]  # takes the method away

    class Runtime:
        storage = Mute()

    mute: Any = Runtime()
    with pytest.raises(InvalidDeclaration, match="does not tell what changes"):
        subscribe(mute)


# The core, which is given pages and returns what is left of them


def change(life: int, start: int, stop: int, cursor: str) -> Change:
    return Change(ExecutionId(f"r{life}"), Incarnation(life), start, stop, cursor)


@pytest.mark.parametrize("seen", [Seen(), Seen("7"), Seen("7", 3, 12), Seen("", 1, 1), Seen("4.5.6", 2, 3)])
def test_what_was_seen_is_a_text(seen: Seen) -> None:
    assert seen_of(seen.text(), store="here") == seen


@pytest.mark.parametrize("text", ["7@", "7@1", "7@1.x", "7@-1.2", "7@1.²"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(CursorUnknown):
        seen_of(text, store="here")


def test_what_is_left_of_a_page_begins_behind_what_was_seen() -> None:
    page = [change(1, 0, 3, "3"), change(2, 0, 1, "4"), change(1, 3, 5, "6")]

    assert list(unseen(page, Seen("0"))) == [("0", page[0]), ("3", page[1]), ("4", page[2])]
    assert list(unseen(page, Seen("0", 1, 2))) == [("0", change(1, 2, 3, "3")), ("3", page[1]), ("4", page[2])]
    assert list(unseen(page, Seen("0", 1, 3))) == [("3", page[1]), ("4", page[2])]
    assert list(unseen(page, Seen("0", 9, 2))) == [("0", page[0]), ("3", page[1]), ("4", page[2])]
    assert list(unseen(page[:1], Seen("0", 1, 3))) == []


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    appends=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=8),
    cut=st.integers(0, 24),
    gone=st.sets(st.integers(1, 3), max_size=2),
)
def test_whatever_is_merged_or_deleted_after_a_cut_nothing_else_is_lost_or_seen_twice(
    appends: Sequence[tuple[int, int]], cut: int, gone: set[int]
) -> None:
    lengths: dict[int, int] = {}
    whole: list[tuple[int, int]] = []
    for life, count in appends:
        start = lengths.get(life, 0)
        whole += [(life, start + n) for n in range(count)]
        lengths[life] = start + count
    seen, before = whole[:cut], Seen()
    page = paged(whole)
    passed = 0
    for after_it, each in unseen(page, before):
        for sequence in range(each.start, each.stop):
            if passed < len(seen):
                passed += 1
                ends = sequence + 1 == each.stop
                before = Seen(each.cursor) if ends else Seen(after_it, each.incarnation, sequence + 1)

    later = [each for each in whole if each[0] not in gone]
    left = unseen(
        paged(later, behind=int(before.after or 0), places={each: n for n, each in enumerate(whole, 1)}), before
    )

    rest = [(each.incarnation, n) for _, each in left for n in range(each.start, each.stop)]
    assert rest == [each for each in whole[cut:] if each[0] not in gone]


def paged(
    events: Sequence[tuple[int, int]], *, behind: int = 0, places: dict[tuple[int, int], int] | None = None
) -> list[Change]:
    """Return *events* as a store would: those with a place behind a cursor, in changes as long as can be."""
    at = places or {each: n for n, each in enumerate(events, 1)}
    changes: list[Change] = []
    for life, sequence in (each for each in events if at[each] > behind):
        cursor = str(at[life, sequence])
        if changes and (changes[-1].incarnation, changes[-1].stop) == (life, sequence):
            changes[-1] = changes[-1]._replace(stop=sequence + 1, cursor=cursor)
        else:
            changes.append(change(life, sequence, sequence + 1, cursor))
    return changes
