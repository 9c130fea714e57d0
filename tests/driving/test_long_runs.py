"""A run of 50,000 events goes on by reading what is after its snapshot, on every store; a small one always, the large one when asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from loom.driving.loading import load
from tests.driving.long_runs import RUN, CountedMemory, CountedPostgres, CountedSqlite, climber, sequences, written
from tests.plugins.postgres.server import NoPostgres, Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    try:
        server = Server()
    except NoPostgres as reason:
        pytest.skip(f"THE POSTGRES STORE IS NOT TESTED: {reason}")
    yield server
    server.remove()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    storage: Any = CountedMemory()
    if request.param == "sqlite":
        storage = CountedSqlite(tmp_path / "loom.db")
    if request.param == "postgres":
        storage = CountedPostgres(await request.getfixturevalue("server").database())
    yield storage
    await storage.close()


@pytest.mark.proves("LIF-02")
@pytest.mark.parametrize("length", [1_000, pytest.param(50_000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
async def test_a_long_run_goes_on_by_reading_its_tail(storage: Any, length: int) -> None:
    await written(storage, length)
    first = await climber(storage).resume(RUN, answer="a")
    assert storage.read_events == length
    assert await sequences(storage) == [first.length - 1]
    storage.read_events = 0
    second = await climber(storage).resume(RUN, answer="b")
    assert storage.read_events == 0
    storage.calls.clear()

    last = await climber(storage).resume(RUN, answer="c")

    assert last.result() == ["up", (length - 4) // 2, "a", "b", "c"]
    assert storage.read_events == second.length - first.length
    assert storage.calls == ["latest"]
    assert (await load(storage, RUN)).state.length == last.length
