from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from loom.core.ids import ExecutionId
from loom.devtools.conformance.change_feed import ChangeFeedConformance, ChangingStorage
from loom.devtools.conformance.event_trim import DONE
from loom.devtools.conformance.logs import CLAIM, REFUND, after, appended, first
from loom.plugins.sqlite import SqliteStorage
from loom.plugins.sqlite.copying import copy_database
from loom.spi.change_feed import CursorUnknown
from loom.spi.event_store import Head
from tests.plugins.beside_writers import seen_beside_writers


class TestSqliteChanges(ChangeFeedConformance):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ChangingStorage]:
        store = SqliteStorage(tmp_path / "loom.db")
        yield store
        await store.close()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    store = SqliteStorage(tmp_path / "loom.db")
    yield store
    await store.close()


@pytest.mark.proves("STO-08")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
async def test_beside_writers_that_are_killed_every_event_is_seen_once(
    tmp_path: Path, store: SqliteStorage, seed: int
) -> None:
    await store.open()

    seen, there = await seen_beside_writers(store, str(tmp_path / "loom.db"), seed)

    assert sorted(seen) == sorted(there)
    for name in {name for name, _ in seen}:
        numbers = [number for each, number in seen if each == name]
        assert numbers == sorted(numbers)


async def test_a_reader_goes_on_in_a_copy_and_behind_a_vacuum(tmp_path: Path, store: SqliteStorage) -> None:
    gone = await appended(store, first(CLAIM, b"0", index=replace(DONE, chain=CLAIM)))
    begun = await appended(store, first(REFUND, b"0"))
    cursor = await store.latest()
    await store.delete([[Head(CLAIM, *gone)]])
    with closing(sqlite3.connect(tmp_path / "loom.db")) as raw:
        raw.execute("VACUUM")
    await appended(store, after(begun, REFUND, b"1"))
    copy_database(tmp_path / "loom.db", tmp_path / "copy.db")

    copy = SqliteStorage(tmp_path / "copy.db")
    changes = [await each.changed(cursor) for each in (store, copy)]
    await copy.close()

    assert [[(each.execution_id, each.start, each.stop) for each in page] for page in changes] == [[(REFUND, 1, 2)]] * 2


async def test_places_that_come_back_are_kept_account_of_in_few_rows(tmp_path: Path, store: SqliteStorage) -> None:
    cursors = [""]
    names = [ExecutionId(f"r-{number}") for number in range(6)]
    for name in names:
        head = await appended(store, first(name, b"0", b"1", index=replace(DONE, chain=name)))
        cursors.append(await store.latest())
        await store.delete([[Head(name, *head)]])
    stays = await appended(store, first(REFUND, b"0"))

    told = [await store.changed(cursor) for cursor in cursors]

    assert [[(each.execution_id, each.start, each.stop) for each in page] for page in told] == [[(REFUND, 0, 1)]] * 7
    assert stays.length == 1
    with closing(sqlite3.connect(tmp_path / "loom.db")) as raw:
        assert raw.execute("SELECT number, last FROM cuts").fetchall() == [(6, 0)]


async def test_a_cursor_of_a_time_that_was_taken_back_is_refused(tmp_path: Path, store: SqliteStorage) -> None:
    begun = await appended(store, first(REFUND, b"0"))
    copy_database(tmp_path / "loom.db", tmp_path / "copy.db")
    await appended(store, after(begun, REFUND, b"1"))
    cursor = await store.latest()

    restored = SqliteStorage(tmp_path / "copy.db")
    with pytest.raises(CursorUnknown):
        await restored.changed(cursor)
    await restored.close()
