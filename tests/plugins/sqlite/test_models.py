from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loom.devtools.conformance.read_model_store import COSTS, V1, ReadModelStoreConformance, log_of, put, row
from loom.plugins.sqlite import SqliteStorage
from loom.spi.errors import StoreUnavailable


class TestSqliteModels(ReadModelStoreConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[SqliteStorage]:
        store = SqliteStorage(tmp_path / "loom.db")
        yield store
        await store.close()


async def test_a_store_that_is_only_read_shows_rows_and_keeps_none(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    log = await log_of(store, 3)
    await put(store, row(log, 1))
    await store.close()

    reader = SqliteStorage(tmp_path / "loom.db", readonly=True)

    assert list(await reader.model_rows(COSTS, V1)) == [row(log, 1)]
    for refused in (put(reader, row(log, 2)), reader.drop_model(COSTS), reader.erase_model_rows([])):
        with pytest.raises(StoreUnavailable, match="read-only"):
            await refused
    await reader.close()
