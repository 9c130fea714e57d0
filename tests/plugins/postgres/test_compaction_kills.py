"""`loom compact`, killed at any moment, loses nothing of what is in Postgres: each run is whole, and each event is told once."""

from __future__ import annotations

import pytest

from loom.plugins.postgres import PostgresStorage
from tests.plugins.postgres.server import Server
from tests.services.killed import compacted_while_driven, filled, hold, killed


@pytest.mark.proves("LIF-05", "LIF-07", "LIF-08")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 50))])
async def test_whatever_the_moment_nothing_is_lost(server: Server, seed: int) -> None:
    dsn, archive_dsn = await server.emptied(), await server.database()
    store, archive = PostgresStorage(dsn), PostgresStorage(archive_dsn)
    before = await filled(store)

    done = killed(dsn, archive_dsn, seed)

    await hold(store, archive, before, done=done, seed=seed)
    await store.close()
    await archive.close()


@pytest.mark.proves("LIF-05")
async def test_a_process_that_drives_a_run_meanwhile_is_not_disturbed(server: Server) -> None:
    dsn = await server.emptied()
    store, archive = PostgresStorage(dsn), PostgresStorage(await server.database())

    moved = await compacted_while_driven(store, archive, dsn)

    assert moved > 5
    await store.close()
    await archive.close()
