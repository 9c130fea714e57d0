"""A process that starts runs of one customer and drives them to their end, two at a time by declaration.

`python -m tests.driving.shipper STORE NAME COUNT [LEASE_S]`: what the steps did goes, a line each, to STORE.effects. A file
STORE.held keeps each step from ending, for as long as it is there.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

import loom
from loom.core.errors import ExecutionTerminated
from loom.driving.runtime import WorkflowRuntime
from loom.plugins.sqlite import SqliteStorage
from loom.spi.conflicts import SequenceConflict

STORE = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("unused")


def note(line: str) -> None:
    """Append a line to the effects, whole, whoever else does."""
    descriptor = os.open(f"{STORE}.effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def is_held() -> bool:
    return Path(f"{STORE}.held").exists()


@loom.step
async def pack(name: str) -> None:
    note(f"+ {name}")
    while is_held():
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.02)
    note(f"- {name}")


@loom.flow(starts=loom.Starts(concurrency=loom.Limit(2, key="customer")))
async def ship(ctx: loom.Context, order: dict[str, str]) -> None:
    await ctx.run(pack, order["id"])


async def driven(over: WorkflowRuntime, name: str) -> None:
    """Start a run, and take it up again and again until it has ended, whoever drives it."""
    order = {"id": name, "customer": "c-1"}
    with suppress(ExecutionTerminated, SequenceConflict):  # stood still so long that somebody took it over
        await over.start(ship, order, id=name)
    while (await over.load_state(name)).status != "completed":
        await asyncio.sleep(0.02)
        with suppress(ExecutionTerminated, SequenceConflict):  # somebody else took it up, or has ended it
            await over.resume(name)


async def main(name: str, count: int, lease_s: float = 15.0) -> None:
    app = loom.define_config(flows=[ship], storage=SqliteStorage(STORE), lease_s=lease_s)
    async with app:
        await asyncio.gather(*(driven(app.runtime, f"{name}-{number}") for number in range(count)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[2], int(sys.argv[3]), *map(float, sys.argv[4:])))
