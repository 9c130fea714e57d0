from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loom.devtools.conformance.archive_store import FIRST, ArchiveStoreConformance
from loom.devtools.conformance.logs import REFUND, events
from loom.plugins.sqlite import SqliteStorage
from loom.spi.archive_store import ArchiveStore
from loom.spi.errors import StoreNotFound, StoreUnavailable
from tests.services.compacted import compact_every_golden_log


@pytest.mark.proves("STO-13")
class TestSqliteArchive(ArchiveStoreConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ArchiveStore]:
        store = SqliteStorage(tmp_path / "archive.db")
        yield store
        await store.close()


@pytest.mark.proves("LIF-05")
async def test_every_golden_log_is_compacted_from_one_file_to_another(tmp_path: Path) -> None:
    store, archive = SqliteStorage(tmp_path / "loom.db"), SqliteStorage(tmp_path / "archive.db")

    await compact_every_golden_log(store, archive)

    await store.close()
    await archive.close()


async def test_an_archive_that_is_only_read_keeps_nothing(tmp_path: Path) -> None:
    archive = SqliteStorage(tmp_path / "archive.db", readonly=True)

    with pytest.raises(StoreUnavailable, match="read-only"):
        await archive.archive(REFUND, FIRST, events(b"1"))
    with pytest.raises(StoreNotFound):
        await archive.read_archived(REFUND, FIRST)

    assert not (tmp_path / "archive.db").exists()
