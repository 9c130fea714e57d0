"""A store of an earlier schema with data in it: killed while it is upgraded, and started on by many (field fault 34)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from loom.core.ids import ExecutionId
from loom.plugins.sqlite import SqliteStorage, schema
from tests.plugins.sqlite.test_schema import OLD_EVENT, OLD_REQUEST, OLD_ROW
from tests.plugins.upgrading import TOGETHER, killed, together

PRESENT = schema.SCHEMA_VERSION
RUNS = 3_000
DATA = "SELECT run, id, length, flow, status, started_at, updated_at, wake_at, gates FROM executions ORDER BY run"


def old(path: Path, version: int) -> None:
    """Make a database of an earlier *version*, with runs in it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("BEGIN")
        for _, file in schema.migrations()[:version]:
            for statement in schema.statements(file.read_text("utf-8")):
                raw.execute(statement)
        raw.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        raw.execute(f"PRAGMA user_version = {version}")
        for run in range(1, RUNS + 1):
            raw.execute(OLD_ROW, (run, f"r-{run:05}", "suspended", run, 5))
            raw.execute(OLD_EVENT, (run, b"%d" % run))
            raw.execute(OLD_REQUEST, (run,))
        raw.execute("COMMIT")


def objects(path: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(path)) as raw:
        return sorted(raw.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master"))


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as raw:
        return int(raw.execute("PRAGMA user_version").fetchone()[0])


def data_in(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as raw:
        [(events, requests)] = raw.execute("SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM requests)")
        return [(events, requests), *raw.execute(DATA)]


def steps_from(version: int) -> int:
    return sum(len(list(schema.statements(file.read_text("utf-8")))) for _, file in schema.migrations()[version:])


@pytest.fixture
def present(tmp_path: Path) -> list[tuple[str, ...]]:
    """The objects of a database of the present version."""
    old(tmp_path / "present.db", PRESENT)
    return objects(tmp_path / "present.db")


@pytest.mark.proves("STO-02")
@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 50))])
async def test_an_upgrade_that_is_killed_has_happened_or_has_not(
    tmp_path: Path, present: list[tuple[str, ...]], seed: int
) -> None:
    chance, path = Random(seed), tmp_path / "loom.db"
    version = chance.randrange(1, PRESENT)
    old(path, version)
    before, data = objects(path), data_in(path)

    killed(str(path), chance, steps=steps_from(version) + 1)

    found = version_of(path)
    assert (found, objects(path)) in [(version, before), (PRESENT, present)], f"seed {seed}"
    assert data_in(path) == data
    store = SqliteStorage(path)
    assert len(await store.ids(limit=10_000)) == RUNS
    assert (version_of(path), objects(path)) == (PRESENT, present)
    assert data_in(path) == data
    [record] = await store.read(ExecutionId("r-00007"))
    assert record.payload == b"7"
    await store.close()


@pytest.mark.proves("STO-02")
def test_of_many_that_start_on_an_old_store_one_upgrades_it_and_the_others_wait(
    tmp_path: Path, present: list[tuple[str, ...]]
) -> None:
    path = tmp_path / "loom.db"
    old(path, 1)
    data = data_in(path)

    ran = together(str(path))

    *others, one = sorted(ran)
    assert others == [0] * (TOGETHER - 1)
    assert one >= steps_from(1)  # the views are made anew around what changes a table
    assert (version_of(path), objects(path), data_in(path)) == (PRESENT, present, data)
