"""Over the network: how often it is crossed, through what, and what becomes of a write whose answer is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.devtools.conformance.admission_store import started
from loom.devtools.conformance.event_store import EventStoreConformance
from loom.devtools.conformance.leases import ClaimConformance
from loom.devtools.conformance.logs import REFUND, after, appended, first, insert, payloads
from loom.devtools.conformance.schedule_store import DAILY, HOUR, recorded
from loom.plugins.postgres import PostgresStorage
from loom.spi.clock import VirtualClock
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Appended, Conflict, Send
from tests.plugins.postgres.pooler import Pooler
from tests.plugins.postgres.server import Server


@pytest.fixture(scope="module")
def mortal() -> Iterator[Server]:
    """A server of this module's own, which may be killed."""
    server = Server(options="-c full_page_writes=on -c shared_buffers=32MB")
    yield server
    server.remove()


@pytest.mark.proves("STO-03")
async def test_a_batch_is_one_round_trip(server: Server, dsn: str) -> None:
    async with Pooler(server.home) as between:
        store = PostgresStorage(between.dsn(dsn), connections=1)
        heads = list(await store.append([first(ExecutionId(f"run-{number}")) for number in range(50)]))
        before = between.round_trips

        results = await store.append(
            [
                after(head, ExecutionId(f"run-{n}"), b"1", b"2")
                for n, head in enumerate(heads)
                if isinstance(head, Appended)
            ]
        )

        assert between.round_trips - before == 1
        assert [type(result) for result in results] == [Appended] * 50
        await store.close()


async def test_a_batch_of_all_kinds_is_one_round_trip_also_where_items_are_refused(server: Server, dsn: str) -> None:
    async with Pooler(server.home) as between:
        store = PostgresStorage(between.dsn(dsn), connections=1)
        names = [ExecutionId(name) for name in ("goes-on", "conflicts", "looks", "sends", "begins")]
        goes_on, conflicts, looks, sends = [await appended(store, first(name)) for name in names[:4]]
        batch = [
            replace(after(sends, names[3], b"1"), sends=[Send(names[0], "message", "", 5, b"hello")]),
            after(Appended(conflicts.incarnation, 7), names[1], b"1"),
            replace(after(looks, names[2], b"1"), lane_above=0),
            first(names[4], b"0", b"1"),
            first(names[0]),
            after(conflicts, names[1], b"2"),
        ]
        before = between.round_trips

        results = await store.append([*batch, after(goes_on, names[0], b"1")])

        assert between.round_trips - before == 1
        kinds = [Appended, Conflict, Appended, Appended, Conflict, Conflict, Conflict]
        assert [type(result) for result in results] == kinds
        assert await payloads(store, names[4]) == [b"0", b"1"]
        assert [request.body for request in await store.pending(names[0], goes_on.incarnation)] == [b"hello"]
        await store.close()


class TestThroughATransactionPooler(EventStoreConformance, ClaimConformance):
    """Each transaction is with another server process: what one was told, the next does not know."""

    @pytest.fixture
    async def store(self, server: Server, dsn: str, clock: VirtualClock) -> AsyncIterator[PostgresStorage]:
        async with Pooler(server.home, processes=3) as between:
            store = PostgresStorage(between.dsn(dsn) + "&pooler=transaction", clock=clock)
            yield store
            await store.close()

    async def test_the_schema_lines_and_schedules_go_through_it_and_no_lock_stays(
        self, server: Server, bare: str
    ) -> None:
        async with Pooler(server.home, processes=3) as between:
            store = PostgresStorage(between.dsn(bare) + "&pooler=transaction")
            stages = [(await started(store, name)).stage for name in ("a", "b", "c")]
            cursor = await recorded(store, 2 * HOUR)

            assert stages == ["begun", "begun", "line"]
            assert await store.schedule_cursor(DAILY) == cursor
            assert await server.execute("SELECT FROM pg_locks WHERE locktype = 'advisory'") == []
            await store.close()


async def test_who_only_polls_sees_what_others_write_and_who_listens_sees_it_sooner(dsn: str) -> None:
    """Field fault 33: a notice only shortens the poll."""
    writer = PostgresStorage(dsn)
    listens, polls = PostgresStorage(dsn, poll_s=60.0), PostgresStorage(dsn, notify=False, poll_s=0.01)
    async with aclosing(_feed(listens)) as sooner, aclosing(_feed(polls)) as later:
        waiting = [asyncio.ensure_future(anext(feed)) for feed in (sooner, later)]
        await listens._sessions.current().ear.listens.wait()

        await appended(writer, first(REFUND, b"1"))

        async with asyncio.timeout(10):
            assert [(await record).payload for record in waiting] == [b"1", b"1"]
    for store in (writer, listens, polls):
        await store.close()


async def test_a_notice_is_given_only_where_somebody_hears_it(server: Server, dsn: str) -> None:
    async def is_heard() -> bool:
        [[heard]] = await server.execute("SELECT loom.is_heard()", dsn=dsn)
        return bool(heard)

    before, store = await is_heard(), PostgresStorage(dsn)
    async with aclosing(_feed(store)):
        await store._sessions.current().ear.listens.wait()
        during = [await is_heard(), await is_heard()]
    await store.close()

    assert (before, during) == (False, [True, True])
    async with asyncio.timeout(10):  # the server sees the end of a connection a little later
        while await is_heard():
            await asyncio.sleep(0.01)


