from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from loom.core.ids import ExecutionId, Incarnation
from loom.devtools.conformance.logs import REFUND, after, appended, first, ok, payloads
from loom.plugins.sqlite import SqliteStorage, schema
from loom.spi.clock import VirtualClock
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Append, Appended, EventRecord, ExecutionQuery, ExecutionRow, IndexRow

PRESENT = schema.SCHEMA_VERSION
LEASES = 3
"""The version since which the store knows who holds a run."""
STEPS = 10_000
STEP_BYTES_MAX = 280
OLD_ROW = """
    INSERT INTO executions (run, id, length, flow, status, started_at, updated_at, wake_at, gates, attributes, appended)
    VALUES (?, ?, 1, 'refund', ?, ?, 7, ?, '[]', '{}', '[]')
"""
OLD_EVENT = "INSERT INTO events (run, sequence, type, at, payload) VALUES (?, 0, 'A', 5, ?)"
OLD_REQUEST = "INSERT INTO requests (run, number, kind, key, at, body) VALUES (?, 1, 'answer', 'gate:1', 5, x'7b7d')"
"""As the first version wrote them; later ones add columns and tables only."""


def test_the_migrations_lead_to_the_present_version() -> None:
    numbers = [number for number, _ in schema.migrations()]

    assert numbers == list(range(1, schema.SCHEMA_VERSION + 1))


def test_a_script_is_split_where_its_statements_end() -> None:
    script = "-- a; comment\nCREATE TABLE a (\n  x TEXT DEFAULT ';'\n);\n\nCREATE TABLE b (y);\n"

    assert len(list(schema.statements(script))) == 2


@pytest.mark.proves("STO-02")
async def test_the_file_opens_in_any_sqlite_tool(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    await appended(store, first(REFUND, b'{"a":1}'))
    await store.close()

    assert _rows(tmp_path / "loom.db", "SELECT type, CAST(payload AS TEXT) FROM events") == [
        ("STEP_COMPLETED", '{"a":1}')
    ]
    assert _rows(tmp_path / "loom.db", "PRAGMA journal_mode") == [("wal",)]


async def test_an_upgrade_that_fails_never_happened(tmp_path: Path, upgrade: Path) -> None:
    path = tmp_path / "loom.db"
    _write(upgrade, "CREATE TABLE extra (x);\nCREATE TABLE extra (x);\n")

    with pytest.raises(StoreUnavailable, match="extra"):
        await SqliteStorage(path).open()
    assert _rows(path, "PRAGMA user_version") == [(PRESENT,)]
    assert _rows(path, "SELECT name FROM sqlite_master WHERE name = 'extra'") == []

    _write(upgrade, "CREATE TABLE extra (x);\n")
    store = SqliteStorage(path)
    assert await payloads(store, REFUND) == [b"1"]
    await store.close()
    assert _rows(path, "PRAGMA user_version") == [(PRESENT + 1,)]


async def test_a_reader_does_not_upgrade(tmp_path: Path, upgrade: Path) -> None:
    _write(upgrade, "CREATE TABLE extra (x);\n")
    store = SqliteStorage(tmp_path / "loom.db", readonly=True)

    with pytest.raises(StoreUnavailable, match=f"reading needs {PRESENT + 1}"):
        await store.head(REFUND)

    assert _rows(tmp_path / "loom.db", "PRAGMA user_version") == [(PRESENT,)]
    await store.close()


@pytest.fixture
def make_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Awaitable[Path]]:
    async def make(version: int) -> Path:
        path, earlier = tmp_path / "loom.db", schema.migrations()[:version]
        with monkeypatch.context() as past:
            past.setattr(schema, "SCHEMA_VERSION", version)
            past.setattr(schema, "migrations", lambda: earlier)
            store = SqliteStorage(path)
            await store.open()
            await store.close()
        return path

    return make


@pytest.mark.parametrize("version", range(1, PRESENT))
async def test_a_store_of_an_earlier_version_has_all_that_the_present_one_has(
    make_old: Callable[[int], Awaitable[Path]], version: int
) -> None:
    path = await make_old(version)

    store = SqliteStorage(path)

    assert await store.schedule_cursor("daily") is None
    assert list(await store.claim("mine", lease_ms=1, limit=9)) == []
    assert list(await store.sweep_lines()) == []
    assert list(await store.executions_with_snapshots()) == []
    assert _rows(path, "PRAGMA user_version") == [(PRESENT,)]
    await store.close()


