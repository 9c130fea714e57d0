"""What the views of a SQLite file say is what the commands say; nobody writes through them; tables may change below them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loom.plugins.sqlite import SqliteStorage, schema
from tests.plugins import views
from tests.plugins.views import TIMES, in_ms


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    await views.fill(SqliteStorage(tmp_path / "loom.db"))
    store = SqliteStorage(tmp_path / "loom.db")
    yield store
    await store.close()


def select(folder: Path, statement: str, *given: object) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(f"file:{folder / 'loom.db'}?mode=ro", uri=True)) as raw:
        raw.row_factory = sqlite3.Row
        return [dict(row) for row in raw.execute(statement, given)]


@pytest.mark.proves("BEY-03")
async def test_the_runs_are_those_of_ps(tmp_path: Path, store: SqliteStorage) -> None:
    rows = [in_ms(row, TIMES) for row in select(tmp_path, "SELECT * FROM loom_runs")]

    told = {row["id"]: row | {"attributes": json.loads(row["attributes"])} for row in rows}
    for row in told.values():
        del row["leased_until"]
    assert told == await views.runs_expected(store)
    assert [row["id"] for row in rows if row["cancelling"]] == ["r-2"]
    assert {row["status"] for row in rows} >= {"suspended", "failed", "forked", "continued"}


@pytest.mark.proves("BEY-03")
async def test_the_events_are_those_of_logs(tmp_path: Path, store: SqliteStorage) -> None:
    rows = [
        in_ms(row, {"at": "at_ms"})
        for row in select(tmp_path, "SELECT * FROM loom_events ORDER BY execution_id, sequence")
    ]

    read = [_read(row, ("payload", "metadata")) for row in rows]
    assert read == await views.events_expected(store)


@pytest.mark.proves("BEY-03")
async def test_attributes_and_gates_have_a_row_each(tmp_path: Path, store: SqliteStorage) -> None:
    attributes = select(tmp_path, "SELECT * FROM loom_attributes")
    gates = select(tmp_path, "SELECT * FROM loom_gates ORDER BY execution_id")

    assert {(row["execution_id"], row["name"], _value(row)) for row in attributes} == await views.attributes_expected(
        store
    )
    times = {"opened_at": "opened_ms", "due_at": "due_ms"}
    assert [in_ms(row, times) for row in gates] == await views.gates_expected(store)
    assert len(gates) == 2


@pytest.mark.proves("BEY-03")
async def test_the_rows_of_read_models_are_those_of_the_store(tmp_path: Path, store: SqliteStorage) -> None:
    expected = await views.put_model_rows(store)

    rows = select(tmp_path, "SELECT * FROM loom_read_models ORDER BY execution_id")

    assert [row | {"body": json.loads(row["body"])} for row in rows] == expected


async def test_who_holds_a_run_and_until_when_is_told(tmp_path: Path, store: SqliteStorage) -> None:
    claims = await store.claim("me", lease_ms=60_000, limit=9)

    held = select(
        tmp_path,
        "SELECT r.*, e.leased_until AS until FROM loom_runs AS r JOIN executions AS e ON e.run = r.life WHERE r.driver = 'me'",
    )

    assert {row["id"] for row in held} == {claim.row.execution_id for claim in claims} != set()
    assert all(in_ms(row, {"leased_until": "until"})["leased_until"] > row["updated_ms"] for row in held)


@pytest.mark.proves("BEY-03")
@pytest.mark.parametrize("view", schema.VIEWS)
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "UPDATE {} SET life = 1", "INSERT INTO {} (life) VALUES (1)"])
async def test_nobody_writes_through_a_view(tmp_path: Path, view: str, statement: str) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    await store.open()

    with closing(sqlite3.connect(tmp_path / "loom.db")) as raw, pytest.raises(sqlite3.OperationalError) as caught:
        raw.execute(statement.format(view))

    assert str(caught.value) == f"cannot modify {view} because it is a view"
    await store.close()


async def test_a_row_that_is_damaged_takes_nothing_from_the_others(tmp_path: Path, store: SqliteStorage) -> None:
    with closing(sqlite3.connect(tmp_path / "loom.db", isolation_level=None)) as raw:
        raw.execute("UPDATE executions SET gates = '[{', attributes = '{' WHERE id = 'r-1'")

    assert len(select(tmp_path, "SELECT * FROM loom_runs WHERE gates >= 0")) == len(await views.rows_of(store))
    assert [row["execution_id"] for row in select(tmp_path, "SELECT * FROM loom_gates")] == ["a-1:refund#it"]


async def test_a_run_is_looked_up_and_the_newest_are_found_in_an_index(tmp_path: Path, store: SqliteStorage) -> None:
    for statement in (
        "SELECT * FROM loom_events WHERE execution_id = 'r-1' AND sequence > 2",
        "SELECT * FROM loom_runs WHERE id = 'r-1'",
        "SELECT id, status FROM loom_runs WHERE status = 'failed' ORDER BY started_ms DESC LIMIT 5",
        "SELECT * FROM loom_attributes WHERE name = 'customer' AND execution_id = 'r-1'",
    ):
        plan = select(tmp_path, f"EXPLAIN QUERY PLAN {statement}")

        assert [row["detail"] for row in plan if "SCAN" in row["detail"] or "TEMP B-TREE" in row["detail"]] == []


async def test_the_tables_change_below_the_views_and_below_what_stands_on_them(
    tmp_path: Path, store: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = select(tmp_path, "SELECT * FROM loom_events")
    with closing(sqlite3.connect(tmp_path / "loom.db", isolation_level=None)) as raw:
        raw.execute("CREATE VIEW mine AS SELECT type, count(*) AS many FROM loom_events GROUP BY type")
    folder = tmp_path / "migrations"
    folder.mkdir()
    for _, file in schema.migrations():
        (folder / file.name).write_text(file.read_text("utf-8"), "utf-8")
    again = schema.SCHEMA_VERSION + 1
    change = "ALTER TABLE events RENAME COLUMN type TO kind;\nALTER TABLE executions DROP COLUMN appended;\n"
    anew = text_of_views().replace("v.type", "v.kind AS type")
    (folder / f"{again:04}_change.sql").write_text(change, "utf-8")
    (folder / f"{again + 1:04}_views.sql").write_text(anew, "utf-8")
    monkeypatch.setattr(schema, "_FOLDER", folder)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", again + 1)

    later = SqliteStorage(tmp_path / "loom.db")
    await later.open()
    await later.close()

    assert select(tmp_path, "SELECT * FROM loom_events") == before
    assert sum(row["many"] for row in select(tmp_path, "SELECT * FROM mine")) == len(before)


def text_of_views() -> str:
    return [file for _, file in schema.migrations() if schema.is_views(file)][-1].read_text("utf-8")


def test_the_views_are_those_that_are_promised() -> None:
    with closing(sqlite3.connect(":memory:")) as raw:
        schema.migrate(raw, url="sqlite::memory:")
        made = [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY rowid")]
        columns = {name: [row[1] for row in raw.execute(f"PRAGMA table_info({name})")] for name in made}

    assert made == list(schema.VIEWS)
    assert columns == views.COLUMNS


def _read(row: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return *row* with its JSON read, and without what is null."""
    told = {name: json.loads(value) if name in names and value is not None else value for name, value in row.items()}
    return {name: value for name, value in told.items() if value is not None}


def _value(row: dict[str, Any]) -> Any:
    if row["truth"] is not None:
        return bool(row["truth"])
    return row["text"] if row["number"] is None else row["number"]
