"""A process at a desk whose store is in Postgres: a worker, or one who starts runs. Its steps write lines into a ledger.

As a script it is given its role, the database and the file of the ledger; one who starts runs, how many as well.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import loom

LEDGER = Path(os.environ.get("DESK_LEDGER", "ledger"))
STEPS = 4


@loom.step(idempotent=True)
async def pay(run: str, number: int) -> int:
    file = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{run} {number}\n".encode())
    finally:
        os.close(file)
    return number


@loom.flow
async def refund(ctx: loom.Context, run: str) -> int:
    total = 0
    for number in range(STEPS):
        total += await ctx.run(pay, run, number)
    approved: str = await ctx.suspend("approve", expects=str)
    total += await ctx.run(pay, run, STEPS)
    return total if approved == "yes" else 0


def app(dsn: str) -> loom.app.config.LoomApp:
    return loom.define_config(flows=[refund], storage=loom.postgres_storage(dsn))
