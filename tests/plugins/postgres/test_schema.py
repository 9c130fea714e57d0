"""Bringing a database to the present schema: once, whole, and without waiting for ever."""

from __future__ import annotations

import asyncio
import logging

import asyncpg
import pytest

from loom.devtools.conformance.logs import REFUND, appended, first, payloads
from loom.plugins.postgres import PostgresStorage
from loom.plugins.postgres.migrating import migrations, schema_version
from loom.plugins.postgres.schema import LOCK_KEY
from loom.spi.errors import StoreNewer, StoreNotFound, StoreUnavailable
from tests.plugins.postgres.server import Server

NUMBERS = [each.number for each in migrations()]


async def _done(server: Server, dsn: str) -> list[int]:
    return [row[0] for row in await server.execute("SELECT number FROM loom.migrations ORDER BY number", dsn=dsn)]


def test_migrations_are_numbered_without_a_gap_each_once() -> None:
    assert list(range(1, schema_version() + 1)) == NUMBERS


async def test_many_that_start_at_once_make_one_schema(server: Server, bare: str) -> None:
    stores = [PostgresStorage(bare) for _ in range(5)]

    await asyncio.gather(*(store.open() for store in stores))

    assert await _done(server, bare) == NUMBERS == list(range(1, len(NUMBERS) + 1))
    for store in stores:
        await store.close()


async def test_one_that_is_cut_off_has_changed_nothing_and_the_next_goes_on(server: Server, bare: str) -> None:
    holder, store = await asyncpg.connect(bare), PostgresStorage(bare)
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute("SELECT pg_advisory_xact_lock($1)", LOCK_KEY)
    opening = asyncio.ensure_future(store.open())
    waiting = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while not await server.execute(f"SELECT pg_terminate_backend(pid) {waiting}", dsn=bare):
        assert not opening.done()

    assert await server.execute("SELECT to_regnamespace('loom')::text", dsn=bare) == [(None,)]
    await transaction.rollback()
    await opening

    assert await _done(server, bare) == NUMBERS
    await holder.close()
    await store.close()


async def test_a_schema_that_is_newer_is_left_alone(server: Server, bare: str) -> None:
    store = PostgresStorage(bare)
    await store.open()
    await store.close()
    await server.execute("INSERT INTO loom.migrations (number) VALUES (99)", dsn=bare)

    for again in (PostgresStorage(bare), PostgresStorage(bare, readonly=True)):
        with pytest.raises(StoreNewer, match="version 99"):
            await again.head(REFUND)
        await again.close()


async def test_who_reads_makes_nothing(server: Server, bare: str) -> None:
    store = PostgresStorage(bare, readonly=True)
    with pytest.raises(StoreNotFound):
        await store.head(REFUND)
    await store.close()

    assert await server.execute("SELECT to_regnamespace('loom')::text", dsn=bare) == [(None,)]
    with pytest.raises(StoreUnavailable, match="read-only"):
        await PostgresStorage(bare, readonly=True).append([first(REFUND)])


@pytest.mark.proves("STO-05")
async def test_what_can_wait_is_put_off_where_a_lock_is_held_and_the_store_works(
    server: Server, bare: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = PostgresStorage(bare)
    await store.open()
    await store.close()
    await server.execute("DELETE FROM loom.migrations WHERE number = 3", dsn=bare)
    holder = await asyncpg.connect(bare)
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute("LOCK TABLE loom.executions IN SHARE UPDATE EXCLUSIVE MODE")

    with caplog.at_level(logging.WARNING, logger="loom.plugins.postgres.schema"):
        await appended(store, first(REFUND, b"1"))

    assert await payloads(store, REFUND) == [b"1"]
    [warning] = caplog.messages
    assert "0003" in warning
    assert "room for updates" in warning
    assert 3 not in await _done(server, bare)
    await store.close()
    await transaction.rollback()
    await holder.close()

    await store.open()
    assert await _done(server, bare) == NUMBERS
    await store.close()
