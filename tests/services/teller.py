"""A worker that tells a desk of gates, until it is killed: `python -m tests.services.teller STORE URL`."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

import loom
from loom.services import gate_hooks


@loom.flow
async def ask(ctx: loom.Context, number: int) -> bool:
    return await ctx.suspend("approval", show={"number": number}, expects=bool)


def app_on(store: Path, url: str | None) -> loom.LoomApp:
    hooks = {"desk": loom.webhook(url, timeout=timedelta(seconds=1))} if url else {}
    return loom.define_config(flows=[ask], storage=loom.sqlite_storage(store), gate_hooks=hooks, lease_s=2)


async def main(store: str, url: str) -> None:
    vars(gate_hooks).update(DOUBT_REST_MS=500)  # it is killed often, and the test has no half minute each time
    async with app_on(Path(store), url) as app:
        await app.worker(poll_s=0.05).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
