"""Two workers on one database; workers and the server are killed where it hurts, and every run is whole in the end."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from loom.plugins.postgres import PostgresStorage
from loom.plugins.sqlite.location import nearest_project
from loom.spi.errors import StoreUnavailable
from tests.loom_cli.terminal import environment, process
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


def foreground(folder: Path, held: Path, dsn: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "loom_cli", "run", "holds", "--input", f'"{held}"', "--id", "h-1", "--store", dsn]
    return subprocess.Popen(command, cwd=folder, env=environment({}), stderr=subprocess.PIPE, text=True)


async def test_a_run_in_the_foreground_that_is_cut_off_by_the_server_says_how_it_goes_on(
    mortal: Server, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    dsn, held = await mortal.database(), tmp_path / "held"
    run = foreground(tmp_path, held, dsn)
    await _until(held.exists)
    await asyncio.to_thread(mortal.stop)
    held.unlink()
    _, said = await asyncio.to_thread(run.communicate, timeout=PATIENCE_S)
    await asyncio.to_thread(mortal.start)

    assert run.returncode == 1, said
    assert "cannot be reached" in said
    assert "Nothing committed is lost: loom resume h-1 --store " in said
    assert "secret" not in said
    ended = await asyncio.to_thread(process, "resume", "h-1", "--store", dsn, folder=tmp_path)
    assert ended.status == 0, ended


APP = """
import asyncio
import pathlib

import loom


@loom.step
async def hold(path: str) -> int:
    held = pathlib.Path(path)
    if not held.with_suffix(".done").exists():
        held.touch()
        held.with_suffix(".done").touch()
    while held.exists():
        await asyncio.sleep(0.01)
    return 1


@loom.flow
async def holds(ctx: loom.Context, path: str) -> int:
    return await ctx.run(hold, path)


app = loom.define_config(flows=[holds], storage=loom.postgres_storage())
"""


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.005)


def _lines(ledger: Path) -> list[str]:
    return ledger.read_text("utf-8").splitlines()


async def _grown(ledger: Path, lines: int) -> None:
    """Return once so many payments are in the ledger."""
    await _until(lambda: len(_lines(ledger)) >= lines)


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
