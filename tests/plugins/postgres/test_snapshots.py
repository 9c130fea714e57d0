from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from loom.core.errors import InvalidDeclaration
from loom.devtools.conformance.logs import REFUND
from loom.devtools.conformance.snapshot_store import (
    SnapshotStoreConformance,
    TrimmedSnapshotsConformance,
    kept,
    log_of,
    put,
    snapshot,
)
from loom.plugins.postgres import PostgresStorage
from loom.plugins.postgres.compression import compress_snapshots
from tests.plugins.postgres.server import NoPostgres, Server


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


# lz4

COMPRESSED = "SELECT attcompression FROM pg_attribute WHERE attrelid = 'loom.snapshots'::regclass AND attname = 'body'"
BODY = b'{"a":1,"b":[1,2,3]}' * 4_000


@pytest.fixture(scope="module")
def lz4_server() -> Iterator[Server]:
    """A server that was built with lz4: that of the wheel was not."""
    try:
        server = Server(of_machine=True)
    except NoPostgres as reason:
        pytest.skip(f"no Postgres with lz4: {reason}")
    yield server
    server.remove()


@pytest.fixture
async def lz4_dsn(lz4_server: Server) -> str:
    dsn = await lz4_server.database()
    try:
        await lz4_server.execute("CREATE TABLE probe (body bytea COMPRESSION lz4)", dsn=dsn)
    except asyncpg.FeatureNotSupportedError as reason:
        pytest.skip(f"no Postgres with lz4: {reason}")
    return dsn


@pytest.mark.proves("LIF-14", "NOT-07")
async def test_the_server_compresses_with_lz4_where_that_is_asked_for_and_in_its_own_way_else(
    lz4_server: Server, lz4_dsn: str
) -> None:
    server, bare = lz4_server, lz4_dsn
    plain, fast = PostgresStorage(bare), PostgresStorage(bare, snapshot_compression="lz4")
    log = await log_of(plain, 3)
    await put(plain, snapshot(log, 0, body=BODY))
    assert await server.execute(COMPRESSED, dsn=bare) == [(b"\x00",)]

    await put(fast, snapshot(log, 1, body=BODY))

    assert await server.execute(COMPRESSED, dsn=bare) == [(b"l",)]
    used = "SELECT pg_column_compression(body) FROM loom.snapshots ORDER BY sequence"
    assert await server.execute(used, dsn=bare) == [("pglz",), ("lz4",)]
    for store in (plain, fast):  # what was written before is read, and not rewritten
        assert [await store.latest_snapshot(REFUND, log.incarnation, upto=at) for at in (0, 1)] == [
            snapshot(log, at, body=BODY) for at in (0, 1)
        ]
        await store.close()


@pytest.mark.proves("LIF-14")
async def test_a_server_that_was_built_without_it_goes_on_as_before_with_a_warning(
    server: Server, bare: str, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        await server.execute("CREATE TABLE probe (body bytea COMPRESSION lz4)", dsn=bare)
        pytest.skip("this server has lz4")
    except asyncpg.FeatureNotSupportedError:
        pass
    store = PostgresStorage(bare, snapshot_compression="lz4")

    with caplog.at_level(logging.WARNING, logger="loom.plugins.postgres.compression"):
        log = await log_of(store, 3)
    [made] = await put(store, snapshot(log, 1, body=BODY))

    [warning] = caplog.messages
    assert "compressed as before, not with lz4: compression method lz4 not supported" in warning
    assert await store.latest_snapshot(REFUND, log.incarnation) == made
    await store.close()


@pytest.mark.proves("LIF-14")
async def test_where_the_column_is_locked_the_store_opens_with_a_warning_and_tries_again(
    lz4_server: Server, lz4_dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    server, bare = lz4_server, lz4_dsn
    plain = PostgresStorage(bare)
    log = await log_of(plain, 3)
    holder = await asyncpg.connect(bare)
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute("LOCK TABLE loom.snapshots IN ROW EXCLUSIVE MODE")
    fast = PostgresStorage(bare, snapshot_compression="lz4")

    with caplog.at_level(logging.WARNING, logger="loom.plugins.postgres.compression"):
        await put(fast, snapshot(log, 1, body=BODY))

    [warning] = caplog.messages
    assert "compressed as before, not with lz4" in warning
    await transaction.rollback()
    await fast.close()
    await fast.open()
    assert await server.execute(COMPRESSED, dsn=bare) == [(b"l",)]
    for each in (holder, plain, fast):
        await each.close()


@pytest.mark.proves("LIF-14")
@pytest.mark.parametrize(
    "error",
    [
        asyncpg.FeatureNotSupportedError("compression method lz4 not supported"),
        asyncpg.UndefinedColumnError('column "attcompression" does not exist'),
        asyncpg.InsufficientPrivilegeError("must be owner of table snapshots"),
    ],
)
async def test_what_a_server_cannot_or_will_not_do_is_a_warning(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing:
        """A connection to a server that refuses."""

        @contextlib.asynccontextmanager
        async def transaction(self) -> AsyncIterator[None]:
            yield

        async def fetchval(self, statement: str) -> None:
            raise error

    raw: Any = Refusing()
    with caplog.at_level(logging.WARNING, logger="loom.plugins.postgres.compression"):
        await compress_snapshots(raw, "lz4", url="postgresql://here/db")

    assert caplog.messages == [f"snapshots in postgresql://here/db are compressed as before, not with lz4: {error}"]


def test_another_compression_is_refused() -> None:
    other: Any = "zstd"
    with pytest.raises(InvalidDeclaration, match="there is lz4") as refused:
        PostgresStorage("postgresql://here/db", snapshot_compression=other)

    assert "snapshot_codec" in refused.value.hint
