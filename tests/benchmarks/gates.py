"""Two thousand flows of step, gate, step: until they are parked, from their answer to their end, and what they weigh."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import loom
from tests.benchmarks.floors import rows_per_second, written
from tests.benchmarks.flows import each, gated, make_app
from tests.benchmarks.report import Line, Pair, Target, compared, plain
from tests.benchmarks.scale import Scale, folder

RUNS: Final = 2000
CONCURRENCY: Final = 50
TARGET: Final = Target(bound="at least", limit=1 / 50)


def gates(scale: Scale) -> Iterator[Line]:
    parks, answers = [], []
    for _ in range(min(3, scale.repeats)):
        with folder() as at:
            park, answer = asyncio.run(_legs(at / "run.db", scale.of(RUNS)))
            floor = rows_per_second(written(at / "run.db"), at / "floor.db")
        parks.append(Pair(park, floor))
        answers.append(Pair(answer, floor))
    yield compared("gates-park", parks, of="rows", unit="runs/s", target=TARGET)
    yield compared("gates-answer", answers, of="rows", unit="runs/s", target=TARGET)
    target = Target(bound="at most", limit=3000)
    yield plain("gates-memory", [asyncio.run(_bytes_parked(scale.of(RUNS)))], unit="bytes/run", target=target)


async def _legs(database: Path, count: int) -> tuple[float, float]:
    """Return the runs a second that park, and that then are answered and end."""
    async with make_app(database) as app:
        await _park(app, 10)
        begun = time.perf_counter()
        ids = await _park(app, count)
        parked = time.perf_counter()
        ended = await each(lambda run: app.runtime.resume(run, answer="yes"), ids, concurrency=CONCURRENCY)
        took = time.perf_counter() - parked
        assert all(outcome.status == "completed" for outcome in ended)
        return count / (parked - begun), count / took


async def _park(app: loom.LoomApp, count: int) -> list[str]:
    outcomes = await each(lambda _: app.runtime.start(gated, 1), range(count), concurrency=CONCURRENCY)
    assert {outcome.status for outcome in outcomes} == {"suspended"}
    return [outcome.execution_id for outcome in outcomes]


async def _bytes_parked(count: int) -> float:
    """Return what the process holds on to for each run that is parked. SQLite's page cache, which is bounded, is not seen."""
    with folder() as at:
        async with make_app(at / "run.db") as app:
            tracemalloc.start()
            try:
                await _park(app, max(10, count // 10))
                gc.collect()
                before, _ = tracemalloc.get_traced_memory()
                await _park(app, count)
                gc.collect()
                after, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    return (after - before) / count
