"""A run that waits an hour outlives the processes that drive it (field fault 19), with real processes and signals."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from loom.core.errors import LoomError
from tests.loom_cli.desk import Running, effects, state, types

HOUR_MS = 3_600_000
APP = """
import os
from pathlib import Path

import loom
from loom.spi.clock import SystemClock


class Ahead(SystemClock):
    def now_ms(self):
        return super().now_ms() + int(os.environ.get("AHEAD_MS", "0"))


@loom.step
def note(word: str) -> None:
    with Path("effects.txt").open("a") as file:
        file.write(f"{word}\\n")


@loom.flow
async def rests(ctx: loom.Context) -> str:
    await ctx.run(note, "before")
    await ctx.sleep(3600)
    await ctx.run(note, "after")
    return "rested"


app = loom.define_config(flows=[rests], storage=loom.sqlite_storage(), clock=Ahead())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    return tmp_path


def stopped_while_it_waits(folder: Path, process: Running, number: signal.Signals) -> int:
    """Send *number* once the run waits for its timer, and return how the process ended."""
    process.wait_until(lambda: "TIMER_SET" in types_there(folder))
    process.send(number)
    return process.ended().status


def types_there(folder: Path) -> list[str]:
    try:
        return types(folder, "x1")
    except LoomError:  # the store, or the run, is not there yet
        return []


@pytest.mark.proves("SUS-07", "RNG-11")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_is_stopped_started_again_and_goes_on_when_its_hour_is_over(folder: Path, number: signal.Signals) -> None:
    waits = Running(folder, "run", "rests", "--id", "x1", "--wait", "inf")
    assert stopped_while_it_waits(folder, waits, number) == 130

    again = Running(folder, "resume", "x1", "--wait", "0").ended()
    an_hour_later = Running(folder, "resume", "x1", AHEAD_MS=str(HOUR_MS)).ended()

    assert again.status == 3
    assert (an_hour_later.status, an_hour_later.out) == (0, "rested\n")
    log = types(folder, "x1")
    assert log[:4] == ["EXECUTION_STARTED", "STEP_STARTED", "STEP_COMPLETED", "TIMER_SET"]
    assert [log.count(type_) for type_ in ("TIMER_SET", "TIMER_FIRED", "STEP_COMPLETED")] == [1, 1, 2]
    assert {"EXECUTION_FAILED", "EXECUTION_CANCELLED", "EXECUTION_CANCEL_REQUESTED"}.isdisjoint(log)
    assert effects(folder) == ["before", "after"]


@pytest.mark.proves("SUS-07")
def test_a_worker_that_is_stopped_leaves_it_to_the_next_one(folder: Path) -> None:
    assert Running(folder, "run", "rests", "--id", "x1", "--detach").ended().status == 0
    worker = Running(folder, "worker", "--poll", "0.05")
    stopped = stopped_while_it_waits(folder, worker, signal.SIGTERM)

    Running(folder, "worker", "--until-idle").ended()
    rests = state(folder, "x1").status
    an_hour_later = Running(folder, "resume", "x1", AHEAD_MS=str(HOUR_MS)).ended()

    assert stopped == 0
    assert rests == "suspended"
    assert an_hour_later.out == "rested\n"
    assert effects(folder) == ["before", "after"]
