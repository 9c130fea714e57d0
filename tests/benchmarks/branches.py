"""A thousand branches of one step, against a thousand steps one after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final

import loom
from tests.benchmarks.flows import branched, make_app, mapped, ticks, warmed
from tests.benchmarks.report import Line, Pair, Target, compared
from tests.benchmarks.scale import Scale, folder

TARGET: Final = Target(bound="at most", limit=1.5)


def branches(scale: Scale) -> Iterator[Line]:
    taken = [asyncio.run(_seconds(scale.of(1000))) for _ in range(scale.repeats)]
    for name, place in (("map", 1), ("parallel", 2)):
        pairs = [Pair(each[place] * 1000, each[0] * 1000) for each in taken]
        yield compared(f"branches-{name}", pairs, of="sequence", unit="ms", target=TARGET)


async def _seconds(count: int) -> tuple[float, float, float]:
    """Return how long *count* steps take in sequence, by `ctx.map`, and by `ctx.parallel`."""
    with folder() as at:
        async with make_app(at / "run.db", write_behind=True) as app:
            await warmed(app)
            return (
                await _timed(app, ticks, count),
                await _timed(app, mapped, count),
                await _timed(app, branched, count),
            )


async def _timed(app: loom.LoomApp, flow: loom.Flow[[int], int], count: int) -> float:
    begun = time.perf_counter()
    (await app.runtime.start(flow, count)).result()
    return time.perf_counter() - begun
