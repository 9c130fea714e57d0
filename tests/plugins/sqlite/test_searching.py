"""A condition finds in SQLite what it finds in memory; and what few are is looked for among these few alone."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import INDEX, first
from loom.plugins.sqlite import SqliteStorage, reading, searching
from loom.spi.event_store import ExecutionQuery, IndexRow
from loom.spi.memory import MemoryStorage
from loom.spi.where import Where
from loom.spi.where_text import parse_where
from tests.plugins.model_rows import bodies, conditions, found_as_said
from tests.plugins.wheres import runs, same_found, wheres

few = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
many = settings(max_examples=1_000, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
numbers = itertools.count()
asked = st.lists(wheres, min_size=1, max_size=20)
newest = st.integers(1, 4)
"""So many runs are looked at before all are."""


@pytest.mark.proves("BEY-03")
@few
@given(rows=runs, asked=asked, newest=newest)
def test_what_is_found_is_what_is_found_in_memory(
    tmp_path: Path, rows: Sequence[IndexRow], asked: Sequence[Where], newest: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "NEWEST", newest)
        asyncio.run(_same(tmp_path / f"{next(numbers)}.db", rows, asked))


@pytest.mark.slow
@pytest.mark.timeout(900)
@many
@given(rows=runs, asked=asked, newest=newest)
def test_what_is_found_of_much_is_what_is_found_in_memory(
    tmp_path: Path, rows: Sequence[IndexRow], asked: Sequence[Where], newest: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "NEWEST", newest)
        asyncio.run(_same(tmp_path / f"{next(numbers)}.db", rows, asked))


async def _same(path: Path, rows: Sequence[IndexRow], asked: Sequence[Where]) -> None:
    store = SqliteStorage(path)
    await same_found(store, rows, asked)
    await store.close()


async def test_it_finds_the_same_whichever_index_it_begins_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    rows = [replace(INDEX, attributes=f'{{"n":{number % 7},"m":{number % 3}}}') for number in range(60)]
    await store.append([first(ExecutionId(f"r{number}"), index=row) for number, row in enumerate(rows)])
    query = ExecutionQuery(where=parse_where("attr.n = 3 and attr.m in (1, 2) and attr.n < 9", now_ms=0))
    found = []

    for limit in (0, 1_000):
        monkeypatch.setattr(searching, "FEW", limit)
        found.append([row.execution_id for row in await store.find(query)])

    assert found[0] == found[1] == sorted((f"r{n}" for n in range(60) if n % 7 == 3 and n % 3), reverse=True)
    await store.close()


@pytest.mark.proves("BEY-03", "STO-08")
@few
@given(rows=bodies, asked=st.lists(conditions, min_size=1, max_size=20))
def test_rows_of_read_models_are_found_by_what_they_say(
    tmp_path: Path, rows: Sequence[bytes], asked: Sequence[Where]
) -> None:
    async def both() -> None:
        await found_as_said(MemoryStorage(), rows, asked)
        store = SqliteStorage(tmp_path / f"{next(numbers)}.db")
        await found_as_said(store, rows, asked)
        await store.close()

    asyncio.run(both())


@pytest.mark.slow
@pytest.mark.timeout(900)
@many
@given(rows=bodies, asked=st.lists(conditions, min_size=1, max_size=20))
def test_many_rows_of_read_models_are_found_by_what_they_say(
    tmp_path: Path, rows: Sequence[bytes], asked: Sequence[Where]
) -> None:
    async def found() -> None:
        store = SqliteStorage(tmp_path / f"{next(numbers)}.db")
        await found_as_said(store, rows, asked)
        await store.close()

    asyncio.run(found())
