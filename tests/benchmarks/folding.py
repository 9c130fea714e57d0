"""The fold of 100,000 events, against decoding them; and what it costs to keep every state on the way."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import loom
from loom.core.ids import ExecutionId
from loom.core.state import empty_state
from loom.kernel.fold import evolve, fold
from tests.benchmarks.floors import decode_seconds, written
from tests.benchmarks.flows import make_app, ticks
from tests.benchmarks.report import Line, Pair, Target, compared, plain
from tests.benchmarks.scale import Scale, folder

Events = Sequence[loom.EventEnvelope[Any]]

RUN: Final = ExecutionId("folded")


def folding(scale: Scale) -> Iterator[Line]:
    with folder() as at:
        database = at / "run.db"
        asyncio.run(_recorded(database, scale.of(100_000) // 2 - 1))
        texts = written(database).texts
        pairs = []
        for _ in range(scale.repeats):  # the floor first, while no event is alive that would slow its collections
            decoded = decode_seconds(texts)
            pairs.append(Pair(_fold_seconds(_events(database)) * 1000, decoded * 1000))
        events = _events(database)
    yield compared("fold", pairs, of="decode", unit="ms", target=Target(bound="at most", limit=3.5))
    yield plain("fold-event", [pair.value / len(events) * 1e6 for pair in pairs], unit="ns")
    target = Target(bound="at most", limit=1500)
    yield plain("fold-states", [_bytes_kept(events) / len(events)], unit="bytes/state", target=target)


async def _recorded(database: Path, count: int) -> None:
    async with make_app(database, write_behind=True) as app:
        (await app.runtime.start(ticks, count, id=RUN)).result()


def _events(database: Path) -> Events:
    async def read() -> Events:
        async with make_app(database) as app:
            return await app.runtime.events(RUN)

    return asyncio.run(read())


def _fold_seconds(events: Events) -> float:
    begun = time.perf_counter()
    state = fold(events, empty_state(RUN))
    took = time.perf_counter() - begun
    assert state.status == "completed"
    return took


def _bytes_kept(events: Events) -> int:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        states = list(accumulate(events, evolve, initial=empty_state(RUN)))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(states) == len(events) + 1
    return after - before
