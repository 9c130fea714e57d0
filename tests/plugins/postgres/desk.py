"""A worker at a desk whose store is in Postgres. Its steps write lines into a ledger. As a script it is given the database."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import loom

LEDGER = "DESK_LEDGER"
STEPS = 3


@loom.step
async def pay(step: loom.StepContext, number: int) -> int:
    line = f"{step.execution_id} {number} {os.getpid()}\n".encode()
    file = os.open(Path(os.environ[LEDGER]), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)
    return number


@loom.flow
async def refund(ctx: loom.Context) -> int:
    """Pay, wait, and pay again: whoever has it at the first payment need not have it at the last."""
    total = 0
    for number in range(STEPS):
        total += await ctx.run(pay, number)
        await ctx.sleep(0.05)
    return total


def desk(dsn: str) -> loom.LoomApp:
    storage = loom.postgres_storage(dsn, connections=4)
    return loom.define_config(flows=[refund], storage=storage, lease_s=1.0, grace_s=0.2)


async def work(dsn: str) -> None:
    """Be a worker until the process is killed; while the server is away, try again."""
    while True:
        try:
            async with desk(dsn) as app:
                await app.worker(poll_s=0.02).run()
        except loom.LoomError as error:
            sys.stderr.write(f"{error}\n")
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
