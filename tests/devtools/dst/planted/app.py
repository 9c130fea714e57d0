"""Three flows that are wrong in ways that no test without faults shows, and those that are right."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import loom
from loom.core.views import awaited_messages
from loom.devtools.dst import Desk, End, Message, World

# A double charge: a crash between the charge and its record charges again, and the bank is given nothing to tell it by.


@loom.step
async def charge(order: str, amount: int) -> str:
    raise NotImplementedError


@loom.step
async def thank(order: str) -> None: ...


@loom.flow
async def sell(ctx: loom.Context, order: str) -> str:
    receipt = await ctx.run(charge, order, 40)
    await ctx.run(thank, order)
    return receipt


# The same, with the key of the step for the bank to tell by.


@loom.step
async def charge_once(step: loom.StepContext, order: str, amount: int) -> str:
    raise NotImplementedError


@loom.flow
async def sell_well(ctx: loom.Context, order: str) -> str:
    receipt = await ctx.run(charge_once, order, 40)
    await ctx.run(thank, order)
    return receipt


@dataclass
class Bank:
    """What the outside world remembers."""

    charges: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    async def charge(self, order: str, amount: int) -> str:
        self.charges.append(order)
        return f"receipt {len(self.charges)}"

    async def charge_once(self, step: loom.StepContext, order: str, amount: int) -> str:
        if step.idempotency_key not in self.keys:
            self.keys.add(step.idempotency_key)
            self.charges.append(order)
        return f"receipt for {order}"

    def charged_once(self, end: End) -> str:
        return "" if len(self.charges) <= 1 else f"charged {len(self.charges)} times"


def bank() -> World:
    own = Bank()
    steps = {"charge": own.charge, "charge_once": own.charge_once}
    return World(steps=steps, invariants={"nobody is charged twice": own.charged_once})


# A lost message: whoever takes longer than the flow is patient is accepted, and never heard.


@loom.flow
async def basket(ctx: loom.Context) -> list[str]:
    items: list[str] = []
    while True:
        try:
            items.append(await ctx.receive("item", expects=str, timeout=timedelta(seconds=15)))
        except loom.ReceiveTimedOut:
            return items


def shoppers() -> World:
    return World(messages=[Message("item", "tea", at_s=1.0), Message("item", "cup", at_s=4.0)])


# A lost wake-up: who pays between the look and the wait is told to nobody.


@loom.step
async def is_paid(order: str) -> bool:
    raise NotImplementedError


@loom.flow
async def ship(ctx: loom.Context, order: str) -> str:
    if not await ctx.run(is_paid, order):
        await ctx.receive("paid")
    return "shipped"


def till() -> World:
    paid: list[str] = []

    async def pay(desk: Desk) -> None:
        await desk.sleep(1.0)
        paid.append("paid")
        state = await desk.state()
        if state is not None and any(wait.topic == "paid" for wait in awaited_messages(state)):
            await desk.send("paid")

    return World(steps={"is_paid": lambda order: bool(paid)}, acts=[pay])


# A parent whose children are started and driven like any other run, without a stand-in.


@loom.flow
async def parcel(ctx: loom.Context, number: int) -> int:
    await ctx.run(thank, str(number))
    return number


@loom.flow
async def parcels(ctx: loom.Context) -> int:
    children = [await loom.spawn(ctx, parcel, number, key=str(number)) for number in (1, 2)]
    return sum(await loom.await_all(ctx, children))


# A step that does not say what it returns, so that nothing can be made up for it.


@loom.step
async def weigh(order: str):  # type: ignore[no-untyped-def]  # the slip itself
    return len(order)


@loom.flow
async def weighing(ctx: loom.Context) -> int:
    return int(await ctx.run(weigh, "tea"))


app = loom.define_config(flows=[sell, sell_well, basket, ship, parcel, parcels, weighing])
