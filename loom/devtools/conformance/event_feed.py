"""What every `EventFeed` must do."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, Final

from loom.devtools.conformance.logs import (
    REFUND,
    after,
    appended,
    first,
)
from loom.spi.event_store import (
    EventRecord,
    Storage,
)

_PATIENCE_S: Final = 10.0


class EventFeedConformance:
    """Following a log."""

    async def test_a_feed_gives_what_is_there_and_then_what_comes(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"1", b"2"))

        async with aclosing(_feed(store)) as feed:
            there = [(await _next(feed)).payload for _ in range(2)]
            await appended(store, after(begun, REFUND, b"3"))
            came = await _next(feed)

        assert (there, came.payload, came.sequence) == ([b"1", b"2"], b"3", 2)

    async def test_a_feed_starts_where_it_is_told(self, store: Storage) -> None:
        await appended(store, first(REFUND, b"0", b"1", b"2"))

        async with aclosing(_feed(store, start=2)) as feed:
            assert (await _next(feed)).payload == b"2"

    async def test_a_feed_waits_for_an_execution_that_does_not_exist_yet(self, store: Storage) -> None:
        async with aclosing(_feed(store)) as feed:
            waiting = asyncio.ensure_future(_next(feed))
            await asyncio.sleep(0)
            assert not waiting.done()
            await appended(store, first(REFUND, b"1"))
            record = await waiting

        assert record.payload == b"1"

    async def test_each_event_comes_once_and_in_order(self, store: Storage) -> None:
        async def write() -> None:
            head = await appended(store, first(REFUND, b"0"))
            for number in range(1, 100):
                head = await appended(store, after(head, REFUND, b"%d" % number))

        async with aclosing(_feed(store)) as one, aclosing(_feed(store)) as other:
            writing = asyncio.create_task(write())
            seen = [[(await _next(feed)).sequence for _ in range(100)] for feed in (one, other)]
            await writing

        assert seen == [list(range(100))] * 2

    async def test_a_closed_feed_keeps_nobody_from_writing(self, store: Storage) -> None:
        begun = await appended(store, first(REFUND, b"1"))
        feed = _feed(store)
        await _next(feed)

        await feed.aclose()

        assert (await appended(store, after(begun, REFUND, b"2"))).length == 2

    async def test_a_feed_that_is_cancelled_while_it_waits_lets_go(self, store: Storage) -> None:
        feed = _feed(store)
        waiting = asyncio.ensure_future(_next(feed))
        await asyncio.sleep(0)

        waiting.cancel()
        [outcome] = await asyncio.gather(waiting, return_exceptions=True)

        assert isinstance(outcome, asyncio.CancelledError)
        await appended(store, first(REFUND, b"1"))


def _feed(store: Storage, start: int = 0) -> Any:
    return store.subscribe(REFUND, start=start)


async def _next(feed: Any) -> EventRecord:
    async with asyncio.timeout(_PATIENCE_S):
        record = await anext(feed)
    assert isinstance(record, EventRecord)
    return record
