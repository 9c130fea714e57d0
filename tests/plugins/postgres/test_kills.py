"""Two workers on one database; workers and the server are killed where it hurts, and every run is whole in the end."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from loom.plugins.postgres import PostgresStorage
from loom.plugins.sqlite.location import nearest_project
from loom.spi.errors import StoreUnavailable
from tests.plugins.postgres import desk
from tests.plugins.postgres.server import Server

RUNS = 6
PATIENCE_S = 60


@pytest.fixture(scope="module")
def mortal() -> Iterator[Server]:
    server = Server(options="-c shared_buffers=32MB")
    yield server
    server.remove()


def worker(dsn: str, ledger: Path) -> subprocess.Popen[str]:
    project = nearest_project(Path(__file__).parent)
    assert project is not None
    return subprocess.Popen(
        [sys.executable, "-m", desk.__name__, dsn],
        cwd=project.parent,
        env={**os.environ, desk.LEDGER: str(ledger)},
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("more", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20))])
async def test_runs_are_whole_whoever_is_killed(
    mortal: Server, tmp_path: Path, seed: int, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, ledger, dsn = random.Random(f"{seed}-{more}"), tmp_path / "ledger", await mortal.database()
    monkeypatch.setenv(desk.LEDGER, str(ledger))
    names = [f"refund-{number}" for number in range(RUNS)]
    async with desk.desk(dsn) as app:
        await asyncio.gather(*(app.runtime.start(desk.refund, id=name, linger_s=0) for name in names))
    workers = [worker(dsn, ledger) for _ in range(2)]
    try:
        await _grown(ledger, RUNS + rng.randrange(1, RUNS))
        workers[0].kill()
        await _grown(ledger, RUNS + rng.randrange(RUNS, 2 * RUNS - 1))
        await asyncio.to_thread(mortal.kill)
        await asyncio.to_thread(mortal.start)
        workers.append(worker(dsn, ledger))
        await _all_whole(dsn, names)
    finally:
        for each in workers:
            each.kill()
            each.communicate()
    paid = [line.split()[:2] for line in _lines(ledger)]
    assert {(name, str(number)) for name in names for number in range(desk.STEPS)} == {(run, n) for run, n in paid}


def _lines(ledger: Path) -> list[str]:
    return ledger.read_text("utf-8").splitlines()


async def _grown(ledger: Path, lines: int) -> None:
    """Return once so many payments are in the ledger."""
    async with asyncio.timeout(PATIENCE_S):
        while len(_lines(ledger)) < lines:
            await asyncio.sleep(0.005)


async def _all_whole(dsn: str, names: list[str]) -> None:
    async with asyncio.timeout(PATIENCE_S), desk.desk(dsn) as app:
        store = app.storage
        assert isinstance(store, PostgresStorage)
        for name in names:
            log = await _whole_log(store, name)
            completed = [record for record in log if record == "STEP_COMPLETED"]
            assert len(completed) == desk.STEPS, log
            state = await app.runtime.load_state(name)
            assert state.status == "completed"


async def _whole_log(store: PostgresStorage, name: str) -> list[str]:
    """Return the types of the events of a run up to its end, in which no sequence is missing."""
    kinds: list[str] = []
    async with aclosing(store.subscribe(name)) as feed:  # type: ignore[arg-type, type-var]
        async for record in feed:
            assert record.sequence == len(kinds)
            kinds.append(record.type)
            if record.type == "EXECUTION_COMPLETED":
                return kinds
    raise StoreUnavailable("the feed has ended", store=store.url)
