"""Transactions that are numbered in one order and end in another: nothing is skipped, nothing is seen twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.change_feed import ChangeFeedConformance
from loom.devtools.conformance.logs import CLAIM, REFUND, after, appended, first
from loom.plugins.postgres import PostgresStorage
from loom.plugins.postgres.writing import APPEND, Batch
from loom.spi.errors import StoreCorrupt
from loom.spi.event_store import Append, Appended, AppendResult
from tests.plugins.beside_writers import seen_beside_writers
from tests.plugins.postgres.server import Server

quick = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
much = settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
Seen = tuple[str, int]


class TestPostgresChanges(ChangeFeedConformance):
    """The kit, against a server that is started for it."""


class Writer:
    """A connection with a transaction that a test holds open."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    async def begin(self) -> None:
        """Begin one, which is numbered now."""
        await self._raw.execute("BEGIN")
        await self._raw.fetchval("SELECT pg_current_xact_id()::text")

    async def append(self, *items: Append) -> Sequence[AppendResult]:
        """Append as the store does, in the transaction."""
        batch = Batch(items)
        [found] = await self._raw.fetch(APPEND, *batch.arguments(None, None))
        return batch.results(*found)

    async def end(self, how: str = "COMMIT") -> None:
        await self._raw.execute(how)


@asynccontextmanager
async def writers(dsn: str, count: int) -> AsyncIterator[list[Writer]]:
    connections: list[asyncpg.Connection[Any]] = []
    try:
        connections.extend([await asyncpg.connect(dsn) for _ in range(count)])
        yield [Writer(raw) for raw in connections]
    finally:
        for raw in connections:
            await raw.close()


class Reader:
    """Reads on from its cursor, as far as it can."""

    def __init__(self, store: PostgresStorage, *, limit: int = 1000) -> None:
        self._store, self._limit, self._cursor = store, limit, ""
        self.seen: list[Seen] = []

    async def read(self) -> list[Seen]:
        """Return what is new."""
        new: list[Seen] = []
        while changes := await self._store.changed(self._cursor, limit=self._limit):
            for change in changes:
                new += [(change.execution_id, sequence) for sequence in range(change.start, change.stop)]
                self._cursor = change.cursor
        self.seen += new
        return new


def at(length: int, incarnation: int = 1) -> Appended:
    return Appended(Incarnation(incarnation), length)


@pytest.mark.proves("STO-08")
async def test_what_is_committed_late_is_not_skipped(dsn: str, store: PostgresStorage) -> None:
    reader = Reader(store)
    async with writers(dsn, 2) as (slow, quick):
        await slow.begin()
        await slow.append(first(REFUND, b"0"))
        await quick.begin()
        await quick.append(first(CLAIM, b"0"))
        await quick.end()

        before = await reader.read()
        await slow.end()
        after_it = await reader.read()

    assert (before, sorted(after_it)) == ([], [(CLAIM, 0), (REFUND, 0)])
    assert await reader.read() == []


async def test_what_is_never_committed_holds_up_nothing_once_it_is_gone(dsn: str, store: PostgresStorage) -> None:
    reader = Reader(store)
    async with writers(dsn, 1) as [failing]:
        await failing.begin()
        await failing.append(first(REFUND, b"0"))
        await appended(store, first(CLAIM, b"0"))
        assert await reader.read() == []

        await failing.end("ROLLBACK")

        assert await reader.read() == [(CLAIM, 0)]


@pytest.mark.parametrize("limit", [1, 1000])
@pytest.mark.parametrize("how", [{}, {"lane_above": 0}], ids=["as-a-set", "one-by-one"])
async def test_an_earlier_number_that_writes_later_comes_later(
    dsn: str, store: PostgresStorage, limit: int, how: dict[str, Any]
) -> None:
    begun = await appended(store, first(REFUND, b"0"))
    reader = Reader(store, limit=limit)
    async with writers(dsn, 2) as (earlier, later):
        await earlier.begin()
        await later.begin()
        await later.append(after(begun, REFUND, b"1"))
        await later.end()
        assert await reader.read() == [(REFUND, 0)]

        await earlier.append(after(at(2, begun.incarnation), REFUND, b"2", **how), first(CLAIM, b"0"))
        await earlier.end()

    seen = await reader.read()
    assert [each for each in seen if each[0] == REFUND] == [(REFUND, 1), (REFUND, 2)]
    assert sorted(seen) == [(CLAIM, 0), (REFUND, 1), (REFUND, 2)]


async def test_without_notices_everything_still_arrives(dsn: str) -> None:
    deaf, writer = PostgresStorage(dsn, notify=False, poll_s=0.01), PostgresStorage(dsn)
    pages: Any = deaf.changes()

    async with asyncio.timeout(20), aclosing(pages):
        waiting = asyncio.ensure_future(anext(pages))
        await appended(writer, first(REFUND, b"0"))
        [change] = await waiting

    assert (change.execution_id, change.start, change.stop) == (REFUND, 0, 1)
    await deaf.close()
    await writer.close()


