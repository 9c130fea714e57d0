"""An incident ends the same, and nobody is called twice, wherever the process dies.

The process of a virtual world dies right after a write, and another takes over. Here it dies after each write of one incident,
which is escalated, helped with, and then cancelled as a false alarm, or solved.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import loom
from app import on_call
from conftest import INCIDENT, START
from loom.devtools.testing import VirtualWorld, virtual_world
from models import Page, Status, Taken
from outside import Move, Outside

UNDONE = ["drain", "add", "release", "restore"]


class Ended(NamedTuple):
    status: str
    result: Any
    calls: list[Page]
    moves: list[Move]
    alarms: dict[str, str | None]


async def solved(world: VirtualWorld) -> None:
    with suppress(loom.LoomError):
        await world.runtime.send(INCIDENT, "status", Status("mira", "done", solved=True), key="solved")


async def cancelled(world: VirtualWorld) -> None:
    with suppress(loom.LoomError):
        await world.runtime.cancel(INCIDENT, reason="false alarm")


async def taken(world: VirtualWorld) -> None:
    with suppress(loom.LoomError):  # after a crash it may be taken already
        await world.runtime.resume(INCIDENT, answer=Taken("mira"))


async def lived(folder: Path, ending: Callable[..., Any], *, dies_after: int | None = None) -> tuple[Ended, int]:
    """Return how the incident ended, and how often the process wrote until then."""
    outside = Outside(folder / f"outside-{dies_after}.db")
    outside.monitor.raise_alarm("checkout", "web-3", "errors over 5 %")
    async with virtual_world(on_call(outside), start=START, dies_after=dies_after) as world:
        world.at(timedelta(minutes=25), partial(taken, world))
        world.at(timedelta(minutes=40), partial(ending, world))
        await world.run_for(timedelta(minutes=50))
        state, pager = await world.runtime.load_state(INCIDENT), outside.pager
        moves, alarms = outside.balancer.moves(INCIDENT), outside.monitor.ends()
        return Ended(state.status, state.facts.result, pager.calls(), moves, alarms), world.writes


@pytest.mark.proves("CMP-14")
@pytest.mark.parametrize(("ending", "moves"), [(solved, UNDONE[:2]), (cancelled, UNDONE)])
async def test_an_incident_ends_the_same_wherever_the_process_dies(
    ending: Callable[..., Any], moves: list[str], tmp_path: Path
) -> None:
    whole, writes = await lived(tmp_path, ending)
    assert [move.what for move in whole.moves] == moves
    assert [call.person for call in whole.calls] == ["ines", "jonas", "mira"]

    for number in range(1, writes):
        ended, _ = await lived(tmp_path, ending, dies_after=number)
        assert ended == whole, f"after a crash behind write {number}"