@pytest.mark.parametrize("version", range(1, LEASES))
async def test_a_store_of_an_earlier_version_is_brought_to_the_present_one(
    make_old: Callable[[int], Awaitable[Path]], version: int
) -> None:
    path = await make_old(version)
    for run, status in enumerate(("running", "suspended", "completed"), start=1):
        _execute(path, OLD_ROW, run, status, status, 1_000 + run, 5 if status == "suspended" else None)
        _execute(path, OLD_EVENT, run, status.encode())
        _execute(path, OLD_REQUEST, run)

    store = SqliteStorage(path, clock=VirtualClock(10_000))
    rows = {row.execution_id: row for row in await store.find(ExecutionQuery(tips=True))}

    assert _rows(path, "PRAGMA user_version") == [(PRESENT,)]
    for run, status in enumerate(("running", "suspended", "completed"), start=1):
        name = ExecutionId(status)
        index = IndexRow(
            flow="refund",
            status=status,
            started_at=1_000 + run,
            updated_at=7,
            wake_at=5 if status == "suspended" else None,
            gates="[]",
            attributes="{}",
            chain=name,
            ended=status == "completed",
        )
        driver = "unknown" if status == "running" else ""
        ended_at = 7 if status == "completed" else None
        assert rows[name] == ExecutionRow(name, Incarnation(run), 1, index, driver, 0, ended_at=ended_at)
        assert await payloads(store, name) == [status.encode()]
        assert [request.key for request in await store.pending(name, Incarnation(run))] == ["gate:1"]
    claims = await store.claim("mine", lease_ms=1, limit=9)
    assert [(claim.row.execution_id, claim.found) for claim in claims] == [("running", "lapsed"), ("suspended", "due")]
    await store.close()


@pytest.mark.parametrize("runs", [1, 50])
async def test_a_step_costs_little_on_disk(tmp_path: Path, runs: int) -> None:
    path = tmp_path / "loom.db"
    store = SqliteStorage(path)
    await _record_steps(store, runs)
    await store.close()

    assert path.stat().st_size / STEPS <= STEP_BYTES_MAX


@pytest.mark.parametrize("order", ["running", "started_at DESC"])
async def test_a_listing_uses_an_index(tmp_path: Path, order: str) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    await store.open()
    await store.close()
    where = "WHERE status = 'running'" if order == "running" else ""

    plan = _rows(
        tmp_path / "loom.db",
        f"EXPLAIN QUERY PLAN SELECT * FROM executions {where} ORDER BY started_at DESC, id DESC LIMIT 10",
    )

    assert "USING INDEX" in plan[0][3]
    assert len(plan) == 1  # no sorting


@pytest.fixture
async def upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a store of the present version, then give the file of a further migration to be written."""
    await _made(tmp_path / "loom.db")
    folder = tmp_path / "migrations"
    folder.mkdir()
    for _, file in schema.migrations():
        (folder / file.name).write_text(file.read_text())
    monkeypatch.setattr(schema, "_FOLDER", folder)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", PRESENT + 1)
    return folder / f"{PRESENT + 1:04}_extra.sql"


async def _made(path: Path) -> None:
    """Make a store with one log in it."""
    store = SqliteStorage(path)
    await appended(store, first(REFUND, b"1"))
    await store.close()


async def _record_steps(store: SqliteStorage, runs: int) -> None:
    """Record all steps, in batches that interleave the runs."""
    ids = [ExecutionId(f"run-{number:04}") for number in range(runs)]
    heads = [ok(result) for result in await store.append([first(name, b"{}") for name in ids])]
    steps_each = max(1, 50 // runs)
    for _ in range(STEPS // runs // steps_each):
        batch = [_steps(head, name, steps_each) for head, name in zip(heads, ids, strict=True)]
        heads = [ok(result) for result in await store.append(batch)]


def _steps(head: Appended, execution_id: ExecutionId, count: int) -> Append:
    records = []
    for sequence in range(head.length, head.length + 2 * count, 2):
        at = 1_790_000_000_000 + sequence
        records.append(EventRecord(sequence, "STEP_STARTED", at, b"s" * 80, b""))
        records.append(EventRecord(sequence + 1, "STEP_COMPLETED", at, b"c" * 40, b""))
    return after(head, execution_id, events=records)


def _rows(path: Path, statement: str) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(path)
    try:
        return database.execute(statement).fetchall()
    finally:
        database.close()


def _execute(path: Path, statement: str, *parameters: object) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute(statement, parameters)
    finally:
        database.close()


def _write(file: Path, script: str) -> None:
    file.write_text(script)
