"""1,000 stored runs of 50 events against the code as it is: the reading, the replays and the report of `loom deploy check`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from loom.devtools.deploying import Checking, StoredRun, report_of
from loom.driving.stored_log import stored_records
from loom.spi.event_store import ExecutionQuery, Storage
from tests.benchmarks.flows import FLOWS, each, gated, make_app, mapped
from tests.benchmarks.report import Line, Target, plain
from tests.benchmarks.scale import Scale, folder

STEPS: Final = 22
"""With the start, the gate, a park, its answer, the step after it and the end: some 50 events."""


def deploying(scale: Scale) -> Iterator[Line]:
    with folder() as at:
        count = scale.of(1_000)
        asyncio.run(_recorded(at / "runs.db", count))
        figures = [asyncio.run(_checked_seconds(at / "runs.db", count)) for _ in range(scale.repeats)]
    yield plain("deploy-check", figures, unit="s", target=Target(bound="at most", limit=20))


async def _recorded(database: Path, count: int) -> None:
    async def one(number: int) -> None:
        if number % 2:
            await app.runtime.start(mapped, STEPS + 1, id=f"mapped-{number}")
            return
        await app.runtime.start(gated, STEPS, id=f"gated-{number}")
        if number % 4:
            (await app.runtime.resume(f"gated-{number}", answer="on")).result()

    async with make_app(database, write_behind=True) as app:
        await each(one, range(count), concurrency=50)


async def _checked_seconds(database: Path, count: int) -> float:
    """Return the processor time that all of them take, on one core."""
    async with make_app(database) as app:
        begun = time.process_time()
        checking = Checking({flow.id: flow for flow in FLOWS})
        report = report_of([verdict async for verdict in checking.verdicts(_runs(app.storage))])
        took = time.process_time() - begun
    assert (report.runs, report.counts["same"]) == (count, count)
    return took


async def _runs(storage: Storage) -> AsyncIterator[StoredRun]:
    query = ExecutionQuery(limit=10_000)
    for row in await storage.find(query):
        yield StoredRun(row.execution_id, await stored_records(storage, row.execution_id), row.length)
