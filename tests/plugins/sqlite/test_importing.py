from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loom.devtools.conformance.event_import import EventImportConformance, ImportingStorage
from loom.plugins.sqlite import SqliteStorage


class TestSqliteImport(EventImportConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ImportingStorage]:
        store = SqliteStorage(tmp_path / "loom.db")
        yield store
        await store.close()
