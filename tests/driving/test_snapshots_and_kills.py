"""A process that is killed around the writing of a snapshot leaves a run that resumes, and snapshots that say what its log does."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loom.core.state import empty_state
from loom.driving.snapshots import state_of
from loom.kernel.codec import decode_events
from loom.kernel.fold import fold
from loom.plugins.sqlite import SqliteStorage
from tests.driving.long_runs import RUN, climber, sequences
from tests.driving.snapper import EVERY, STAIRS
from tests.house import ROOT

MOMENTS = ("before", "inside", "after")
EVERYWHERE = [(moment, number) for number in range(1, 2 * STAIRS // EVERY + 1) for moment in MOMENTS]


def killed(store: Path, moment: str, number: int) -> int:
    """Return with which signal the process ended that was to die so."""
    command = [sys.executable, "-m", "tests.driving.snapper", str(store), moment, str(number)]
    return -subprocess.run(command, cwd=ROOT, check=False, timeout=60).returncode


async def left(path: Path) -> tuple[list[int], list[Any]]:
    """Return where the snapshots stand that a process has left, each of which says what the log does, and how the run ends."""
    storage = SqliteStorage(path)
    events = decode_events(RUN, await storage.read(RUN, limit_bytes=1 << 30))
    row = await storage.row(RUN)
    assert row is not None
    kept = await sequences(storage)
    for sequence in kept:
        snapshot = await storage.latest_snapshot(RUN, row.incarnation, upto=sequence)
        assert snapshot is not None
        assert state_of(snapshot) == fold(events[: sequence + 1], empty_state(RUN))
    over = climber(storage)
    outcome = await over.resume(RUN) if row.index.status == "running" else None
    while outcome is None or outcome.status == "suspended":
        outcome = await over.resume(RUN, answer="a")
    await storage.close()
    return kept, outcome.result()


@pytest.mark.proves("LIF-04", "LIF-01")
@pytest.mark.parametrize("seed", [31])
async def test_a_process_killed_around_a_snapshot_leaves_a_run_that_resumes(seed: int, tmp_path: Path) -> None:
    for moment, number in random.Random(seed).sample(EVERYWHERE, 3):
        await assert_resumes(tmp_path / f"{moment}-{number}.db", moment, number)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.proves("LIF-04", "LIF-01")
@pytest.mark.parametrize("moment", MOMENTS)
async def test_wherever_it_is_killed(moment: str, tmp_path: Path) -> None:
    for number in range(1, 2 * STAIRS // EVERY + 1):
        await assert_resumes(tmp_path / f"{moment}-{number}.db", moment, number)


async def assert_resumes(store: Path, moment: str, number: int) -> None:
    assert killed(store, moment, number) == signal.SIGKILL

    kept, result = await left(store)

    assert kept == [EVERY * n - 1 for n in range(1, number + (moment == "after"))]
    assert result == ["up", STAIRS, "a", "a", "a"]
