from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loom.devtools.conformance.storage import StorageConformance
from loom.plugins.sqlite import SqliteStorage
from loom.spi.clock import VirtualClock
from loom.spi.event_store import Storage


@pytest.mark.proves("STO-01", "KER-19")
class TestSqliteStorage(StorageConformance):
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    async def store(self, tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Storage]:
        store = SqliteStorage(tmp_path / "loom.db", clock=clock)
        yield store
        await store.close()
