"""Pollers in processes of their own, one of which is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from loom.plugins.sqlite import SqliteStorage
from tests.plugins.sqlite.processes import ROOT, finish
from tests.services import polling
from tests.services.polling import DAY_0, MINUTE, executions, record

MINUTES = 40


def poller(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", polling.__name__, str(path), str(MINUTES)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.proves("AUT-09", "RNG-21")
async def test_each_tick_starts_once_though_pollers_race_and_one_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    victim, other = poller(path), poller(path)
    assert victim.stdout is not None
    said = victim.stdout.readline().strip()  # it has started something, unless the other was faster all along
    victim.kill()
    victim.communicate()
    begun = [*finish(poller(path)), *finish(other)]

    store = SqliteStorage(path, readonly=True)
    ids, entries = await executions(store), await record(store, "minutely")
    await store.close()
    assert [entry.tick_at for entry in entries] == [DAY_0 + n * MINUTE for n in range(1, MINUTES + 1)]
    assert [entry.execution_id for entry in entries] == ids
    assert len(begun) == len(set(begun))
    assert said not in begun
