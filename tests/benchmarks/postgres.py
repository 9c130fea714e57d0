"""The same on Postgres: steps a second against batched inserts of the same rows, round trips, and a cold resume.

The server is started for it, with its data on the disk of TMPDIR and its settings as they come: it syncs every commit.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import asyncpg

from loom.plugins.postgres import PostgresStorage
from loom.spi.event_store import Append, Appended, AppendResult
from tests.benchmarks.floors import GROUP, decode_seconds
from tests.benchmarks.flows import app_over, each, gated, ticks, warmed
from tests.benchmarks.report import Line, Pair, Target, compared, plain
from tests.benchmarks.resuming import ROOT, RUN
from tests.benchmarks.scale import Scale, Unavailable
from tests.benchmarks.steps import FLOWS, STEPS
from tests.plugins.postgres.pooler import Pooler
from tests.plugins.postgres.server import NoPostgres, Server

CONCURRENCY: Final = 50

_ROWS: Final = "SELECT run, sequence, type, at, payload, metadata FROM loom.events ORDER BY run, sequence"
_FLOOR_TABLE: Final = "CREATE TABLE public.floor (LIKE loom.events INCLUDING ALL)"
_INSERT: Final = """
    INSERT INTO public.floor (run, sequence, type, at, payload, metadata)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bytea[], $6::bytea[])
"""


@contextmanager
def running() -> Iterator[Server]:
    """A server for one benchmark.

    Raises:
        Unavailable: none can be started here.
    """
    try:
        server = Server(options="", on_disk=True)
    except NoPostgres as reason:
        raise Unavailable(f"no Postgres server can be started: {reason}") from None
    try:
        yield server
    finally:
        server.remove()


def postgres_steps(scale: Scale) -> Iterator[Line]:
    with running() as server:
        pairs = [asyncio.run(_against_rows(server, scale.of(FLOWS))) for _ in range(scale.repeats)]
        target = Target(bound="at least", limit=1 / 10)
        yield compared("postgres-steps", pairs, of="rows in Postgres", unit="steps/s", target=target)
        trips = asyncio.run(_round_trips(server, scale.of(FLOWS)))
        yield plain("postgres-round-trips", [trips], unit="round trips/batch", target=Target(bound="at most", limit=1))


async def _against_rows(server: Server, flows: int) -> Pair:
    dsn = await server.database()
    async with app_over(PostgresStorage(dsn)) as app:
        await warmed(app)
        begun = time.perf_counter()
        await each(lambda steps: app.runtime.start(ticks, steps), [STEPS] * flows, concurrency=CONCURRENCY)
        rate = flows * STEPS / (time.perf_counter() - begun)
    return Pair(rate, await rows_per_second(dsn))


async def rows_per_second(dsn: str) -> float:
    """Insert the rows of a store into a table made like its own, `GROUP` in each transaction; return how many a second."""
    raw = await asyncpg.connect(dsn)
    try:
        rows = await raw.fetch(_ROWS)
        await raw.execute(_FLOOR_TABLE)
        insert = await raw.prepare(_INSERT)
        batches = [_columns(rows[first : first + GROUP]) for first in range(0, len(rows), GROUP)]
        begun = time.perf_counter()
        for batch in batches:
            await insert.fetch(*batch)
        return len(rows) / (time.perf_counter() - begun)
    finally:
        await raw.close()


def _columns(rows: Sequence[Any]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


async def _round_trips(server: Server, flows: int) -> float:
    """Return how often the network is crossed for each batch that such runs write: they are written again, and counted."""
    recorder = Recorder(await server.database())
    async with app_over(recorder) as app:
        await each(lambda steps: app.runtime.start(ticks, steps), [STEPS] * flows, concurrency=CONCURRENCY)
    async with Pooler(server.home) as between:
        store = PostgresStorage(between.dsn(await server.database()))
        first, *batches = recorder.batches
        await store.append(first)
        before = between.round_trips
        for batch in batches:
            results = await store.append(batch)
            assert all(isinstance(result, Appended) for result in results)
        await store.close()
        return (between.round_trips - before) / len(batches)


class Recorder(PostgresStorage):
    """The store, and the batches that it was given."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.batches: list[Sequence[Append]] = []

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        self.batches.append(batch)
        return await super().append(batch)


def postgres_cold_resume(scale: Scale) -> Iterator[Line]:
    with running() as server:
        dsn = asyncio.run(_parked(server, scale.of(10_000)))
        pairs = [_in_a_new_process(dsn) for _ in range(scale.repeats)]
    target = Target(bound="at most", limit=15)
    yield compared("postgres-cold-resume", pairs, of="decode", unit="ms", target=target)


async def _parked(server: Server, count: int) -> str:
    dsn = await server.database()
    async with app_over(PostgresStorage(dsn), write_behind=True) as app:
        outcome = await app.runtime.start(gated, count, id=RUN)
        assert outcome.status == "suspended"
    return dsn


def _in_a_new_process(dsn: str) -> Pair:
    command = [sys.executable, "-m", __name__, dsn]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    resumed, decoded = json.loads(done.stdout)
    return Pair(resumed * 1000, decoded * 1000)


async def _resume_seconds(dsn: str) -> float:
    app_over(PostgresStorage(dsn))  # loads what is imported when it is first used: not part of the figure
    begun = time.perf_counter()
    async with app_over(PostgresStorage(dsn)) as app:
        outcome = await app.runtime.resume(RUN)
        took = time.perf_counter() - begun
    assert outcome.status == "suspended"
    return took


async def _texts(dsn: str) -> list[bytes]:
    raw = await asyncpg.connect(dsn)
    try:
        return [text for row in await raw.fetch(_ROWS) for text in row[4:] if text]
    finally:
        await raw.close()


def _main(dsn: str) -> None:
    took = asyncio.run(_resume_seconds(dsn))
    texts = asyncio.run(_texts(dsn))
    gc.collect()
    print(json.dumps([took, decode_seconds(texts)]))


if __name__ == "__main__":
    _main(sys.argv[1])
