"""What workers do: timers due at once, two processes on one file, leases, memory, and how long a new run waits for a busy one.

As a script it is a worker process: `python -m tests.benchmarks.working DATABASE` works until idle once a line comes.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import loom
from loom.spi.clock import Clock, VirtualClock
from loom.spi.event_store import ExecutionQuery
from tests.benchmarks.floors import rows_per_second, written
from tests.benchmarks.flows import each, gated, tick, ticks
from tests.benchmarks.report import Line, Pair, Target, compared, plain
from tests.benchmarks.scale import Scale, folder

ROOT: Final = Path(__file__).resolve().parents[2]
CONCURRENCY: Final = 50
LEASE_CALLS: Final = ("claim", "renew", "leave", "release", "drivers")


@loom.flow
async def napping(ctx: loom.Context) -> None:
    await ctx.sleep(3_600)


@loom.flow
async def urgent(ctx: loom.Context) -> None:
    await ctx.run(tick, 1)


def make_app(database: Path, clock: Clock | None = None) -> loom.LoomApp:
    storage: Any = loom.sqlite_storage(database)
    options: dict[str, Any] = {}
    if clock is not None:
        storage._clock = options["clock"] = clock
    return loom.define_config(flows=[napping, urgent, ticks, gated], storage=storage, **options)


def timers_due(scale: Scale) -> Iterator[Line]:
    pairs = []
    for _ in range(min(3, scale.repeats)):
        with folder() as at:
            fired = asyncio.run(_fired(at / "run.db", scale.of(10_000)))
            pairs.append(Pair(fired, rows_per_second(written(at / "run.db"), at / "floor.db")))
    target = Target(bound="at least", limit=1 / 30)
    yield compared("timers-due", pairs, of="rows", unit="timers/s", target=target)


async def _fired(database: Path, count: int) -> float:
    """Return how many timers a second one worker fires, and ends the runs of, when all are due at once."""
    clock = VirtualClock()
    async with make_app(database, clock) as app:
        await each(lambda _: app.runtime.start(napping, linger_s=0), range(count), concurrency=CONCURRENCY)
        clock.advance(3_600_000)
        begun = time.perf_counter()
        await app.worker(until_idle=True).run()
        took = time.perf_counter() - begun
        assert len(await app.runtime.find(ExecutionQuery(statuses=["completed"], limit=count))) == count
        return count / took


def workers_two(scale: Scale) -> Iterator[Line]:
    pairs = [Pair(_worked(scale.of(3_000), 2), _worked(scale.of(3_000), 1)) for _ in range(min(3, scale.repeats))]
    target = Target(bound="at least", limit=0.8)
    yield compared("workers-two", pairs, of="one worker", unit="runs/s", target=target)


def _worked(runs: int, processes: int) -> float:
    """Return the runs of five steps a second that so many worker processes bring to their end on one file."""
    with folder() as at:
        asyncio.run(_enqueue(at / "run.db", runs))
        workers = [_process(at / "run.db") for _ in range(processes)]
        begun = time.perf_counter()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.close()
        for worker in workers:
            with worker:  # which closes its pipes
                assert worker.wait() == 0
        return runs / (time.perf_counter() - begun)


async def _enqueue(database: Path, runs: int) -> None:
    async with make_app(database) as app:
        await each(lambda steps: app.runtime.enqueue(ticks, steps), [5] * runs, concurrency=CONCURRENCY)


def _process(database: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.benchmarks.working", str(database)]
    worker = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    return worker


def lease_free(scale: Scale) -> Iterator[Line]:
    count = asyncio.run(_lease_calls(scale.of(200)))
    yield plain("lease-free", [count], unit="transactions", target=Target(bound="at most", limit=0))


async def _lease_calls(runs: int) -> float:
    """Return how many transactions runs that end in one drive make for their leases alone."""
    with folder() as at:
        async with make_app(at / "run.db") as app:
            calls = _counted(app.storage)
            await each(lambda steps: app.runtime.start(ticks, steps), [5] * runs, concurrency=CONCURRENCY)
            return len(calls)


def _counted(storage: Any) -> list[str]:
    """Have each call of *storage* that is about leases noted from here on, and return the list of their names."""
    calls: list[str] = []

    def counting(name: str) -> Any:
        call = getattr(storage, name)

        async def counted(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            return await call(*arguments, **options)

        return counted

    for name in LEASE_CALLS:
        setattr(storage, name, counting(name))
    return calls


def worker_memory(scale: Scale) -> Iterator[Line]:
    held, calls = asyncio.run(_worker_memory(scale.of(10_000)))
    yield plain("worker-memory", [held], unit="bytes/run", target=Target(bound="at most", limit=100))
    yield plain("worker-idle", [calls], unit="transactions/s", target=Target(bound="at most", limit=10))


async def _worker_memory(count: int) -> tuple[float, float]:
    """Return what a worker holds for each run that it has parked, and what it asks of the store when nothing is due."""
    with folder() as at:
        async with make_app(at / "run.db") as app:
            worker = app.worker()
            working = asyncio.create_task(worker.run())
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
            calls = _counted(app.storage)
            await asyncio.sleep(2)
            asked = len(calls) / 2
            worker.stop()
            await working
    return (after - before) / count, asked


async def _park(app: loom.LoomApp, count: int) -> None:
    """Enqueue runs, and return once the worker has parked all of them at their gates."""
    await each(lambda _: app.runtime.enqueue(gated, 1), range(count), concurrency=CONCURRENCY)
    while True:
        waiting = await app.runtime.find(ExecutionQuery(due_before=1 << 60, ended=False, limit=1))
        held = await app.storage.drivers()
        if not waiting and not held:
            return
        await asyncio.sleep(0.05)


def pick_up(scale: Scale) -> Iterator[Line]:
    seconds = asyncio.run(_picked_up(scale.of(10_000)))
    yield plain("pick-up-loaded", [statistics.median(seconds) * 1000], unit="ms")
    yield plain("pick-up-loaded-max", [max(seconds) * 1000], unit="ms")


async def _picked_up(backlog: int) -> list[float]:
    """Return how long new runs of another flow take from being enqueued to their end, beside a backlog of timers due."""
    clock = VirtualClock()
    with folder() as at:
        async with make_app(at / "run.db", clock) as app:
            await each(lambda _: app.runtime.start(napping, linger_s=0), range(backlog), concurrency=CONCURRENCY)
            clock.advance(3_600_000)
            worker = app.worker()
            working = asyncio.create_task(worker.run())
            seconds = []
            for number in range(20):
                begun = time.perf_counter()
                await app.runtime.enqueue(urgent, id=f"urgent-{number}")
                await app.runtime.wait(f"urgent-{number}")
                seconds.append(time.perf_counter() - begun)
            worker.stop()
            app.runtime.interrupt()
            await working
    return seconds


async def _work(database: Path) -> None:
    async with make_app(database) as app:
        await app.runtime.start(ticks, 5)  # the store is open, the code read, the codecs compiled
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        await app.worker(until_idle=True).run()


if __name__ == "__main__":
    asyncio.run(_work(Path(sys.argv[1])))
