"""A retention pass that is killed, at any moment, leaves every run in Postgres whole or gone (field fault 38)."""

from __future__ import annotations

import pytest

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import appended, first, payloads
from loom.plugins.postgres import PostgresStorage
from loom.services.retention import Retention
from tests.plugins.postgres.server import Server
from tests.retained import fill_families, whole
from tests.services.test_retention_kills import FAMILIES, killed

ROWS = "SELECT (SELECT count(*) FROM loom.events), (SELECT count(*) FROM loom.executions)"


@pytest.mark.proves("CLI-17", "KER-15")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 50))])
async def test_whatever_the_moment_every_run_is_whole_or_gone(server: Server, seed: int) -> None:
    dsn = await server.emptied()
    store = PostgresStorage(dsn)
    families = await fill_families(store, FAMILIES, seed)

    said = killed(dsn, seed)

    left = await whole(store, families)
    assert FAMILIES - len(left) >= said, f"seed {seed}"
    [row] = await server.execute(ROWS, dsn=dsn)
    assert tuple(row) == (
        sum(sum(families[name].values()) for name in left),
        sum(len(families[name]) for name in left),
    )
    tally = await Retention(store, ttl_ms=60_000).run()
    assert tally.families == len(left)
    assert [tuple(each) for each in await server.execute(ROWS, dsn=dsn)] == [(0, 0)]
    await appended(store, first(ExecutionId("f-0000"), b"new"))
    assert await payloads(store, ExecutionId("f-0000")) == [b"new"]
    await store.close()
