"""Forks of compacted runs, in the stores that need no server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loom.plugins.sqlite import SqliteStorage
from loom.spi.memory import MemoryStorage
from tests.driving.compacted_forks import CompactedForks, ForkedStorage


class TestMemory(CompactedForks):
    @pytest.fixture
    def store(self) -> ForkedStorage:
        return MemoryStorage()


class TestSqlite(CompactedForks):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ForkedStorage]:
        store = SqliteStorage(tmp_path / "loom.db")
        yield store
        await store.close()
