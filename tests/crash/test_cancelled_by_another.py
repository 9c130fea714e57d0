"""A run is ended by one process while another one cancels it: one of both is told that it came too late (field fault 18)."""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
import time

import pytest

import loom
from loom.core.errors import ExecutionTerminated
from tests.crash import closer
from tests.crash.nursery import ROOT
from tests.crash.places import Ground, Place

TERMINAL = {"EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELLED"}


@pytest.fixture
def place(ground: Ground) -> Place:
    return ground.place("closing")


def closing(place: Place) -> subprocess.Popen[str]:
    """Return a process that runs the flow and is about to write its end."""
    command = [sys.executable, "-W", "error", "-m", closer.__name__, *map(str, place[:2])]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 30
    while not (place.folder / "closing").exists():
        assert process.poll() is None
        assert time.monotonic() < until
        select.select([], [], [], 0.02)
    return process


async def cancelled(place: Place) -> tuple[str, list[str]]:
    """Cancel the run from this process; return what that said, and the types of the run's events then."""
    async with loom.define_config(flows=[closer.one_step], storage=place.storage()) as app:
        try:
            said = str((await app.runtime.cancel(closer.RUN, reason="not wanted", drive=False)).status)
        except ExecutionTerminated as ended:
            said = ended.code
        return said, [event.type for event in await app.runtime.events(closer.RUN)]


def log(place: Place) -> list[str]:
    return asyncio.run(cancelled(place))[1]


@pytest.mark.proves("RNG-11")
def test_a_cancellation_that_is_durable_before_the_closing_write_wins(place: Place) -> None:
    process = closing(place)

    said, before = asyncio.run(cancelled(place))
    (place.folder / "go").touch()
    out, _ = process.communicate(timeout=30)

    assert said == "accepted"
    assert TERMINAL.isdisjoint(before)
    assert out == "cancelled None\n"
    assert log(place)[-2:] == ["EXECUTION_CANCEL_REQUESTED", "EXECUTION_CANCELLED"]
    assert sum(type_ in TERMINAL for type_ in log(place)) == 1


@pytest.mark.proves("RNG-11")
def test_one_that_comes_after_it_is_refused_and_the_run_stays_completed(place: Place) -> None:
    process = closing(place)
    (place.folder / "go").touch()
    out, _ = process.communicate(timeout=30)

    said, after = asyncio.run(cancelled(place))

    assert out == "completed done\n"
    assert said == "execution-ended"
    assert after[-1] == "EXECUTION_COMPLETED"
    assert log(place) == after
