"""What a step weighs on the disk, once the write-ahead log is in the database."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.flows import make_app, same_ticks
from tests.benchmarks.report import Line, Target, plain
from tests.benchmarks.scale import Scale, folder


def disk(scale: Scale) -> Iterator[Line]:
    count = scale.of(10_000)
    with folder() as at:
        asyncio.run(_recorded(at / "run.db", count))
        size = _bytes_after_checkpoint(at / "run.db")
    yield plain("disk", [size / count], unit="bytes/step", target=Target(bound="at most", limit=320))


async def _recorded(database: Path, count: int) -> None:
    async with make_app(database, write_behind=True) as app:
        (await app.runtime.start(same_ticks, count)).result()


def _bytes_after_checkpoint(database: Path) -> int:
    raw = sqlite3.connect(database)
    try:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        raw.close()
    return database.stat().st_size
