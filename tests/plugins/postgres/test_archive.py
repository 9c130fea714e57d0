from __future__ import annotations

import pytest

from loom.devtools.conformance.archive_store import ArchiveStoreConformance
from loom.plugins.postgres import PostgresStorage
from tests.services.compacted import compact_every_golden_log


@pytest.mark.proves("STO-13")
class TestPostgresArchive(ArchiveStoreConformance):
    """The kit, against a server that is started for it."""


@pytest.mark.proves("LIF-05")
async def test_every_golden_log_is_compacted_into_the_same_database(store: PostgresStorage) -> None:
    await compact_every_golden_log(store, store)
