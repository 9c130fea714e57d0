from __future__ import annotations

import asyncio

import asyncpg

from loom.devtools.conformance.snapshot_store import (
    SnapshotStoreConformance,
    TrimmedSnapshotsConformance,
    kept,
    log_of,
    snapshot,
)
from loom.plugins.postgres import PostgresStorage
from tests.plugins.postgres.server import Server


class TestPostgresSnapshots(SnapshotStoreConformance, TrimmedSnapshotsConformance):
    """The kit, against a server that is started for it."""


async def test_a_run_that_is_deleted_while_its_snapshot_is_written_leaves_none(
    server: Server, dsn: str, store: PostgresStorage
) -> None:
    log = await log_of(store, 3)
    deleter = await asyncpg.connect(dsn)
    transaction = deleter.transaction()
    await transaction.start()
    await deleter.execute("SELECT FROM loom.executions WHERE run = $1 FOR UPDATE", log.incarnation)
    await deleter.execute("DELETE FROM loom.snapshots WHERE run = $1", log.incarnation)
    putting = asyncio.ensure_future(store.put_snapshot(snapshot(log, 1)))
    await waits_for_a_lock(server, dsn)
    await deleter.execute("DELETE FROM loom.executions WHERE run = $1", log.incarnation)
    await transaction.commit()

    assert await putting is False
    assert await server.execute("SELECT count(*) FROM loom.snapshots", dsn=dsn) == [(0,)]
    await deleter.close()


async def test_the_bytes_are_written_before_the_run_is_locked(server: Server, dsn: str, store: PostgresStorage) -> None:
    """An append waits for the lock, so it must not be held for as long as a large body takes."""
    log = await log_of(store, 3)
    appender = await asyncpg.connect(dsn)
    transaction = appender.transaction()
    await transaction.start()
    await appender.execute("SELECT FROM loom.executions WHERE run = $1 FOR UPDATE", log.incarnation)
    putting = asyncio.ensure_future(store.put_snapshot(snapshot(log, 1)))

    waiting = await waits_for_a_lock(server, dsn)

    assert "FOR KEY SHARE" in waiting
    await transaction.rollback()
    assert await putting is True
    assert await kept(store, log) == [1]
    await appender.close()


async def waits_for_a_lock(server: Server, dsn: str) -> str:
    """Return the statement that waits for a lock, once one does."""
    waiting = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while not (found := await server.execute(f"SELECT query {waiting}", dsn=dsn)):
        await asyncio.sleep(0)
    statement: str = found[0][0]
    return statement
