"""A desk for each test: five minutes before a sweep, with a host that is ill."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import loom
from app import on_call
from loom.devtools.testing import VirtualWorld, virtual_world
from models import Status, Taken
from outside import Outside

START = datetime(2026, 11, 30, 6, 55, tzinfo=UTC)
INCIDENT = "sweep-20261130T070000Z:incident#A-1"


@dataclass
class Desk:
    world: VirtualWorld
    outside: Outside

    async def pass_minutes(self, minutes: float) -> None:
        await self.world.run_for(timedelta(minutes=minutes))

    async def take(self, person: str) -> loom.Outcome[Any]:
        return await self.world.runtime.resume(INCIDENT, answer=Taken(person))

    async def report(self, person: str, text: str, *, solved: bool = False) -> loom.Outcome[Any]:
        return await self.world.runtime.send(INCIDENT, "status", Status(person, text, solved))

    async def status(self) -> str:
        return (await self.world.runtime.load_state(INCIDENT)).status

    def called(self) -> list[str]:
        return [call.person for call in self.outside.pager.calls(INCIDENT)]

    def moves(self) -> list[str]:
        return [" ".join(move) for move in self.outside.balancer.moves(INCIDENT)]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    with Outside(tmp_path / "outside.db") as outside:
        outside.monitor.raise_alarm("checkout", "web-3", "errors over 5 %")
        async with virtual_world(on_call(outside), start=START) as world:
            await world.run_for(timedelta(minutes=5))
            yield Desk(world, outside)
