"""A store of an earlier schema with data in it: killed while it is upgraded, and started on by many (field fault 34)."""

from __future__ import annotations

import asyncio
import re
from random import Random
from typing import Any

import pytest

from loom.core.ids import ExecutionId
from loom.plugins.postgres import PostgresStorage
from loom.plugins.postgres.migrating import migrations
from tests.plugins.postgres.server import Server
from tests.plugins.upgrading import TOGETHER, killed, together

RUNS = 2_000
HARD = [each.number for each in migrations() if not each.pending]
ROWS = """
    INSERT INTO loom.executions (id, length, flow, status, started_at, updated_at, wake_at, gates, attributes, link, ended, appended)
    SELECT 'r-' || lpad(n::text, 5, '0'), 1, 'refund', 'suspended', n, 7, 5, '[]', '{}', 1, false, '[]' FROM generate_series(1, $1) AS n
"""
EVENTS = "INSERT INTO loom.events (run, sequence, type, at, payload) SELECT run, 0, 'A', 5, convert_to(run::text, 'UTF8') FROM loom.executions"
DATA = "SELECT run, id, length, flow, status, started_at, updated_at, wake_at, gates FROM loom.executions ORDER BY run"


async def old(server: Server, dsn: str, version: int) -> None:
    """Make a store with the migrations up to *version*, with runs in it."""
    await server.execute("CREATE SCHEMA loom", dsn=dsn)
    await server.execute(
        "CREATE TABLE loom.migrations (number bigint PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())",
        dsn=dsn,
    )
    for each in migrations()[:version]:
        await server.script(each.script, dsn=dsn)
        await server.execute("INSERT INTO loom.migrations (number) VALUES ($1)", each.number, dsn=dsn)
    await server.execute(ROWS, RUNS, dsn=dsn)
    await server.execute(EVENTS, dsn=dsn)


async def schema_of(server: Server, dsn: str) -> str:
    """Return all that is defined in the database, as text."""
    await asyncio.to_thread(server.run, "pg_dump", "--schema-only", "--schema=loom", "--file=schema.sql", dsn)
    text = (server.home / "schema.sql").read_text("utf-8")
    return re.sub(r"(?m)^(\\.*|--.*|)\n", "", text)


async def done(server: Server, dsn: str) -> list[int]:
    return [row[0] for row in await server.execute("SELECT number FROM loom.migrations ORDER BY number", dsn=dsn)]


async def data_in(server: Server, dsn: str) -> list[Any]:
    rows = [tuple(row) for row in await server.execute(DATA, dsn=dsn)]
    return [*rows, tuple((await server.execute("SELECT count(*) FROM loom.events", dsn=dsn))[0])]


async def nobody_else(server: Server, dsn: str) -> None:
    """Return once the connections of those who were killed are over."""
    others = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    while await server.execute(others + " AND backend_type = 'client backend'", dsn=dsn):
        await asyncio.sleep(0.01)


@pytest.mark.proves("STO-05")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 50))])
async def test_an_upgrade_that_is_killed_has_happened_or_has_not(server: Server, bare: str, seed: int) -> None:
    chance = Random(seed)
    version = chance.randrange(1, len(migrations()))
    await old(server, bare, version)
    before, data, had = await schema_of(server, bare), await data_in(server, bare), await done(server, bare)

    await asyncio.to_thread(killed, bare, chance, steps=2 * (len(migrations()) - version) + 1)

    await nobody_else(server, bare)
    found = await done(server, bare)
    assert set(HARD) <= set(found) or found == had, f"seed {seed}"
    if found == had:
        assert await schema_of(server, bare) == before
    assert await data_in(server, bare) == data
    store = PostgresStorage(bare)
    assert len(await store.ids(limit=10_000)) == RUNS
    assert await done(server, bare) == [each.number for each in migrations()]
    assert await data_in(server, bare) == data
    [record] = await store.read(ExecutionId("r-00007"))
    assert record.payload == b"7"
    await store.close()


@pytest.mark.proves("STO-05")
async def test_of_many_that_start_on_an_old_store_one_upgrades_it_and_the_others_wait(
    server: Server, bare: str
) -> None:
    await old(server, bare, 1)
    data = await data_in(server, bare)

    ran = await asyncio.to_thread(together, bare)

    steps = 2 * (len(migrations()) - 1)
    assert sum(ran) == steps
    hard = [each for each in ran if each >= 2 * (len(HARD) - 1)]
    assert len(hard) == 1
    assert len(ran) == TOGETHER
    assert await done(server, bare) == [each.number for each in migrations()]
    assert await data_in(server, bare) == data
