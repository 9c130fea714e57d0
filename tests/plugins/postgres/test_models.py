from __future__ import annotations

import asyncio

import asyncpg
import pytest

from loom.devtools.conformance.logs import REFUND
from loom.devtools.conformance.read_model_store import ReadModelStoreConformance, log_of, put, row
from loom.plugins.postgres import PostgresStorage, models
from tests.plugins.postgres.server import Server
from tests.services.test_read_models import converging


@pytest.mark.proves("STO-09")
async def test_two_nodes_that_fold_at_once_come_to_the_same_rows(dsn: str) -> None:
    await converging(lambda: PostgresStorage(dsn))


class TestPostgresModels(ReadModelStoreConformance):
    """The kit, against a server that is started for it."""


async def test_a_run_that_is_deleted_while_its_row_is_put_leaves_none(
    server: Server, dsn: str, store: PostgresStorage
) -> None:
    log = await log_of(store, 3)
    await put(store, row(log, 1))
    deleter = await asyncpg.connect(dsn)
    transaction = deleter.transaction()
    await transaction.start()
    await deleter.execute("SELECT FROM loom.executions WHERE id = $1 FOR UPDATE", REFUND)

    putting = asyncio.ensure_future(put(store, row(log, 2)))
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while not await server.execute(waiting, dsn=dsn):
        assert not putting.done()
    for table in ("model_rows", "events", "executions"):
        await deleter.execute(f"DELETE FROM loom.{table} WHERE run = $1", log.incarnation)
    await transaction.commit()

    assert await putting == [False]
    assert await server.execute("SELECT count(*) FROM loom.model_rows", dsn=dsn) == [(0,)]
    await deleter.close()


@pytest.mark.parametrize("statement", [models._BEHIND, models._ROWS], ids=["behind", "rows"])
async def test_rows_are_looked_up_by_their_key_though_the_server_thinks_there_are_none(
    server: Server, bare: str, statement: str
) -> None:
    store = PostgresStorage(bare)
    await store.open()
    await server.script("ANALYZE loom.executions; ANALYZE loom.model_rows", dsn=bare)
    rows = "INSERT INTO loom.model_rows SELECT 'm', 'v', n, 0, 0, '{}' FROM generate_series(1, 2000) AS n"
    await server.execute(rows, dsn=bare)

    plan = await server.execute(f"EXPLAIN {statement} {models._ALL}", "m", "v", "", "", "z", 100, dsn=bare)

    told = "\n".join(row[0] for row in plan)
    assert "using model_rows_pkey on model_rows" in told, told
    await store.close()


async def test_a_plan_of_when_there_were_no_rows_is_not_kept(store: PostgresStorage) -> None:
    for _ in range(12):
        await store.behind("m", "v")
        await store.model_rows("m", "v")

    counts = "SELECT sum(generic_plans), sum(custom_plans) FROM pg_prepared_statements WHERE statement LIKE '%loom.model' || '_rows%'"
    [(kept, anew)] = await store._read(lambda raw: raw.fetch(counts))
    assert (kept, anew > 0) == (0, True)
