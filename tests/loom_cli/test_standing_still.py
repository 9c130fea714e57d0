"""A command that only looks ends where a flow takes for ever, and says where; a flow that is only slow goes on."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from loom_cli import standing_still
from loom_cli.standing_still import StandsStill, watched
from tests.loom_cli.terminal import loom

APP = """
import time

import loom


@loom.flow
async def sleeps(ctx: loom.Context) -> int:
    time.sleep(3600)
    return 1


@loom.flow
async def spins(ctx: loom.Context) -> int:
    while True:
        pass


app = loom.define_config(flows=[sleeps, spins])
"""


def sleep() -> None:
    time.sleep(3600)


def spin() -> None:
    while True:
        pass


def spin_in_a_loop() -> None:
    async def body() -> None:
        spin()

    asyncio.run(body())


@pytest.mark.parametrize("stuck", [sleep, spin, spin_in_a_loop])
def test_what_never_awaits_is_ended_and_its_line_told(stuck: Callable[[], None]) -> None:
    with pytest.raises(StandsStill, match=r"a replay has not ended after 0\.05 s") as told, watched("a replay", 0.05):
        stuck()

    assert told.value.path == __file__
    assert told.value.line > 30


def test_each_sign_of_life_begins_the_time_anew() -> None:
    with watched("a replay", 0.2) as lives:
        for _ in range(8):
            time.sleep(0.05)
            lives()


def test_the_timer_of_others_goes_on_afterwards() -> None:
    before = signal.getsignal(signal.SIGALRM)
    left, interval = signal.getitimer(signal.ITIMER_REAL)

    with watched("a replay", 60):
        pass

    assert signal.getsignal(signal.SIGALRM) is before
    now, after = signal.getitimer(signal.ITIMER_REAL)
    assert (now > 0, after) == (left > 0, interval)


@pytest.mark.parametrize(("flow", "line"), [("sleeps", 9), ("spins", 15)])
def test_torture_of_a_flow_that_stands_still_ends_with_the_line(
    flow: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "still.py").write_text(APP)  # a name of its own: a module is imported once a process
    monkeypatch.setattr(standing_still, "watched", lambda what: watched(what, 0.5))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "still", ModuleType("still"))  # so that it is forgotten afterwards
    del sys.modules["still"]

    ended = loom("torture", flow, "--seeds", "5", "--app", "still:app", folder=tmp_path)

    assert ended.status == 1
    assert "a simulation has not ended after 0.5 s" in ended.err
    assert f"still.py:{line}" in ended.err or f"still.py:{line + 1}" in ended.err
