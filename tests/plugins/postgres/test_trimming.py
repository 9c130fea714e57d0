from __future__ import annotations

import pytest

from loom.devtools.conformance.event_trim import EventTrimConformance
from loom.devtools.conformance.snapshot_store import put, snapshot
from loom.devtools.conformance.trimmed_relatives import TrimmedForksConformance, TrimmedLinesConformance, full_of
from loom.plugins.postgres import PostgresStorage
from loom.plugins.postgres.trimming import BY_ID, BY_LIFE
from loom.spi.event_store import Appended
from loom.spi.event_trim import Deleted
from tests.plugins.postgres.server import Server


@pytest.mark.proves("KER-15", "STO-04")
class TestPostgresTrim(EventTrimConformance, TrimmedLinesConformance, TrimmedForksConformance):
    """The kit, against a server that is started for it."""


OF_RUNS = [*BY_LIFE, *BY_ID, "executions"]

STAYS = {"schedule_entries", "archived_lives", "content_citations"}
"""What tells of a run and is kept by something else: the record of a schedule, an archive, what a sweep goes by."""


async def test_all_that_belongs_to_a_run_goes_with_it(server: Server, dsn: str) -> None:
    tables = "FROM information_schema.columns JOIN pg_tables ON schemaname = table_schema AND tablename = table_name"
    named = f"SELECT DISTINCT table_name {tables} WHERE table_schema = 'loom' AND column_name IN ('run', 'execution', 'execution_id')"

    of_a_run = {row[0] for row in await server.execute(named, dsn=dsn)}

    assert of_a_run == {*BY_LIFE, *BY_ID, *STAYS, "executions"}, "add what is new to the lists in trimming.py"


async def test_no_row_of_a_deleted_run_is_left(server: Server, dsn: str, store: PostgresStorage) -> None:
    families = await full_of(store)
    await put(store, snapshot(Appended(*families[0][0][1:]), 0))
    await server.execute("INSERT INTO loom.forks SELECT run, run, 0 FROM loom.executions", dsn=dsn)
    await server.execute("INSERT INTO loom.model_rows SELECT 'm', 'v', run, 0, 0, '{}' FROM loom.executions", dsn=dsn)
    await server.execute("INSERT INTO loom.models_erased SELECT run FROM loom.executions", dsn=dsn)
    await server.execute("INSERT INTO loom.refs SELECT run, 'main', 1, id, 0, '', '' FROM loom.executions", dsn=dsn)
    counting = " UNION ALL ".join(f"SELECT '{table}', count(*) FROM loom.{table}" for table in OF_RUNS)
    counts = dict(await server.execute(counting, dsn=dsn))

    results = await store.delete(families)

    assert min(counts.values()) > 0
    assert all(isinstance(each, Deleted) for each in results)
    assert dict(await server.execute(counting, dsn=dsn)) == dict.fromkeys(OF_RUNS, 0)