async def test_a_listener_that_is_cut_off_misses_nothing(server: Server, dsn: str) -> None:
    """Field fault 33: the connection that listens drops."""
    writer, reader = PostgresStorage(dsn), PostgresStorage(dsn)
    begun = await appended(writer, first(REFUND, b"1"))
    async with aclosing(_feed(reader)) as feed:
        await anext(feed)
        await reader._sessions.current().ear.listens.wait()
        await server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")

        await appended(writer, after(begun, REFUND, b"2"))

        async with asyncio.timeout(10):
            assert (await anext(feed)).payload == b"2"
    await writer.close()
    await reader.close()


@loom.flow
async def greets(ctx: loom.Context) -> str:
    name: str = await ctx.receive("name")
    return f"hello, {name}"


async def test_without_any_notice_messages_arrive_and_ends_are_heard_of(dsn: str) -> None:
    """Field fault 33: waits for a notice that never comes. Three processes, of which one drives, one sends and one waits."""
    drives, sends, waits = (
        loom.define_config(flows=[greets], storage=PostgresStorage(dsn, notify=False)) for _ in range(3)
    )
    async with asyncio.timeout(20), drives, sends, waits:
        worker = drives.worker(poll_s=0.01)
        working = asyncio.ensure_future(worker.run())
        await sends.runtime.enqueue(greets, id=REFUND)
        await waits.runtime.wait_for_suspend(REFUND)
        ended = asyncio.ensure_future(waits.runtime.wait(REFUND))

        sent = await sends.runtime.send(REFUND, "name", "Ada", drive=False)

        assert sent.status == "accepted"
        assert (await ended).value == "hello, Ada"
        worker.stop()
        await working


@pytest.mark.parametrize("size", [8_000, 5 << 20, pytest.param(60 << 20, marks=pytest.mark.slow)])
async def test_a_payload_may_be_larger_than_a_notice_and_than_a_page(dsn: str, size: int) -> None:
    store, large = PostgresStorage(dsn), b"\x00\xff" * (size // 2)
    begun = await appended(store, first(REFUND, large))

    await appended(store, after(begun, REFUND, *[large] * 2))

    assert await payloads(store, REFUND) == [large] * 3
    await store.close()


async def test_a_key_may_hold_any_text(dsn: str) -> None:
    store = PostgresStorage(dsn)
    begun = await appended(store, first(REFUND))
    for key in ("a\x00b", "\ud800", "ü"):
        await insert(store, begun, key=key)

    assert [request.key for request in await store.pending(REFUND, begun.incarnation)] == ["a\x00b", "\ud800", "ü"]
    await store.close()


async def test_a_server_that_goes_and_comes_back_is_used_again(mortal: Server) -> None:
    store = PostgresStorage(await mortal.database())
    begun = await appended(store, first(REFUND, b"1"))
    item = after(begun, REFUND, b"2")

    mortal.stop()
    with pytest.raises(StoreUnavailable, match=r"cannot be reached|connection"):
        await store.append([item])
    with pytest.raises(StoreUnavailable):
        await store.head(REFUND)
    mortal.start()

    assert list(await store.append([item])) == [Appended(begun.incarnation, 2)]
    assert await payloads(store, REFUND) == [b"1", b"2"]
    await store.close()


async def test_what_is_under_way_when_the_server_is_killed_is_whole_and_can_be_asked_again(mortal: Server) -> None:
    store = PostgresStorage(await mortal.database())
    names = [ExecutionId(f"run-{number}") for number in range(20)]
    heads = dict(zip(names, [await appended(store, first(name, b"0")) for name in names], strict=True))
    sent = asyncio.Event()
    lost = asyncio.gather(*(_grow(store, heads[name], name, sent) for name in names))
    await sent.wait()

    await asyncio.to_thread(mortal.kill)
    unsure = await lost
    await asyncio.to_thread(mortal.start)

    again = [(await store.append([item]))[0] for item in unsure]
    assert [type(result) for result in again] == [Appended] * len(names), again
    for name, item in zip(names, unsure, strict=True):
        assert await payloads(store, name) == [b"%d" % number for number in range(item.expected + len(item.events))]
    await store.close()


async def _grow(store: PostgresStorage, head: Appended, name: ExecutionId, sent: asyncio.Event) -> Any:
    """Append until the server is gone, and return the item of which the outcome is not known."""
    while True:
        item = after(head, name, *[b"%d" % (head.length + more) for more in range(3)])
        try:
            [result] = await store.append([item])
        except StoreUnavailable:
            return item
        assert isinstance(result, Appended)
        head = result
        if head.length > 12:
            sent.set()


async def test_a_request_whose_answer_was_lost_is_in_the_lane_once(server: Server, dsn: str) -> None:
    store = PostgresStorage(dsn, connections=1)
    begun = await appended(store, first(REFUND))
    session, tries = store._sessions.current(), []

    async def lossy(work: Any, *, repeatable: bool = True) -> Any:
        async def twice(raw: Any) -> Any:
            tries.append(await work(raw))
            if len(tries) == 1:
                raise ConnectionResetError("the answer was lost")
            return tries[-1]

        return await type(session).run(session, twice, repeatable=repeatable)

    session.run = lossy  # type: ignore[method-assign]  # the network between

    assert await insert(store, begun) == 1
    assert len(tries) == 2
    assert len(await store.pending(REFUND, begun.incarnation)) == 1
    await store.close()


def _feed(store: PostgresStorage) -> Any:
    return store.subscribe(REFUND)
