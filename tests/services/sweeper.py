"""A process that sweeps contents in small pages: `python -m tests.services.sweeper KIND LOGS CONTENTS`. It says each page."""

from __future__ import annotations

import asyncio
import sys

from loom.plugins.sqlite import SqliteStorage
from loom.services import sweeping
from loom.services.ageing import SweepTally
from loom.services.sweeping import ContentSweep
from tests.plugins.putter import KINDS

PAGE = 4
DAY_MS = 24 * 3_600_000


def said(tally: SweepTally) -> None:
    print(tally.removed, flush=True)  # noqa: T201


async def main(kind: str, logs: str, contents: str) -> None:
    sweeping.PAGE = PAGE  # type: ignore[misc]
    sweeping.REST_MAX_S = 0  # type: ignore[misc]
    store, places = SqliteStorage(logs), KINDS[kind](contents)
    print("open", flush=True)  # noqa: T201
    await ContentSweep(places, store, ttl_ms=30 * DAY_MS).run(told=said)
    await places.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
