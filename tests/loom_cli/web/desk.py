"""A desk with runs in all states, for looking at the page: what the pictures in the guide show, and what browsers are driven over."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, Field

import loom
from loom.app.config import LoomApp
from loom.plugins.sqlite import SqliteStorage
from loom.spi.clock import SeededEntropy, VirtualClock

START_MS: Final = 1_764_577_200_000
CLOCK: Final = VirtualClock()


class Claim(BaseModel):
    """What a customer wants back."""

    order: str
    amount: float
    reason: str


class Way(Enum):
    BANK = "bank transfer"
    VOUCHER = "voucher"


class Approval(BaseModel):
    """What a clerk decides."""

    approved: bool
    amount: float = Field(ge=0, le=1000, description="How much is paid back")
    way: Way = Way.BANK
    note: str | None = Field(default=None, max_length=300)


@loom.step(retry=loom.Retry(attempts=3, delay=timedelta(0)))
async def assess_risk(step: loom.StepContext, claim: Claim) -> dict[str, Any]:
    CLOCK.advance(410)
    if step.attempt == 1 and claim.order == "A-1042":
        raise ConnectionError("the risk service is busy")
    return {"score": 0.62, "model": "small", "because": ["third claim this year", "high amount"]}


@loom.step
async def look_up(source: str) -> dict[str, Any]:
    CLOCK.advance({"orders": 120, "payments": 340, "parcels": 75}[source])
    for _ in range({"orders": 40, "payments": 80, "parcels": 20}[source]):
        await asyncio.sleep(0)
    return {"source": source, "found": 3}


@loom.step(idempotent=False)
async def pay(claim: Claim) -> str:
    CLOCK.advance(900)
    if claim.order == "A-1039":
        raise RuntimeError("the bank refused: account closed")
    return f"R-{claim.order}"


@loom.flow
async def refund(ctx: loom.Context, claim: Claim) -> str:
    risk = await ctx.run(assess_risk, claim)
    await ctx.map(look_up, ["orders", "payments", "parcels"])
    await ctx.decide("route", lambda routes: routes[-1], ["automatic", "clerk"])
    answer = await ctx.suspend(
        "approval", show={"claim": claim, "risk": risk}, expects=Approval, timeout=timedelta(days=3)
    )
    if not answer.approved:
        return "refused"
    await ctx.emit("refund_approved", {"order": claim.order, "amount": answer.amount})
    return await ctx.run(pay, claim)


@loom.flow
async def reminder(ctx: loom.Context, order: str) -> str:
    await ctx.sleep(timedelta(days=2))
    return order


def app_on(storage: Any) -> LoomApp:
    """Return the desk's app on *storage*."""
    return loom.define_config(flows=[refund, reminder], storage=storage, clock=CLOCK, entropy=SeededEntropy(11))


async def tell(storage: Any) -> int:
    """Write the desk's runs to *storage* and return when they are looked at, ms since the epoch."""
    CLOCK.advance(START_MS - CLOCK.now_ms())
    app = app_on(storage)
    orders = {"A-1038": 40.0, "A-1039": 310.0, "A-1040": 25.5, "A-1041": 89.9, "A-1042": 120.0}
    async with app:
        for order, amount in orders.items():
            claim = Claim(order=order, amount=amount, reason="arrived broken, see the photograph")
            about = {"customer": "c-77", "amount": amount}
            await app.runtime.start(refund, claim, id=f"refund-{order}", principal="ann", attributes=about)
            CLOCK.advance(460_000)
            if order not in ("A-1041", "A-1042"):
                answer = {"approved": order != "A-1040", "amount": amount}
                await app.runtime.resume(f"refund-{order}", answer=answer, principal="bob")
            CLOCK.advance(1_300_000)
        await app.runtime.start(reminder, "A-1042", id="reminder-A-1042", principal="ann")
        CLOCK.advance(95_000)
        await app.runtime.fork("refund-A-1038", at=6, id="refund-A-1038-again", principal="bob")
        CLOCK.advance(240_000)
    return CLOCK.now_ms()


def store_at(path: Path) -> int:
    """Write the desk's runs into a new SQLite store, and return when they are looked at."""
    return asyncio.run(tell(SqliteStorage(path)))
