"""What the tests of compaction share: runs that are compacted, and the whole story of a run, told from both stores."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import loom
from loom.core.ids import ExecutionId
from loom.lenses.folding import state_digest
from loom.services.archived import ArchivedEvent, read_archived
from loom.services.compacting import Compacted, Wish, compact, furthest
from loom.spi.archive_store import ArchiveStore
from loom.spi.event_store import Append, EventRecord, ExecutionRow, Storage
from loom.spi.memory import MemoryStorage
from tests.golden import logs
from tests.golden.make import INDEX
from tests.kernel.running import runtime


async def row_of(storage: Storage, run: str) -> ExecutionRow:
    """Return the row of a run, which must be there."""
    row = await storage.row(ExecutionId(run))
    assert row is not None
    return row


async def compacted(storage: Storage, archive: ArchiveStore, run: str, **wish: Any) -> Compacted:
    """Compact a run as wished."""
    return await compact(storage, archive, await row_of(storage, run), Wish(**wish))


async def story(storage: Storage, archive: ArchiveStore, run: str) -> list[ArchivedEvent]:
    """Return every event of a run, in order, each marked."""
    return [event async for event in read_archived(storage, archive, ExecutionId(run))]


async def told(storage: Storage, archive: ArchiveStore, run: str) -> list[EventRecord]:
    """Return every event of a run, in order."""
    return [event.record for event in await story(storage, archive, run)]


async def here(storage: Storage, run: str) -> list[int]:
    """Return the sequences of the events that the log still has."""
    found: list[EventRecord] = []
    while page := await storage.read(ExecutionId(run), start=found[-1].sequence + 1 if found else 0):
        found += page
    return [record.sequence for record in found]


def numbered(records: Sequence[EventRecord]) -> list[int]:
    """Return the sequences of *records*."""
    return [record.sequence for record in records]


async def stored(golden: logs.Golden, log: list[EventRecord] | None = None) -> MemoryStorage:
    """Return a store that holds a golden log."""
    storage = MemoryStorage()
    index = replace(INDEX, chain=golden.run)
    kept = golden.log if log is None else log
    item = Append(execution_id=golden.run, incarnation=None, expected=0, append_id="golden", events=kept, index=index)
    await storage.append([item])
    return storage


@loom.step
async def count(number: int) -> int:
    await asyncio.sleep(0)
    return number


@loom.flow
async def many(ctx: loom.Context, steps: int) -> int:
    total = 0
    for number in range(steps):
        total += await ctx.run(count, number)
        if number % 40 == 39:
            total += await ctx.receive("more", expects=int)
    return total


async def compact_every_golden_log(storage: Storage, archive: ArchiveStore) -> None:
    """Compact all golden logs in one store, each in two steps; fail where one is not what it was."""
    golden = [logs.read(name) for name in logs.names()]
    index = {each.run: replace(INDEX, chain=each.run) for each in golden}
    begun = [
        Append(
            execution_id=each.run,
            incarnation=None,
            expected=0,
            append_id=each.name,
            events=each.log,
            index=index[each.run],
        )
        for each in golden
    ]
    await storage.append(begun)
    over = runtime(storage=storage)
    for each in golden:
        for through in (max(1, furthest(each.log) // 2), None):
            await compacted(storage, archive, each.run, through=through, codec="json" if through else "zstd")

            assert await told(storage, archive, each.run) == each.log, each.name
            assert state_digest(await over.load_state(each.run)) == each.digests[-1], each.name
