"""A run is ended by one process while another one cancels it: one of both is told that it came too late (field fault 18)."""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

import loom
from loom.core.errors import ExecutionTerminated
from loom.plugins.sqlite import SqliteStorage
from tests.crash import closer
from tests.crash.nursery import ROOT

TERMINAL = {"EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELLED"}


def closing(store: Path) -> subprocess.Popen[str]:
    """Return a process that runs the flow and is about to write its end."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", closer.__name__, str(store)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 30
    while not Path(f"{store}.closing").exists():
        assert process.poll() is None
        assert time.monotonic() < until
        select.select([], [], [], 0.02)
    return process


async def cancelled(store: Path) -> tuple[str, list[str]]:
    """Cancel the run from this process; return what that said, and the types of the run's events then."""
    async with loom.define_config(flows=[closer.one_step], storage=SqliteStorage(store)) as app:
        try:
            said = str((await app.runtime.cancel(closer.RUN, reason="not wanted", drive=False)).status)
        except ExecutionTerminated as ended:
            said = ended.code
        return said, [event.type for event in await app.runtime.events(closer.RUN)]


def log(store: Path) -> list[str]:
    return asyncio.run(cancelled(store))[1]


@pytest.mark.proves("RNG-11")
def test_a_cancellation_that_is_durable_before_the_closing_write_wins(tmp_path: Path) -> None:
    process = closing(store := tmp_path / "loom.db")

    said, before = asyncio.run(cancelled(store))
    Path(f"{store}.go").touch()
    out, _ = process.communicate(timeout=30)

    assert said == "accepted"
    assert TERMINAL.isdisjoint(before)
    assert out == "cancelled None\n"
    assert log(store)[-2:] == ["EXECUTION_CANCEL_REQUESTED", "EXECUTION_CANCELLED"]
    assert sum(type_ in TERMINAL for type_ in log(store)) == 1


@pytest.mark.proves("RNG-11")
def test_one_that_comes_after_it_is_refused_and_the_run_stays_completed(tmp_path: Path) -> None:
    process = closing(store := tmp_path / "loom.db")
    Path(f"{store}.go").touch()
    out, _ = process.communicate(timeout=30)

    said, after = asyncio.run(cancelled(store))

    assert out == "completed done\n"
    assert said == "execution-ended"
    assert after[-1] == "EXECUTION_COMPLETED"
    assert log(store) == after
