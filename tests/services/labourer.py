"""A worker on a store, until it is killed: `python -m tests.services.labourer STORE`. It says what it could not do."""

from __future__ import annotations

import asyncio
import sys

import loom
from loom.plugins.sqlite.location import is_postgres
from loom.services.worker import Report


@loom.step
async def add(number: int) -> int:
    return number + 1


@loom.flow
async def job(ctx: loom.Context, number: int) -> int:
    for _ in range(3):
        number = await ctx.run(add, number)
    return number


def app_on(url: str) -> loom.LoomApp:
    storage = loom.postgres_storage(url, connections=4) if is_postgres(url) else loom.sqlite_storage(url)
    return loom.define_config(flows=[job], storage=storage)


def said(report: Report) -> None:
    if report.did in ("failing", "refused", "lost"):
        print(report, flush=True)  # noqa: T201


async def main(url: str) -> None:
    async with app_on(url) as app:
        await app.worker(poll_s=0.05, told=said).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
