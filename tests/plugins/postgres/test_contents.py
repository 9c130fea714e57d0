"""Contents in Postgres pass the kit, survive what happens to processes, and their runs need no larger notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

import loom
from loom.core.ids import ExecutionId
from loom.devtools.conformance.content_store import ADA, ContentStoreConformance, got, large, listed, pieces_of
from loom.plugins.postgres import PostgresContent, PostgresStorage
from loom.plugins.postgres.hearing import CHANNEL
from loom.services.sweeping import ContentSweep
from loom.spi.clock import VirtualClock
from loom.spi.content_store import LEFT_BEHIND_MS, address_of
from tests.plugins.postgres.server import Server
from tests.plugins.putter import faults, killed
from tests.rings.test_large_results import SIZES, has_a_life, writes, writes_elsewhere

DAY_MS = 24 * 3_600_000


@pytest.fixture
async def contents(dsn: str, clock: VirtualClock) -> AsyncIterator[PostgresContent]:
    contents = PostgresContent(dsn, clock=clock)
    yield contents
    await contents.close()


@pytest.mark.proves("DAT-09")
class TestPostgresContent(ContentStoreConformance):
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    async def store(self, dsn: str, clock: VirtualClock) -> AsyncIterator[PostgresContent]:
        store = PostgresContent(dsn, clock=clock)
        yield store
        await store.close()


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 30))])
async def test_a_process_that_is_killed_in_the_middle_of_a_put_leaves_no_half(seed: int, dsn: str) -> None:
    acknowledged = [ref for life in range(2) for ref in killed("postgres", dsn, seed=100 * seed + life)]

    store = PostgresContent(dsn)
    assert await faults(store, acknowledged) == [], f"seed {seed}"
    await store.close()


async def test_reading_makes_no_schema_and_the_first_content_does(bare: str, server: Server) -> None:
    contents = PostgresContent(bare)

    assert await got(contents, address_of(ADA)) is None
    assert await contents.contents() == []
    assert await contents.tidy() == 0
    assert await server.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'loom'", dsn=bare) == []

    ref = await contents.put(ADA)
    assert await got(contents, ref) == ADA
    await contents.close()


async def test_the_time_is_that_of_the_server(dsn: str) -> None:
    contents, storage = PostgresContent(dsn), PostgresStorage(dsn)

    assert abs(await contents.now_ms() - await storage.now_ms()) < 5_000
    assert storage.content_store().url == storage.url == contents.url
    await contents.close()
    await storage.close()


async def test_a_pooler_and_two_stores_keep_the_same_bytes_once(dsn: str) -> None:
    pooled = dsn + ("&" if "?" in dsn else "?") + "pooler=transaction"
    stores = [PostgresContent(dsn), PostgresContent(pooled), PostgresContent(dsn)]

    kept = await asyncio.gather(*(store.put_stream(pieces_of(large(), 500_000)) for store in stores))

    assert {each.ref for each in kept} == {address_of(large())}
    assert len(await stores[0].contents()) == 1
    assert await stores[1]._left() == []
    for store in stores:
        await store.close()


async def test_what_a_killed_put_left_is_tidied_away_a_day_later(
    contents: PostgresContent, clock: VirtualClock
) -> None:
    draft = await contents._begin()
    await contents._add(draft, 0, [large()])

    assert await contents.tidy() == 0
    clock.advance(LEFT_BEHIND_MS + 1)
    assert await contents.tidy() == 1
    assert not await contents._add(draft, 0, [ADA])


async def test_naming_again_what_has_its_address_keeps_it(contents: PostgresContent) -> None:
    draft = await contents._begin()
    await contents._add(draft, 0, [ADA])
    first = await contents._name(draft, address_of(ADA))

    again = await contents._name(draft, address_of(ADA))  # the connection was lost, and nobody knows what became of it

    assert first is not None
    assert again is not None
    assert first.is_kept is again.is_kept is True
    await contents._discarded(draft)
    assert await got(contents, address_of(ADA)) == ADA
    assert len(await listed(contents)) == 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("flow", ["writes", "writes_elsewhere"])
async def test_a_large_result_is_kept_and_notices_carry_ids_only(flow: str, size: int, dsn: str) -> None:
    heard: list[str] = []
    listening = await asyncpg.connect(dsn)
    await listening.add_listener(CHANNEL, lambda *notice: heard.append(str(notice[-1])))
    app = loom.define_config(flows=[writes, writes_elsewhere], storage=PostgresStorage(dsn))
    followed: list[str] = []

    async def follow() -> None:
        async for event in app.storage.subscribe(ExecutionId(f"{flow}-{size}")):
            followed.append(event.type)
            if event.type == "EXECUTION_COMPLETED":
                return

    async with app:
        following = asyncio.create_task(follow())
        await has_a_life(app, flow, size)
        await following
        await listening.fetchval("SELECT 1")  # what was notified before has been heard
    await listening.close()

    assert followed[-1] == "EXECUTION_COMPLETED"
    assert heard
    assert max(map(len, heard)) < 500
    assert any(f"{flow}-{size}" in notice for notice in heard)


@pytest.mark.proves("CLI-18", "LIF-16")
async def test_a_sweep_removes_what_has_aged_and_keeps_what_an_open_run_cites(dsn: str, clock: VirtualClock) -> None:
    storage = PostgresStorage(dsn, clock=clock)
    app = loom.define_config(flows=[writes_elsewhere], storage=storage, clock=clock)
    async with app:
        for size in (5_000, 6_000):
            await app.runtime.start(writes_elsewhere, size, id=f"r{size}")
        clock.advance(40 * DAY_MS)
        await app.runtime.resume("r5000", answer=None)
        held = await ContentSweep(storage.content_store(), storage, ttl_ms=30 * DAY_MS).run()
        clock.advance(31 * DAY_MS)

        tally = await ContentSweep(storage.content_store(), storage, ttl_ms=30 * DAY_MS).run()

        assert dict(held.kept) == {"held_by_end_clock": 1, "open": 1}
        assert (tally.removed, dict(tally.by), dict(tally.kept)) == (1, {"end": 1}, {"open": 1})
        assert (await app.runtime.resume("r6000", answer=None)).result() == 6_000
