"""What a step weighs on the disk, once the write-ahead log is in the database."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from loom.plugins.sqlite import SqliteStorage
from loom.services.compacting import Wish, compact
from loom.spi.event_store import ExecutionQuery
from tests.benchmarks.flows import make_app, same_ticks
from tests.benchmarks.report import Line, Target, plain
from tests.benchmarks.scale import Scale, folder


def disk(scale: Scale) -> Iterator[Line]:
    count = scale.of(10_000)
    with folder() as at:
        asyncio.run(_recorded(at / "run.db", count))
        size = _bytes_after_checkpoint(at / "run.db")
        asyncio.run(_compacted(at / "run.db", at / "archive.db"))
        left, kept = _vacuumed(at / "run.db"), _vacuumed(at / "archive.db")
    yield plain("disk", [size / count], unit="bytes/step", target=Target(bound="at most", limit=320))
    yield plain("disk-compacted", [left / count], unit="bytes/step")
    yield plain("disk-archive", [kept / count], unit="bytes/step")


async def _recorded(database: Path, count: int) -> None:
    async with make_app(database, write_behind=True) as app:
        (await app.runtime.start(same_ticks, count)).result()


def _vacuumed(database: Path) -> int:
    """Return the bytes of a database once those that compaction has freed are given back."""
    with closing(sqlite3.connect(database)) as raw:
        raw.execute("VACUUM")
    return _bytes_after_checkpoint(database)


async def _compacted(database: Path, kept: Path) -> None:
    store, archive = SqliteStorage(database), SqliteStorage(kept)
    try:
        for row in await store.find(ExecutionQuery()):
            await compact(store, archive, row, Wish())
    finally:
        await store.close()
        await archive.close()


def _bytes_after_checkpoint(database: Path) -> int:
    raw = sqlite3.connect(database)
    try:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        raw.close()
    return database.stat().st_size
