"""A process that drives one run of many steps to its end: `python -m tests.services.driving_many STORE RUN STEPS`."""

from __future__ import annotations

import asyncio
import sys

import loom
from loom.plugins.postgres import PostgresStorage
from loom.plugins.sqlite import SqliteStorage
from loom.plugins.sqlite.location import is_postgres
from tests.kernel.running import runtime
from tests.services.compacted import count


@loom.flow
async def steadily(ctx: loom.Context, steps: int) -> int:
    total = 0
    for number in range(steps):
        total += await ctx.run(count, number)
    return total


async def main(url: str, run: str, steps: int) -> None:
    store = PostgresStorage(url) if is_postgres(url) else SqliteStorage(url)
    outcome = await runtime(steadily, storage=store).start(steadily, steps, id=run)
    print(outcome.result(), flush=True)  # noqa: T201
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
