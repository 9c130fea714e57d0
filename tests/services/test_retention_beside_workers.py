"""Half of a large store is deleted while two workers go on with what they do."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from loom.devtools.conformance.event_trim import DONE
from loom.plugins.sqlite import SqliteStorage
from loom.plugins.sqlite.location import is_postgres
from loom.spi.event_store import ExecutionQuery
from tests.plugins.sqlite.processes import ROOT
from tests.retained import fill
from tests.services import labourer

YOUNG = replace(DONE, updated_at=1 << 50)


@dataclass
class Figures:
    """How many runs the workers ended in how many seconds: before, during and after the pass."""

    ended: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def rate(self, phase: str) -> float:
        return self.ended[phase] / self.seconds[phase]

    def __str__(self) -> str:
        rates = ", ".join(f"{self.rate(phase):.0f} runs/s {phase}" for phase in self.ended)
        return f"{rates}; the pass took {self.seconds['during']:.1f} s"


@contextlib.contextmanager
def workers(url: str) -> Iterator[list[str]]:
    """Have two workers on the store; the list is what they complained of, once they are no more."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", labourer.__name__, url],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    complaints: list[str] = []
    try:
        yield complaints
    finally:
        for process in processes:
            process.kill()
            said, _ = process.communicate()
            complaints += said.splitlines()


class Jobs:
    """Work for the workers: there is always some, until it is enough."""

    def __init__(self, store: Any, url: str, *, at_hand: int = 300) -> None:
        self._store, self._url, self._at_hand = store, url, at_hand
        self.begun = 0
        self._is_enough = False

    async def open(self) -> int:
        return len(await self._store.find(ExecutionQuery(ended=False, flows=["job"], limit=10_000)))

    async def ended(self) -> int:
        return self.begun - await self.open()

    async def until(self, ended: int) -> None:
        while await self.ended() < ended:
            await asyncio.sleep(0.02)

    async def feed(self) -> None:
        async with labourer.app_on(self._url) as app:
            while not self._is_enough:
                if await self.open() < self._at_hand:
                    numbers = range(self.begun, self.begun + self._at_hand // 3)
                    await asyncio.gather(*(app.runtime.enqueue("job", n, id=f"job-{n:06}") for n in numbers))
                    self.begun += self._at_hand // 3
                await asyncio.sleep(0.01)

    async def finish(self, feeding: asyncio.Task[None]) -> None:
        self._is_enough = True
        await feeding
        await self.until(self.begun)


async def beside_workers(store: Any, url: str, *, young: int, jobs: int) -> Figures:
    """Have workers work while the command makes its pass, and return how fast they were; *jobs* before it and after it."""
    figures, work = Figures(), Jobs(store, url)

    async def phase(name: str, waiting: Coroutine[Any, Any, None]) -> None:
        before, began = await work.ended(), time.monotonic()
        await waiting
        figures.seconds[name] = time.monotonic() - began
        figures.ended[name] = await work.ended() - before

    feeding = asyncio.create_task(work.feed())
    with workers(url) as complaints:
        await work.until(1)
        await phase("before", work.until(jobs))
        await phase("during", command(url))
        await phase("after", work.until(await work.ended() + jobs))
        await work.finish(feeding)
    assert complaints == []
    rows = await store.find(ExecutionQuery(limit=1_000_000))
    assert len([row for row in rows if row.index.flow == DONE.flow]) == young
    statuses = [row.index.status for row in rows if row.index.flow == "job"]
    assert statuses == ["completed"] * work.begun
    return figures


async def command(url: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "loom_cli", "retention", "run", "--ttl", "1d", "--store", url, "--json"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, (out, err)


async def half(url: str, count: int) -> Any:
    """Return a store of *count* runs that have ended, half of them long ago."""
    from loom.plugins.postgres import PostgresStorage

    store: Any = PostgresStorage(url) if is_postgres(url) else SqliteStorage(url)
    await fill(store, count // 2, events=8, name="old")
    await fill(store, count // 2, events=8, name="young", index=YOUNG)
    return store


@pytest.mark.proves("CLI-17")
async def test_workers_go_on_while_half_of_a_store_is_deleted(tmp_path: Path) -> None:
    url = str(tmp_path / "loom.db")
    store = await half(url, 1_000)

    figures = await beside_workers(store, url, young=500, jobs=100)

    assert figures.ended["during"] > 0

    await store.close()


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_workers_go_on_while_fifty_thousand_runs_are_deleted(tmp_path: Path) -> None:
    url = str(tmp_path / "loom.db")
    store = await half(url, 100_000)

    figures = await beside_workers(store, url, young=50_000, jobs=3_000)

    print(figures)  # noqa: T201
    assert figures.rate("during") > figures.rate("after") / 4
    await store.close()
