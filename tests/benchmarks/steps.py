"""Steps a second, against the rows a second that SQLite takes; and whether a long flow slows down."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.benchmarks.floors import Written, rows_per_second, written
from tests.benchmarks.flows import each, make_app, ticks, timed_ticks, warmed
from tests.benchmarks.report import Line, Pair, Target, compared
from tests.benchmarks.scale import Scale, folder

FLOWS: Final = 200
STEPS: Final = 10
SINGLE_ROWS: Final = 1000
"""How many rows the floor `single` inserts: each waits for the disk."""


async def steps_per_second(database: Path, flows: int, *, concurrency: int, write_behind: bool) -> float:
    """Run *flows* flows of ten steps and return how many steps went into a second."""
    async with make_app(database, write_behind=write_behind) as app:
        await warmed(app)
        begun = time.perf_counter()
        await each(lambda steps: app.runtime.start(ticks, steps), [STEPS] * flows, concurrency=concurrency)
        return flows * STEPS / (time.perf_counter() - begun)


def steps_50_safe(scale: Scale) -> Iterator[Line]:
    target = Target(bound="at least", limit=1 / 10)
    pairs = [_against_rows(scale, concurrency=50, write_behind=False) for _ in range(scale.repeats)]
    yield compared("steps-50-safe", pairs, of="rows", unit="steps/s", target=target)


def steps_1_write_behind(scale: Scale) -> Iterator[Line]:
    target = Target(bound="at least", limit=1 / 18)
    pairs = [_against_rows(scale, concurrency=1, write_behind=True) for _ in range(scale.repeats)]
    yield compared("steps-1-write-behind", pairs, of="rows", unit="steps/s", target=target)


def steps_1_safe(scale: Scale) -> Iterator[Line]:
    target = Target(bound="at least", limit=0.5)
    pairs = [_against_single(scale) for _ in range(scale.repeats)]
    yield compared("steps-1-safe", pairs, of="single", unit="steps/s", target=target)


def _against_rows(scale: Scale, *, concurrency: int, write_behind: bool) -> Pair:
    with folder() as at:
        run = steps_per_second(at / "run.db", scale.of(FLOWS), concurrency=concurrency, write_behind=write_behind)
        rate = asyncio.run(run)
        return Pair(rate, rows_per_second(written(at / "run.db"), at / "floor.db"))


def _against_single(scale: Scale) -> Pair:
    with folder() as at:
        rate = asyncio.run(steps_per_second(at / "run.db", scale.of(FLOWS), concurrency=1, write_behind=False))
        done = written(at / "run.db")
        part = Written(done.schema, done.rows[: scale.of(SINGLE_ROWS)])
        return Pair(rate, rows_per_second(part, at / "floor.db", group=1))


def long_flow(scale: Scale) -> Iterator[Line]:
    target = Target(bound="at most", limit=1.2)
    pairs = [asyncio.run(_tenths(scale.of(10_000), write_behind=True)) for _ in range(scale.repeats)]
    yield compared("long-flow", pairs, of="first tenth", unit="us/step", target=target)
    pairs = [asyncio.run(_tenths(scale.of(3_000), write_behind=False)) for _ in range(scale.repeats)]
    yield compared("long-flow-safe", pairs, of="first tenth", unit="us/step")


async def _tenths(count: int, *, write_behind: bool) -> Pair:
    with folder() as at:
        async with make_app(at / "run.db", write_behind=write_behind) as app:
            await warmed(app)
            first, last = (await app.runtime.start(timed_ticks, count)).result()
            return Pair(last / (count // 10) * 1e6, first / (count // 10) * 1e6)
