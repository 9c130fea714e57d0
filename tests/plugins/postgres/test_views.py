"""What the views of a database say is what the commands say, to who may read nothing else; and tables may change below them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from loom.plugins.postgres import PostgresStorage, migrating, schema
from loom.plugins.postgres.migrating import VIEWS, Migration, migrations
from tests.plugins import views
from tests.plugins.postgres.server import Server
from tests.plugins.views import TIMES, in_ms

GRANTS = (
    f"GRANT USAGE ON SCHEMA loom TO reporter; GRANT SELECT ON {', '.join(f'loom.{name}' for name in VIEWS)} TO reporter"
)
COLUMNS = """
    SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = 'loom' AND table_name LIKE 'loom\\_%' ORDER BY table_name, ordinal_position
"""


@pytest.fixture
async def filled(bare: str) -> AsyncIterator[PostgresStorage]:
    await views.fill(PostgresStorage(bare))
    store = PostgresStorage(bare)
    yield store
    await store.close()


@pytest.fixture
async def reporter(server: Server, bare: str, filled: PostgresStorage) -> AsyncIterator[asyncpg.Connection[Any]]:
    """Somebody who may read the views."""
    await server.execute("DROP ROLE IF EXISTS reporter")
    await server.script(f"CREATE ROLE reporter LOGIN; {GRANTS}", dsn=bare)
    raw = await asyncpg.connect(bare, user="reporter")
    yield raw
    await raw.close()
    await server.script("DROP OWNED BY reporter; DROP ROLE reporter", dsn=bare)


async def select(raw: asyncpg.Connection[Any], statement: str) -> list[dict[str, Any]]:
    return [dict(row) for row in await raw.fetch(statement)]


@pytest.mark.proves("BEY-03")
async def test_who_may_read_the_views_sees_the_runs_of_ps(
    reporter: asyncpg.Connection[Any], filled: PostgresStorage
) -> None:
    rows = [in_ms(row, TIMES) for row in await select(reporter, "SELECT * FROM loom.loom_runs")]

    told = {row["id"]: row | {"attributes": json.loads(row["attributes"])} for row in rows}
    for row in told.values():
        del row["leased_until"]
    assert told == await views.runs_expected(filled)
    assert [row["id"] for row in rows if row["cancelling"]] == ["r-2"]


@pytest.mark.proves("BEY-03")
async def test_who_may_read_the_views_sees_the_events_of_logs(
    reporter: asyncpg.Connection[Any], filled: PostgresStorage
) -> None:
    rows = await select(reporter, 'SELECT * FROM loom.loom_events ORDER BY execution_id COLLATE "C", sequence')

    read = []
    for row in rows:
        told = in_ms(row, {"at": "at_ms"})
        told |= {name: json.loads(told[name]) for name in ("payload", "metadata") if told[name] is not None}
        read.append({name: value for name, value in told.items() if value is not None})
    assert read == await views.events_expected(filled)


@pytest.mark.proves("BEY-03")
async def test_attributes_and_gates_have_a_row_each(reporter: asyncpg.Connection[Any], filled: PostgresStorage) -> None:
    attributes = await select(reporter, "SELECT * FROM loom.loom_attributes")
    gates = await select(reporter, 'SELECT * FROM loom.loom_gates ORDER BY execution_id COLLATE "C"')

    told = {
        (row["execution_id"], row["name"], next(row[of] for of in ("text", "number", "truth") if row[of] is not None))
        for row in attributes
    }
    assert told == await views.attributes_expected(filled)
    times = {"opened_at": "opened_ms", "due_at": "due_ms"}
    assert [in_ms(row, times) for row in gates] == await views.gates_expected(filled)
    assert len(gates) == 2


@pytest.mark.proves("BEY-03")
async def test_who_may_read_the_views_reads_no_table_and_nobody_writes(
    server: Server, bare: str, reporter: asyncpg.Connection[Any]
) -> None:
    tables = await server.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'loom'", dsn=bare)

    for (table,) in tables:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await reporter.fetch(f"SELECT * FROM loom.{table}")
    for view, columns in views.COLUMNS.items():
        column = columns[1]
        for statement in (
            "DELETE FROM {}",
            f"UPDATE {{}} SET {column} = NULL",
            f"INSERT INTO {{}} ({column}) VALUES (NULL)",
        ):
            for dsn, user in ((bare, "reporter"), (bare, None)):  # not even who owns it
                raw = await asyncpg.connect(dsn, user=user)
                with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match=f'view "{view}"'):
                    await raw.execute(statement.format(f"loom.{view}"))
                await raw.close()


@pytest.mark.proves("BEY-03")
async def test_the_rows_of_read_models_are_those_of_the_store(
    reporter: asyncpg.Connection[Any], filled: PostgresStorage
) -> None:
    expected = await views.put_model_rows(filled)

    rows = await select(reporter, "SELECT * FROM loom.loom_read_models ORDER BY execution_id")

    assert [row | {"body": json.loads(row["body"])} for row in rows] == expected


async def test_a_row_that_is_damaged_takes_nothing_from_the_others(
    server: Server, bare: str, reporter: asyncpg.Connection[Any], filled: PostgresStorage
) -> None:
    await server.execute("UPDATE loom.executions SET gates = '[{', attributes = '{' WHERE id = 'r-1'", dsn=bare)
    await server.execute("UPDATE loom.events SET payload = '\\xff00' WHERE sequence = 1", dsn=bare)

    assert len(await reporter.fetch("SELECT * FROM loom.loom_runs")) == len(await views.rows_of(filled))
    assert len(await reporter.fetch("SELECT * FROM loom.loom_events WHERE payload IS NULL")) > 1
    assert [row[0] for row in await reporter.fetch("SELECT * FROM loom.loom_gates")] == ["a-1:refund#it"]


async def test_a_run_is_looked_up_in_an_index(server: Server, bare: str, filled: PostgresStorage) -> None:
    raw = await asyncpg.connect(bare)
    await raw.execute("SET enable_seqscan = off")
    for statement in (
        "SELECT * FROM loom.loom_events WHERE execution_id = 'r-1' AND sequence > 2",
        "SELECT id, status FROM loom.loom_runs WHERE status = 'failed' AND started_ms > 5 ORDER BY started_ms DESC LIMIT 5",
    ):
        plan = "\n".join(row[0] for row in await raw.fetch(f"EXPLAIN {statement}"))

        assert "Index Cond: (id = 'r-1'" in plan or "executions_by_status" in plan, plan
    await raw.close()


async def test_the_tables_change_below_the_views_and_who_may_read_them_still_may(
    bare: str,
    reporter: asyncpg.Connection[Any],
    filled: PostgresStorage,
    monkeypatch: pytest.MonkeyPatch,
    server: Server,
) -> None:
    before = await select(reporter, "SELECT * FROM loom.loom_events ORDER BY execution_id, sequence")
    mine = "CREATE VIEW public.mine AS SELECT type, count(*) AS many FROM loom.loom_events GROUP BY type"
    await server.execute(mine, dsn=bare)
    *_, text = (each.script for each in migrations() if each.of_views)
    change = (
        "ALTER TABLE loom.events ALTER COLUMN type TYPE varchar; ALTER TABLE loom.events RENAME COLUMN type TO kind"
    )
    anew = text.replace("v.type", "v.kind::text AS type")
    number = migrations()[-1].number + 1
    later = [*migrations(), Migration(number, change, ""), Migration(number + 1, anew, "", of_views=True)]
    for module in (schema, migrating):
        monkeypatch.setattr(module, "migrations", lambda: later)

    store = PostgresStorage(bare)
    await store.open()
    await store.close()

    assert await select(reporter, "SELECT * FROM loom.loom_events ORDER BY execution_id, sequence") == before
    assert sum(row[0] for row in await server.execute("SELECT many FROM public.mine", dsn=bare)) == len(before)


async def test_what_changes_no_view_leaves_them_as_they_are(
    bare: str, reporter: asyncpg.Connection[Any], filled: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await select(reporter, "SELECT * FROM loom.loom_runs ORDER BY id")
    extra = Migration(migrations()[-1].number + 1, "CREATE TABLE loom.extra (x int)", "")
    later = [*migrations(), extra]
    monkeypatch.setattr(schema, "migrations", lambda: later)

    store = PostgresStorage(bare)
    await store.open()
    await store.close()

    assert await select(reporter, "SELECT * FROM loom.loom_runs ORDER BY id") == before


async def test_the_views_are_those_that_are_promised(server: Server, dsn: str) -> None:
    found: dict[str, list[str]] = {}
    for view, column in await server.execute(COLUMNS, dsn=dsn):
        found.setdefault(view, []).append(column)

    assert found == views.COLUMNS
    assert set(found) == set(VIEWS)
