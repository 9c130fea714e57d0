from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loom.devtools.conformance.logs import REFUND, appended, first, payloads
from loom.devtools.conformance.schedule_store import DAILY, HOUR, SEEN, ScheduleStoreConformance, recorded, started
from loom.plugins.sqlite import SqliteStorage
from loom.spi.errors import StoreNotFound, StoreUnavailable
from loom.spi.schedule_store import ScheduleStore


@pytest.mark.proves("RNG-21")
class TestSqliteSchedules(ScheduleStoreConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ScheduleStore]:
        store = SqliteStorage(tmp_path / "loom.db")
        yield store
        await store.close()


async def test_a_record_is_there_after_the_process(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    cursor = await recorded(store, 2 * HOUR)
    await appended(store, first(REFUND, b"1"))
    await store.close()

    again = SqliteStorage(tmp_path / "loom.db", readonly=True)

    assert await again.schedule_cursor(DAILY) == cursor
    assert list(await again.schedule_entries(DAILY)) == [started(2 * HOUR)]
    assert await payloads(again, REFUND) == [b"1"]
    await again.close()


async def test_a_store_that_is_only_read_records_nothing(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db", readonly=True)

    with pytest.raises(StoreUnavailable, match="read-only"):
        await store.record_ticks(DAILY, None, SEEN, entries=[])
    with pytest.raises(StoreNotFound):
        await store.schedule_cursor(DAILY)

    assert not (tmp_path / "loom.db").exists()
