"""A process that makes one retention pass in many small transactions: `python -m tests.services.retainer STORE`. It says each."""

from __future__ import annotations

import asyncio
import sys

from loom.plugins.postgres import PostgresStorage
from loom.plugins.sqlite import SqliteStorage
from loom.plugins.sqlite.location import is_postgres
from loom.services import expiry
from loom.services.expiry import Tally
from loom.services.retention import Retention

FAMILIES_AT_ONCE = 7


def said(tally: Tally) -> None:
    print(tally.families, flush=True)  # noqa: T201


async def main(url: str) -> None:
    store = PostgresStorage(url) if is_postgres(url) else SqliteStorage(url)
    expiry.BATCH_FAMILIES = FAMILIES_AT_ONCE  # type: ignore[misc]
    await store.open()
    print("open", flush=True)  # noqa: T201
    await Retention(store, ttl_ms=60_000).run(told=said)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
