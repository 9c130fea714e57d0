"""Contents in SQLite pass the kit, beside the logs or alone, and survive what happens to processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import loom
from loom.devtools.conformance.content_store import (
    ADA,
    ContentStoreConformance,
    got,
    large,
    listed,
    pieces_of,
)
from loom.devtools.conformance.logs import REFUND, appended, first, payloads
from loom.plugins.sqlite import SqliteContent, SqliteStorage
from loom.spi.clock import VirtualClock
from loom.spi.content_store import LEFT_BEHIND_MS, address_of
from loom.spi.errors import StoreUnavailable
from tests.plugins.putter import faults, killed


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[SqliteContent]:
    store = SqliteContent(tmp_path / "loom.db", clock=clock)
    yield store
    await store.close()


@pytest.mark.proves("DAT-09")
class TestSqliteContent(ContentStoreConformance):
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    async def store(self, tmp_path: Path, clock: VirtualClock) -> AsyncIterator[SqliteContent]:
        store = SqliteContent(tmp_path / "loom.db", clock=clock)
        yield store
        await store.close()


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.proves("DAT-09")
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 40))])
async def test_a_process_that_is_killed_in_the_middle_of_a_put_leaves_no_half(seed: int, tmp_path: Path) -> None:
    place = tmp_path / "content.db"
    acknowledged = [ref for life in range(2) for ref in killed("sqlite", str(place), seed=100 * seed + life)]

    store = SqliteContent(place)
    assert await faults(store, acknowledged) == [], f"seed {seed}"
    await store.close()


async def test_they_lie_in_the_database_of_the_logs_or_in_one_of_their_own(tmp_path: Path) -> None:
    logs, beside = SqliteStorage(tmp_path / "loom.db"), SqliteContent(tmp_path / "loom.db")
    await appended(logs, first(REFUND, b"1"))

    ref = await beside.put(large())

    assert await payloads(logs, REFUND) == [b"1"]
    assert await got(beside, ref) == large()
    assert [name for name in names(tmp_path) if name.endswith(".db")] == ["loom.db"]
    await logs.close()
    await beside.close()


async def test_reading_makes_no_file(store: SqliteContent, tmp_path: Path) -> None:
    assert await got(store, address_of(ADA)) is None
    assert await store.contents() == []
    assert names(tmp_path) == []


async def test_an_app_that_keeps_its_contents_there(tmp_path: Path) -> None:
    @loom.step(claim_check=loom.ClaimCheck(over_bytes=10))
    async def write() -> bytes:
        return large()

    @loom.step
    async def read(step: loom.StepContext, claimed: loom.Claimed[bytes]) -> bool:
        return await step.content.get(claimed) == large()

    @loom.flow
    async def both(ctx: loom.Context) -> bool:
        return await ctx.run(read, await ctx.run(write))

    path = tmp_path / "loom.db"
    async with loom.define_config(flows=[both], storage=SqliteStorage(path), content=SqliteContent(path)) as app:
        assert (await app.runtime.start(both)).result()

    assert not (tmp_path / "loom.db.content").exists()


async def test_others_write_while_a_long_stream_is_put(store: SqliteContent, tmp_path: Path) -> None:
    logs = SqliteStorage(tmp_path / "loom.db", busy_timeout_s=1.0)

    async def slow() -> AsyncIterator[bytes]:
        yield large()
        await appended(logs, first(REFUND, b"1"))
        yield ADA

    kept = await store.put_stream(slow())

    assert await got(store, kept.ref) == large() + ADA
    await logs.close()


async def test_what_a_killed_put_left_is_tidied_away_a_day_later(store: SqliteContent, clock: VirtualClock) -> None:
    draft = await store._begin()
    await store._add(draft, 0, [large()])

    assert await store.tidy() == 0
    clock.advance(LEFT_BEHIND_MS + 1)
    assert await store.tidy() == 1

    assert await store.tidy() == 0
    assert not await store._add(draft, 0, [ADA])


async def test_a_stream_that_gives_nothing_for_a_day_is_told_that_it_was_tidied_away(
    store: SqliteContent, clock: VirtualClock
) -> None:
    async def stalls() -> AsyncIterator[bytes]:
        yield large()
        clock.advance(LEFT_BEHIND_MS + 1)
        assert await store.tidy() == 1
        yield ADA

    with pytest.raises(StoreUnavailable, match="tidied away"):
        await store.put_stream(stalls())

    assert await store.contents() == []


async def test_a_content_that_goes_while_it_is_streamed_is_missed(store: SqliteContent) -> None:
    ref = await store.put(large())
    pieces = store.stream(ref)
    await anext(pieces)
    await store.remove((await listed(store)).values())

    with pytest.raises(loom.LoomError, match="is not there"):
        await anext(pieces)


async def test_two_processes_worth_of_stores_keep_the_same_bytes_once(tmp_path: Path) -> None:
    stores = [SqliteContent(tmp_path / "c.db") for _ in range(3)]

    kept = await asyncio.gather(*(store.put_stream(pieces_of(large(), 500_000)) for store in stores))

    assert {each.ref for each in kept} == {address_of(large())}
    assert len(await stores[0].contents()) == 1
    assert await stores[1]._left() == []
    for store in stores:
        await store.close()
