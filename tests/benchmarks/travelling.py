"""Time travel: a fork of a run of 100,000 events, the state after any of them, and two runs of 50,000 side by side."""

from __future__ import annotations

import asyncio
import gc
import random
import sqlite3
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import loom
from loom.core.ids import ExecutionId
from loom.driving.stored_log import StoredLog, log_of
from loom.lenses.comparing import compare
from loom.lenses.folding import fold_at
from loom.lenses.moments import Moments
from loom.plugins.sqlite import SqliteStorage
from tests.benchmarks import debugging
from tests.benchmarks.flows import gated, make_app
from tests.benchmarks.report import Line, Pair, Target, compared, plain
from tests.benchmarks.scale import Scale, folder

EVENTS: Final = 100_000
SIDE_EVENTS: Final = 50_000
ASKED: Final = 200
SEED: Final = 7
CHANGED_EVERY: Final = 100
RUN: Final = ExecutionId("travelled")

_COPY: Final = """
    INSERT INTO events (run, sequence, type, at, payload, metadata)
    SELECT ?, sequence, type, at, payload, metadata FROM events WHERE run = ? AND sequence <= ? ORDER BY sequence
"""

Events = Sequence[loom.EventEnvelope[Any]]


def forking(scale: Scale) -> Iterator[Line]:
    """A fork where the run has parked, and one in the middle of it, against the copy of the same rows by `sqlite3` alone."""
    with folder() as at:
        database = at / "run.db"
        length = asyncio.run(_parked(database, scale.of(EVENTS) // 2))
        ends: list[Pair] = []
        halves: list[Pair] = []
        for number in range(scale.repeats):
            for pairs, through in ((ends, length - 1), (halves, length // 2)):
                forked = asyncio.run(_fork_ms(database, f"fork-{number}-{through}", through))
                pairs.append(Pair(forked, _copy_ms(database, through)))
    yield compared("fork", ends, of="INSERT SELECT", unit="ms", target=Target(bound="at most", limit=1.5))
    yield compared("fork-middle", halves, of="INSERT SELECT", unit="ms")


async def _parked(database: Path, count: int) -> int:
    """Park a run at its gate after *count* steps, and return how many events it has."""
    async with make_app(database, write_behind=True) as app:
        outcome = await app.runtime.start(gated, count, id=RUN)
    assert outcome.status == "suspended"
    return outcome.length


async def _fork_ms(database: Path, id: str, through: int) -> float:
    async with make_app(database) as app:
        await app.storage.row(RUN)  # so that it is open
        gc.collect()
        begun = time.perf_counter()
        outcome = await app.runtime.fork(RUN, at=through, id=id)
        took = time.perf_counter() - begun
    assert outcome.length == through + 2
    return took * 1000


def _copy_ms(database: Path, through: int) -> float:
    """Copy the same rows in the same table, for a run that nobody else has, and take them out again."""
    raw = sqlite3.connect(database, isolation_level=None)
    try:
        raw.execute("PRAGMA synchronous = FULL")
        [(run,)] = raw.execute("SELECT run FROM executions WHERE id = ?", (RUN,)).fetchall()
        begun = time.perf_counter()
        raw.execute("BEGIN IMMEDIATE")
        raw.execute(_COPY, (-1, run, through))
        raw.execute("COMMIT")
        took = time.perf_counter() - begun
        assert raw.execute("DELETE FROM events WHERE run = -1").rowcount == through + 1
        return took * 1000
    finally:
        raw.close()


def moments(scale: Scale) -> Iterator[Line]:
    """The state after events of a log that was read, by the lens of the debugger and the page; and what it holds beside them."""
    events = _read(scale.of(EVENTS))
    held = _held(events) / len(events)
    log = _travelled(events)
    numbers = random.Random(SEED).choices(range(len(events)), k=ASKED)
    took = [_ms(partial(log.state_at, number)) for number in numbers]
    assert all(log.state_at(n).sequence == n for n in numbers)
    most = Target(bound="at most", limit=20)
    yield plain("state-at", took, unit="ms", target=most)
    yield plain("state-at-worst", [max(took)], unit="ms", target=most)
    yield plain("state-at-memory", [held], unit="bytes/event", target=Target(bound="at most", limit=300))


def _travelled(events: Events) -> Moments:
    log = Moments(debugging.RUN)
    log.add(events)
    return log


def _held(events: Events) -> float:
    """Return what the lens holds beside the events, in bytes, once a seeded sample of states was asked for."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        log = _travelled(events)
        for number in range(0, len(events), max(1, len(events) // ASKED)):
            log.state_at(number)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


def comparing(scale: Scale) -> Iterator[Line]:
    """Two runs side by side, a result of a hundred being another, against the fold of both."""
    ours = _read(scale.of(SIDE_EVENTS))
    theirs = list(_changed(_read(scale.of(SIDE_EVENTS))))
    logs = [StoredLog(debugging.RUN, events) for events in (ours, theirs)]
    pairs = []
    for _ in range(scale.repeats):
        gc.collect()
        folded = _ms(lambda: [fold_at(events) for events in (ours, theirs)])
        gc.collect()
        pairs.append(Pair(_ms(lambda: compare(logs)), folded))
    yield compared("run-diff", pairs, of="fold of both", unit="ms", target=Target(bound="at most", limit=4))


def _read(count: int) -> Events:
    """Write a run of *count* events and read it."""

    async def read(database: Path) -> Events:
        await debugging.filled(database, count, debugging.VALUE_BYTES // (debugging.EVENTS // count))
        storage = SqliteStorage(database)
        log = await log_of(storage, debugging.RUN)
        await storage.close()
        return log.events

    with folder() as at:
        return asyncio.run(read(at / "run.db"))


def _changed(events: Events) -> Iterator[loom.EventEnvelope[Any]]:
    for event in events:
        is_other = event.type == "STEP_COMPLETED" and event.sequence % CHANGED_EVERY == 0
        yield event._replace(payload=event.payload._replace(result="other")) if is_other else event


def _ms(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000
