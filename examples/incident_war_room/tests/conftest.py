"""A war room for each test: a fleet of its own, logs in memory, and an incident that waits for its commander."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import loom
from app import war_room
from fleet import Act, Fleet
from models import Alert, Decision, Health, Remedy

INCIDENT = "INC-7"
REMEDIES: tuple[Remedy, ...] = ("roll back", "scale out", "fail over")
ALERT = Alert("checkout", 119)


@dataclass
class Room:
    app: loom.LoomApp
    fleet: Fleet

    async def decide(self, remedy: Remedy, run: str = INCIDENT) -> loom.Outcome[Any]:
        return await self.app.runtime.resume(run, answer=Decision(remedy))

    async def tried(self, remedy: Remedy) -> Health:
        """Fork the incident at its gate, simulate *remedy* there, and return how the service would do."""
        gate = (await self.app.runtime.load_state(INCIDENT)).sequence
        fork = await self.app.runtime.fork(INCIDENT, at=gate, id=f"{INCIDENT}-{remedy.replace(' ', '-')}")
        outcome = await self.app.runtime.resume(fork.execution_id, answer=Decision(remedy), simulate=True)
        after: Health = outcome.result().after
        return after

    def acts(self) -> list[tuple[str, str, str]]:
        return [act[:3] for act in self.fleet.acts()]

    def done(self) -> list[Act]:
        return self.fleet.acts()

    def digest(self) -> str:
        return sha256(self.fleet.path.read_bytes()).hexdigest()


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    fleet = Fleet(tmp_path / "fleet.db")
    fleet.create()
    async with war_room(fleet, storage=loom.MemoryStorage()) as app:
        await app.runtime.start("incident", ALERT, id=INCIDENT)
        yield Room(app, fleet)
