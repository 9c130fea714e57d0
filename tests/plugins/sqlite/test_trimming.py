from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loom.devtools.conformance.event_trim import EventTrimConformance
from loom.devtools.conformance.snapshot_store import put, snapshot
from loom.devtools.conformance.trimmed_relatives import (
    TrimmedForksConformance,
    TrimmedLines,
    TrimmedLinesConformance,
    full_of,
)
from loom.plugins.sqlite import SqliteStorage
from loom.plugins.sqlite.trimming import BY_ID, BY_LIFE
from loom.spi.clock import VirtualClock
from loom.spi.event_store import Appended
from loom.spi.event_trim import Deleted


@pytest.mark.proves("KER-15", "STO-04")
class TestSqliteTrim(EventTrimConformance, TrimmedLinesConformance, TrimmedForksConformance):
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    async def store(self, tmp_path: Path, clock: VirtualClock) -> AsyncIterator[TrimmedLines]:
        store = SqliteStorage(tmp_path / "loom.db", clock=clock)
        yield store
        await store.close()


OF_RUNS = [*BY_LIFE, *BY_ID, "executions"]

STAYS = {"schedule_entries", "archived_lives", "content_citations"}
"""What tells of a run and is kept by something else: the record of a schedule, an archive, what a sweep goes by."""


async def test_all_that_belongs_to_a_run_goes_with_it(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    await store.open()
    await store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "loom.db")) as raw:
        tables = [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {
            table: {name for (name,) in raw.execute("SELECT name FROM pragma_table_info(?)", (table,))}
            for table in tables
        }

    of_a_run = {table for table, names in columns.items() if names & {"run", "execution", "execution_id"}}

    assert of_a_run == {*BY_LIFE, *BY_ID, *STAYS, "executions"}, "add what is new to the lists in trimming.py"


async def test_no_row_of_a_deleted_run_is_left(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    families = await full_of(store)
    await put(store, snapshot(Appended(*families[0][0][1:]), 0))
    with contextlib.closing(sqlite3.connect(tmp_path / "loom.db")) as raw:
        with raw:
            raw.execute("INSERT INTO forks (run, source, through) SELECT run, run, 0 FROM executions")
            raw.execute("INSERT INTO model_rows SELECT NULL, 'm', 'v', run, 0, 0, '{}', NULL FROM executions")
            raw.execute("INSERT INTO models_erased SELECT run FROM executions")
            raw.execute("INSERT INTO refs SELECT run, 'main', 1, id, 0, '', '' FROM executions")
        counts = {table: raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in OF_RUNS}

        results = await store.delete(families)

        left = {table: raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in OF_RUNS}
    assert min(counts.values()) > 0
    assert all(isinstance(each, Deleted) for each in results)
    assert set(left.values()) == {0}
    await store.close()
