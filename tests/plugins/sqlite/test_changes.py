from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loom.devtools.conformance.change_feed import ChangeFeedConformance, ChangingStorage
from loom.plugins.sqlite import SqliteStorage


class TestSqliteChanges(ChangeFeedConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ChangingStorage]:
        store = SqliteStorage(tmp_path / "loom.db")
        yield store
        await store.close()
