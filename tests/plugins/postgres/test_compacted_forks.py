from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from loom.plugins.postgres import PostgresStorage
from tests.driving.compacted_forks import CompactedForks, ForkedStorage


class TestPostgres(CompactedForks):
    """The same, against a server that is started for it."""

    @pytest.fixture
    async def store(self, dsn: str) -> AsyncIterator[ForkedStorage]:
        store = PostgresStorage(dsn)
        yield store
        await store.close()
