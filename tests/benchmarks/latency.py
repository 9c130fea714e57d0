"""How many commits a step costs (group commit), how long one takes, and how long the shortest flow."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import loom
from loom.spi.event_store import Append, AppendResult
from tests.benchmarks.flows import each, make_app, ticks, warmed
from tests.benchmarks.report import Line, plain
from tests.benchmarks.scale import Scale, folder
from tests.benchmarks.steps import STEPS


def commits(scale: Scale) -> Iterator[Line]:
    flows = scale.of(200)
    for concurrency, write_behind in ((1, False), (50, False), (1, True), (50, True)):
        seconds = asyncio.run(append_seconds(flows, concurrency=concurrency, write_behind=write_behind))
        mode = "write-behind" if write_behind else "safe"
        count = len(seconds) / (flows * STEPS) * 1000
        yield plain(f"commits-{concurrency}-{mode}", [count], unit="commits/1000 steps")


def latency(scale: Scale) -> Iterator[Line]:
    seconds = asyncio.run(append_seconds(scale.of(200), concurrency=1, write_behind=False))
    cuts = statistics.quantiles(seconds, n=100)
    yield plain("append-p50", [cuts[49] * 1e6], unit="us")
    yield plain("append-p99", [cuts[98] * 1e6], unit="us")
    yield plain("one-step-flow", asyncio.run(_one_step(scale.of(300))), unit="us")


async def append_seconds(flows: int, *, concurrency: int, write_behind: bool) -> list[float]:
    """Return how long each append took in *flows* flows of ten steps."""
    with folder() as at:
        async with make_app(at / "run.db", write_behind=write_behind) as app:
            await warmed(app)
            seconds = timed_appends(app.storage)
            await each(lambda steps: app.runtime.start(ticks, steps), [STEPS] * flows, concurrency=concurrency)
            return seconds


def timed_appends(storage: Any) -> list[float]:
    """Have each append of *storage* timed from here on, and return the list to which its seconds go."""
    append, seconds = storage.append, []

    async def timed(batch: Sequence[Append]) -> Sequence[AppendResult]:
        begun = time.perf_counter()
        results: Sequence[AppendResult] = await append(batch)
        seconds.append(time.perf_counter() - begun)
        return results

    storage.append = timed
    return seconds


async def _one_step(count: int) -> list[float]:
    """Return how many microseconds a flow of one step takes, from start to completed, each of *count* times."""
    with folder() as at:
        async with make_app(at / "run.db") as app:
            await warmed(app)
            return [await _microseconds(app) for _ in range(count)]


async def _microseconds(app: loom.LoomApp) -> float:
    begun = time.perf_counter()
    (await app.runtime.start(ticks, 1)).result()
    return (time.perf_counter() - begun) * 1e6
