from __future__ import annotations

import pytest

from loom.devtools.conformance.archive_store import ArchiveStoreConformance
from loom.plugins.postgres import PostgresStorage
from tests.services.compacted import compact_every_golden_log


@pytest.mark.proves("STO-13")
class TestPostgresArchive(ArchiveStoreConformance):
    """The kit, against a server that is started for it."""


@pytest.mark.proves("LIF-05")
async def test_every_golden_log_is_compacted_into_another_database(store: PostgresStorage, bare: str) -> None:
    archive = PostgresStorage(bare)
    await compact_every_golden_log(store, archive)
    await archive.close()


async def test_a_database_is_known_by_whichever_address_it_is_reached(
    store: PostgresStorage, dsn: str, bare: str
) -> None:
    again, other = PostgresStorage(dsn, connections=1), PostgresStorage(bare, connections=1)

    assert await again.place() == await store.place() != await other.place()

    await again.close()
    await other.close()
