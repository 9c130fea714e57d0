from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from loom.plugins.sqlite import SqliteStorage
from loom.spi.clock import VirtualClock
from loom.spi.memory import MemoryStorage
from tests.driving.reused import ReusedIds


@pytest.mark.proves("KER-15")
class TestReusedIds(ReusedIds):
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture(params=["memory", "sqlite"])
    async def store(self, request: Any, tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Any]:
        store: Any = MemoryStorage(clock=clock)
        if request.param == "sqlite":
            store = SqliteStorage(tmp_path / "loom.db", clock=clock)
        yield store
        await store.close()