async def test_a_listener_that_is_cut_off_misses_nothing(server: Server, dsn: str) -> None:
    store, writer = PostgresStorage(dsn, poll_s=0.01), PostgresStorage(dsn)
    pages: Any = store.changes()

    async with asyncio.timeout(20), aclosing(pages):
        begun = await appended(writer, first(REFUND, b"0"))
        await anext(pages)
        killing = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_advisory_lock_shared%' AND pid <> pg_backend_pid()"
        await server.execute(killing)
        await appended(writer, after(begun, REFUND, b"1"))
        [change] = await anext(pages)

    assert (change.start, change.stop) == (1, 2)
    await store.close()
    await writer.close()


async def test_a_database_that_was_restored_elsewhere_is_told_with_what_to_do(
    server: Server, dsn: str, store: PostgresStorage
) -> None:
    await appended(store, first(REFUND, b"0", b"1"))
    await server.execute("UPDATE loom.events SET changed = '99999999999'", dsn=dsn)

    with pytest.raises(StoreCorrupt, match="restored from a dump") as caught:
        await store.changed()

    assert "renumber_changes()" in caught.value.hint
    await server.execute("SELECT loom.renumber_changes()", dsn=dsn)
    assert await Reader(store).read() == [(REFUND, 0), (REFUND, 1)]


@pytest.mark.proves("STO-08")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
async def test_beside_writers_that_are_killed_every_event_is_seen_once(
    dsn: str, store: PostgresStorage, seed: int
) -> None:
    await store.open()

    seen, there = await seen_beside_writers(store, dsn, seed)

    assert sorted(seen) == sorted(there)
    for name in {name for name, _ in seen}:
        numbers = [number for each, number in seen if each == name]
        assert numbers == sorted(numbers)


# Any number of transactions, in any order


class Transactions:
    """Some writers, each in a transaction or not, and what each log has come to in what was committed."""

    def __init__(self, hands: Sequence[Writer], names: Sequence[str]) -> None:
        self._hands = hands
        self._heads: dict[str, tuple[int, int]] = dict.fromkeys(names, (0, 0))
        self._held: list[dict[str, tuple[int, int]] | None] = [None for _ in hands]
        self.committed: set[Seen] = set()

    async def move(self, hand: int, act: str, name: str) -> None:
        """Have a writer begin, append to a log that no other transaction holds, or end."""
        held, writer = self._held[hand], self._hands[hand]
        if held is None:
            await writer.begin()
            self._held[hand] = {}
        elif act == "append" and not any(name in (other or {}) for other in self._held if other is not held):
            incarnation, length = held.get(name, self._heads[name])
            item = (
                first(ExecutionId(name), b"x")
                if not length
                else after(at(length, incarnation), ExecutionId(name), b"x", b"y")
            )
            [result] = await writer.append(item)
            assert isinstance(result, Appended)
            held[name] = (result.incarnation, result.length)
        elif act != "append":
            await writer.end(act)
            self._held[hand] = None
            if act == "COMMIT":
                self.committed |= {(name, n) for name, (_, length) in held.items() for n in range(length)}
                self._heads.update(held)

    async def end(self) -> None:
        for hand, held in enumerate(self._held):
            if held is not None:
                await self.move(hand, "COMMIT", "")


acts = st.tuples(
    st.integers(0, 2),
    st.sampled_from(["append", "append", "append", "COMMIT", "COMMIT", "ROLLBACK", "read"]),
    st.sampled_from(["a", "b", "c"]),
)


async def _seen_once(server: Server, plan: Sequence[tuple[int, str, str]], limit: int) -> None:
    dsn = await server.emptied()
    store = PostgresStorage(dsn)
    reader = Reader(store, limit=limit)
    async with writers(dsn, 3) as hands:
        transactions = Transactions(hands, "abc")
        for hand, act, name in plan:
            if act == "read":
                await reader.read()
                assert set(reader.seen) <= transactions.committed
            else:
                await transactions.move(hand, act, name)
        await transactions.end()
        await reader.read()
    await store.close()
    assert len(reader.seen) == len(set(reader.seen))
    assert set(reader.seen) == transactions.committed
    for name in "abc":
        assert [n for each, n in reader.seen if each == name] == sorted(n for each, n in reader.seen if each == name)


@pytest.mark.proves("STO-08")
@quick
@given(plan=st.lists(acts, max_size=40), limit=st.sampled_from([1, 3, 1000]))
def test_whatever_the_order_each_event_is_seen_once(
    server: Server, plan: Sequence[tuple[int, str, str]], limit: int
) -> None:
    asyncio.run(_seen_once(server, plan, limit))


@pytest.mark.slow
@pytest.mark.timeout(900)
@much
@given(plan=st.lists(acts, max_size=80), limit=st.sampled_from([1, 3, 1000]))
def test_whatever_the_order_each_event_of_many_is_seen_once(
    server: Server, plan: Sequence[tuple[int, str, str]], limit: int
) -> None:
    asyncio.run(_seen_once(server, plan, limit))
