"""Snapshots: reading a run of 100,000 events through one against reading its log, what they weigh, and what a state holds."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import asyncpg

from loom.core import facts as f
from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState, empty_state
from loom.driving.loading import Loaded, load
from loom.driving.snapshots import snapshot_of
from loom.kernel.fold import evolve
from loom.plugins.postgres import PostgresStorage
from loom.plugins.sqlite import SqliteStorage
from loom.spi.event_store import EventRecord
from loom.spi.snapshot_store import Snapshot
from tests.benchmarks.floors import written
from tests.benchmarks.flows import app_over, gated, make_app
from tests.benchmarks.report import Line, Pair, Target, compared, plain
from tests.benchmarks.scale import Scale, Unavailable, folder
from tests.plugins.postgres.server import NoPostgres, Server

RUN: Final = ExecutionId("snapped")
_READS: Final = 20
_STORED: Final = "SELECT sum(pg_column_size(body)) FROM loom.snapshots"


class Whole:
    """A store whose snapshots nobody sees, and who reads is counted what."""

    def __init__(self, kept: SqliteStorage) -> None:
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        if "snapshot" in name:
            raise AttributeError(name)
        return getattr(self._kept, name)


class Counting(SqliteStorage):
    """A store that counts the events that are read."""

    read_events = 0

    async def read(self, *args: Any, **kwargs: Any) -> Sequence[EventRecord]:
        page = await super().read(*args, **kwargs)
        self.read_events += len(page)
        return page


def snapshot_load(scale: Scale) -> Iterator[Line]:
    with folder() as at:
        database = at / "run.db"
        asyncio.run(_parked(database, scale.of(100_000) // 2))
        pairs, rows, encoded = asyncio.run(_loaded(database, scale.repeats))
        held = Pair(*(asyncio.run(_held(database, whole=whole)) for whole in (False, True)))
    yield compared("snapshot-load", pairs, of="whole log", unit="ms", target=Target(bound="at most", limit=0.25))
    yield plain("snapshot-load-rows", [rows], unit="events read", target=Target(bound="at most", limit=10))
    yield plain("snapshot-write", encoded, unit="ms")
    yield compared("snapshot-state", [held], of="whole log", unit="bytes/event")


async def _parked(database: Path, count: int) -> None:
    """Park a run at its gate, with a snapshot there, and have something happen after it, so that there is a tail."""
    async with make_app(database, write_behind=True) as app:
        outcome = await app.runtime.start(gated, count, id=RUN)
        assert outcome.status == "suspended"
        await app.runtime.pause(RUN)
        await app.runtime.unpause(RUN)


async def _loaded(database: Path, repeats: int) -> tuple[list[Pair], int, list[float]]:
    """Return the ms that loading took both ways, how many events the one read, and how many ms a snapshot takes to make."""
    storage = Counting(database)
    whole: Any = Whole(storage)
    await load(whole, RUN)  # it is open, and in the system's cache
    pairs, encoded, rows = [], [], 0
    for _ in range(repeats):
        storage.read_events = 0
        through, snapped_ms = await _timed(storage)
        rows = storage.read_events
        assert (through.snapshot, rows) == (through.state.sequence - rows, rows)
        folded, whole_ms = await _timed(whole)
        assert folded.state == through.state
        pairs.append(Pair(snapped_ms, whole_ms))
        begun = time.perf_counter()
        snapshot_of(folded.state, folded.row.incarnation, at=0)
        encoded.append((time.perf_counter() - begun) * 1000)
        del folded, through
    await storage.close()
    return pairs, rows, encoded


async def _timed(storage: Any) -> tuple[Loaded, float]:
    gc.collect()
    begun = time.perf_counter()
    loaded = await load(storage, RUN)
    return loaded, (time.perf_counter() - begun) * 1000


async def _held(database: Path, *, whole: bool) -> float:
    """Return what the state of the run holds for each of its events, loaded from its *whole* log or through its snapshot."""
    storage = SqliteStorage(database)
    await storage.open()
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        store: Any = Whole(storage) if whole else storage
        loaded = await load(store, RUN)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    await storage.close()
    return (after - before) / loaded.state.length


def snapshot_bytes(scale: Scale) -> Iterator[Line]:
    with folder() as at:
        database = at / "run.db"
        asyncio.run(_parked(database, scale.of(100_000) // 2))
        json, zstd = (asyncio.run(_snapshot(database, codec)) for codec in ("json", "zstd"))
        log = sum(map(len, written(database).texts))
    target = Target(bound="at most", limit=0.5)
    pair = Pair(len(zstd.body) / (zstd.head.sequence + 1), len(json.body) / (json.head.sequence + 1))
    yield compared("snapshot-bytes", [pair], of="plain", unit="bytes/event", target=target)
    yield compared(
        "snapshot-bytes-plain", [Pair(pair.floor, log / (json.head.sequence + 1))], of="log", unit="bytes/event"
    )
    yield plain("fold-inputs", [_bytes_a_step(10_000)], unit="bytes/step", target=Target(bound="at most", limit=1000))


async def _snapshot(database: Path, codec: Any) -> Snapshot:
    storage = SqliteStorage(database)
    state, row, _ = await load(storage, RUN)
    await storage.close()
    return snapshot_of(state, row.incarnation, at=0, codec=codec)


def _bytes_a_step(input_bytes: int, steps: int = 1_000) -> float:
    """Return what a fold adds to the events of *steps* with large inputs: it is given them, and keeps them as they are."""
    events = [_started(), *(event for number in range(steps) for event in _step(number, input_bytes))]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        state = _folded(events)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert state.length == len(events)
    return (after - before) / steps


def _folded(events: Sequence[EventEnvelope[Any]]) -> ExecutionState:
    state = empty_state(RUN)
    for event in events:
        state = evolve(state, event)
    return state


def _started() -> EventEnvelope[Any]:
    return EventEnvelope(RUN, 0, "EXECUTION_STARTED", 0, f.ExecutionStarted("flow", "print", "seed", {}))


def _step(number: int, input_bytes: int) -> Iterator[EventEnvelope[Any]]:
    start = 1 + 2 * number
    asked = f.StepStarted(f"step#{number}", number, "d", args={"text": chr(65 + number % 26) * input_bytes})
    yield EventEnvelope(RUN, start, "STEP_STARTED", 0, asked)
    yield EventEnvelope(RUN, start + 1, "STEP_COMPLETED", 0, f.StepCompleted(start, number))


def snapshot_lz4(scale: Scale) -> Iterator[Line]:
    try:
        server = Server(options="", on_disk=True, of_machine=True)
    except NoPostgres as reason:
        raise Unavailable(f"no Postgres of this machine can be started: {reason}") from None
    try:
        stored, reads = asyncio.run(_in_postgres(server, scale.of(100_000) // 2))
    finally:
        server.remove()
    yield compared("snapshot-lz4-bytes", [stored], of="pglz", unit="bytes/event")
    yield compared("snapshot-lz4-read", reads, of="pglz", unit="ms")


async def _in_postgres(server: Server, count: int) -> tuple[Pair, list[Pair]]:
    """Return the bytes an event that a snapshot takes in the table with lz4 and without, and the ms in which each is read."""
    dsns = [await server.database(), await server.database()]
    try:
        await server.execute("CREATE TABLE probe (body bytea COMPRESSION lz4)", dsn=dsns[0])
    except asyncpg.FeatureNotSupportedError as reason:
        raise Unavailable(str(reason)) from None
    stores = [PostgresStorage(dsns[0], snapshot_compression="lz4"), PostgresStorage(dsns[1])]
    sizes = []
    for store, dsn in zip(stores, dsns, strict=True):
        outcome = await app_over(store, write_behind=True).runtime.start(gated, count, id=RUN)
        [(size,)] = await server.execute(_STORED, dsn=dsn)
        sizes.append(float(size) / outcome.length)
    reads = [Pair(*[await _read_ms(store) for store in stores]) for _ in range(_READS)]
    for store in stores:
        await store.close()
    return Pair(*sizes), reads


async def _read_ms(store: PostgresStorage) -> float:
    row = await store.row(RUN)
    assert row is not None
    begun = time.perf_counter()
    found = await store.latest_snapshot(RUN, row.incarnation)
    took = time.perf_counter() - begun
    assert found is not None
    return took * 1000
