from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loom.devtools.conformance.event_fork import EventForkConformance, ForkingStorage
from loom.devtools.conformance.ref_store import NamingStorage, RefStoreConformance
from loom.plugins.sqlite import SqliteStorage


@pytest.mark.proves("BRN-06")
class TestSqliteRefs(RefStoreConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[NamingStorage]:
        store = SqliteStorage(tmp_path / "loom.db")
        yield store
        await store.close()


@pytest.mark.proves("BRN-02")
class TestSqliteForks(EventForkConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ForkingStorage]:
        store = SqliteStorage(tmp_path / "loom.db")
        yield store
        await store.close()
