from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loom.devtools.conformance.snapshot_store import (
    SnapshotStoreConformance,
    TrimmedSnapshots,
    TrimmedSnapshotsConformance,
    kept,
    log_of,
    put,
    snapshot,
)
from loom.driving.errors import SnapshotUnusable
from loom.driving.snapshots import state_of
from loom.plugins.sqlite import SqliteStorage
from loom.spi.errors import StoreUnavailable


class TestSqliteSnapshots(SnapshotStoreConformance, TrimmedSnapshotsConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[TrimmedSnapshots]:
        store = SqliteStorage(tmp_path / "loom.db")
        yield store
        await store.close()


async def test_a_store_that_is_only_read_shows_snapshots_and_keeps_none(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    log = await log_of(store, 3)
    [put_there] = await put(store, snapshot(log, 1))
    await store.close()

    reader = SqliteStorage(tmp_path / "loom.db", readonly=True)

    assert list(await reader.snapshots(put_there.head.execution_id, log.incarnation)) == [put_there.head]
    with pytest.raises(StoreUnavailable, match="read-only"):
        await reader.put_snapshot(snapshot(log, 2))
    assert await kept(reader, log) == [1]
    await reader.close()


async def test_a_body_that_is_no_bytes_is_given_as_a_body_that_is_damaged(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    log = await log_of(store, 3)
    [there] = await put(store, snapshot(log, 1))
    with contextlib.closing(sqlite3.connect(tmp_path / "loom.db")) as raw, raw:
        raw.execute("UPDATE snapshots SET body = 'text'")

    found = await store.latest_snapshot(there.head.execution_id, log.incarnation)

    assert found is not None
    assert found.body == b"text"
    with pytest.raises(SnapshotUnusable):
        state_of(found, is_needed=True)
    await store.close()
