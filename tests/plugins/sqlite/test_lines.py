from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loom.core.ids import ExecutionId
from loom.devtools.conformance.admission_store import (
    BEGUN,
    TWO,
    AdmissionStoreConformance,
    LinedStorage,
    ended,
    started,
)
from loom.plugins.sqlite import SqliteStorage
from loom.spi.clock import VirtualClock
from loom.spi.errors import StoreUnavailable


@pytest.mark.proves("BEY-15")
class TestSqliteLines(AdmissionStoreConformance):
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    @pytest.fixture
    async def store(self, tmp_path: Path, clock: VirtualClock) -> AsyncIterator[LinedStorage]:
        store = SqliteStorage(tmp_path / "loom.db", clock=clock)
        yield store
        await store.close()


async def test_lines_are_there_after_the_process_and_can_be_read(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    for name in ("a", "b", "c"):
        await started(store, name)
    await store.close()

    again = SqliteStorage(tmp_path / "loom.db", readonly=True)
    stand = await again.admissions([ExecutionId(name) for name in ("a", "c", "nobody")])

    assert {run: admission.stage for run, admission in stand.items()} == {"a": "begun", "c": "line"}
    with pytest.raises(StoreUnavailable, match="read-only"):
        await again.admit(ExecutionId("c"), TWO)
    await again.close()


async def test_two_stores_on_one_file_keep_one_line(tmp_path: Path) -> None:
    one, other = SqliteStorage(tmp_path / "loom.db"), SqliteStorage(tmp_path / "loom.db")

    stand = [await started(store, name) for store, name in ((one, "a"), (other, "b"), (one, "c"), (other, "d"))]
    await ended(one, "a")

    assert [each == BEGUN for each in stand] == [True, True, False, False]
    assert list(await other.sweep_lines()) == ["c"]
    assert await one.admit(ExecutionId("c"), TWO) == BEGUN
    await one.close()
    await other.close()
