"""Processes that fold the same runs beside each other, and are killed: no event is folded twice into a row, and none is left out."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import loom
from loom.spi.read_model_store import ReadModelStore
from tests.plugins.sqlite.processes import ROOT
from tests.services import modeller
from tests.services.labourer import job

RUNS = 24
KILLED_AT = frozenset({6, 12, 18})


def folding(url: str) -> subprocess.Popen[str]:
    """Start a process that folds."""
    command = [sys.executable, "-m", modeller.__name__, url]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def lagging(app: loom.LoomApp) -> int:
    """Return how many rows lag."""
    assert isinstance(app.storage, ReadModelStore)
    return len(await app.storage.behind("heard", app.read_models.versions["heard"]))


@pytest.mark.proves("STO-09")
@pytest.mark.timeout(120)
async def test_two_processes_that_fold_at_once_and_are_killed_come_to_the_same_rows(tmp_path: Path) -> None:
    url = str(tmp_path / "loom.db")
    said: list[str] = []
    async with modeller.app_on(url) as app:
        await app.runtime.start(job, 0, id="j-0")
        processes = [folding(url), folding(url)]
        try:
            for number in range(1, RUNS):
                await app.runtime.start(job, number, id=f"j-{number}")
                if number in KILLED_AT:
                    while await lagging(app) > number // 2:  # somebody is at it
                        await asyncio.sleep(0.01)
                    killed = processes.pop(0)
                    killed.kill()
                    said += killed.communicate()
                    processes.append(folding(url))
            while await lagging(app):
                await asyncio.sleep(0.01)
        finally:
            for process in processes:
                process.kill()
                said += process.communicate()
        rows = {row.execution_id: row.value async for row in app.read_models.rows(modeller.heard)}
        lengths = {name: len(await app.runtime.events(name)) for name in rows}

    assert "".join(said).replace("folded\n", "") == ""
    assert sorted(rows) == sorted(f"j-{number}" for number in range(RUNS))
    assert rows == {name: list(range(length)) for name, length in lengths.items()}
