"""What the tests of flow control share: a flow that waits for a person, declared in several ways, and a world to run it in."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import loom
from loom.driving.runtime import WorkflowRuntime
from loom.spi.clock import VirtualClock
from loom.spi.memory import MemoryStorage

MINUTE = timedelta(minutes=1)
MINUTE_MS = 60_000
ran: list[str] = []


@loom.step
async def ship(order: str) -> str:
    ran.append(order)
    return order


async def shipping(ctx: loom.Context, order: dict[str, Any]) -> str:
    await ctx.run(ship, order["id"])
    answer = await ctx.suspend("packed", expects=str)
    if answer == "broken":
        raise ValueError("it broke")
    return f"{order['id']} {answer}"


def flow(**starts: Any) -> loom.Flow[Any, Any]:
    declared: loom.Flow[Any, Any] = loom.flow(id="shipping", starts=loom.Starts(**starts))(shipping)
    return declared


ONE = flow(concurrency=loom.Limit(1))
TWO = flow(concurrency=loom.Limit(2, key="customer"))
PACED = flow(rate=loom.Rate(2, per=MINUTE))
CALM = flow(debounce=loom.Debounce(MINUTE, key="customer"))
ONCE = flow(dedupe="id")


class World:
    """A store, its clock, and a process on it."""

    def __init__(self, declared: loom.Flow[Any, Any], storage: type[MemoryStorage] = MemoryStorage) -> None:
        self.clock = VirtualClock()
        self.storage = storage(clock=self.clock)
        self.flow = declared
        self.over = self.process()

    def process(self) -> WorkflowRuntime:
        """Return a runtime of its own on the same store, as another process has."""
        return loom.define_config(flows=[self.flow], storage=self.storage, clock=self.clock).runtime

    async def start(self, name: str, customer: str = "c-1", **options: Any) -> loom.Outcome[Any]:
        order = {"id": name, "customer": customer}
        return await self.over.start(self.flow, order, id=name, linger_s=0.0, **options)

    async def resume(self, name: str) -> loom.Outcome[Any]:
        return await self.over.resume(name, linger_s=0.0)

    async def end(self, name: str) -> None:
        await self.over.resume(name, answer="yes")
        await self.over.settled()


def begun(outcome: loom.Outcome[Any]) -> bool:
    return [gate.label for gate in outcome.gates] == ["packed"]
