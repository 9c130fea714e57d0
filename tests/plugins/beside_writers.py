"""A reader of all changes beside processes that write, which are killed in the middle: it sees each event once, in the order of its log."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final, Protocol

from loom.spi.change_feed import Change, ChangeFeed
from loom.spi.event_store import Storage
from tests.plugins.sqlite.processes import APPENDER, start

LOGS: Final = 3
WRITERS: Final = 5
KILLED: Final = 4
PATIENCE_S: Final = 120

Seen = list[tuple[str, int]]


class Told(Storage, ChangeFeed, Protocol):
    """A store that tells what changes."""


async def seen_beside_writers(store: Told, place: str, seed: int) -> tuple[Seen, Seen]:
    """Return what a reader saw while processes wrote to the store at *place* and were killed, and what there is in the end."""
    rng, seen, cursor = random.Random(seed), Seen(), ""
    writers = [start(APPENDER, place, f"r-{number % LOGS}", 100_000) for number in range(WRITERS)]
    pages: Any = store.changes()
    try:
        async with asyncio.timeout(PATIENCE_S), aclosing(pages):
            for _ in range(KILLED):
                grown = len(seen) + rng.randrange(40, 120)
                while len(seen) < grown:
                    page = await anext(pages)
                    seen += _events(page)
                    cursor = page[-1].cursor
                victim = writers.pop(0)
                victim.kill()
                victim.communicate()
                writers.append(start(APPENDER, place, f"r-{rng.randrange(LOGS)}", 100_000))
    finally:
        for each in writers:
            each.kill()
            each.communicate()
    async with asyncio.timeout(PATIENCE_S):  # what a process was about to commit when it was killed may come yet
        while (page := await store.changed(cursor)) or not set(await _there(store)) <= set(seen):
            seen += _events(page)
            cursor = page[-1].cursor if page else cursor
    return seen, await _there(store)


def _events(page: Sequence[Change]) -> Seen:
    return [(change.execution_id, sequence) for change in page for sequence in range(change.start, change.stop)]


async def _there(store: Storage) -> Seen:
    heads = [await store.head(name) for name in await store.ids()]
    return [(head.execution_id, number) for head in heads if head is not None for number in range(head.length)]
