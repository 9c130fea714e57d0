"""A refund desk for each test: the shop's real records, a ledger of its own, logs in memory."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import loom
from app import DATA, refund_desk
from ledger import Ledger
from loom.spi.clock import VirtualClock
from models import Request, Settlement
from orders import Orders


@dataclass
class Desk:
    app: loom.LoomApp
    ledger: Ledger
    clock: VirtualClock

    async def settle(self, claim: str) -> loom.Outcome[Settlement]:
        return await self.app.runtime.start("refund", Request(claim), id=claim)

    async def answer(self, claim: str, **answer: Any) -> loom.Outcome[Settlement]:
        return await self.app.runtime.resume(claim, answer=answer)

    async def log(self, claim: str) -> list[str]:
        """Return the types of the events, with the name of the step or gate where they have one."""
        events = await self.app.runtime.events(claim)
        return [f"{event.type} {getattr(event.payload, 'id', '')}".strip() for event in events]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A desk whose clock stands still until it is moved, and whose mail server works."""
    ledger, clock = Ledger(tmp_path / "ledger.db", mail_failures=0), VirtualClock()
    ledger.create()
    async with refund_desk(Orders(DATA), ledger, clock=clock) as app:
        yield Desk(app, ledger, clock)
