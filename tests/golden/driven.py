"""The flows of the golden logs that are about messages, chains and drivers; a part of `flows.py`, which imports it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import loom
from tests.golden.flows import Order, act, charge, saw, work

# messages


@loom.flow
async def letters(ctx: loom.Context) -> list[Any]:
    """Receive messages: one of a type, none in time, and two beside each other."""
    saw("way", await ctx.decide("way", lambda ways: ways[0], ["post", "pigeon"]))
    order = saw("order", await ctx.receive("orders", expects=Order, timeout=timedelta(days=1)))
    try:
        await ctx.receive("never", timeout=timedelta(hours=1))
    except loom.ReceiveTimedOut as late:
        saw("late", late)

    async def reads(ctx: loom.Context) -> Any:
        return saw("news", await ctx.receive("news"))

    return [order.id, *await ctx.parallel(reads, reads)]


# chains


@loom.flow
async def rolls(ctx: loom.Context, n: int = 0) -> int:
    """Go on in a fresh log."""
    if n == 0:
        saw("done", await ctx.run(work, "lap"))
        await ctx.continue_as_new(n + 1)
    return n


# taken over: drivers are lost, or let go, in the middle


@loom.step
async def fetch(page: int) -> list[int]:
    act("fetch")
    return [page]


@loom.flow
async def taken_over(ctx: loom.Context) -> list[Any]:
    """Fetch two pages, pay for them, and rest."""
    pages = [saw("page", await ctx.run(fetch, page)) for page in range(2)]
    receipt = saw("receipt", await ctx.run(charge, Decimal(len(pages))))
    await ctx.sleep(timedelta(minutes=1))
    return [*pages, receipt, saw("now", ctx.now())]
