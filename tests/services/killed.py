"""Compactions that are killed: a store with runs of many kinds, the command in a process of its own, and what has to hold afterwards."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from loom.core.ids import ExecutionId
from loom.driving.runtime import WorkflowRuntime
from loom.lenses.folding import state_digest
from loom.services.archived import read_lane_with_archive
from loom.spi.archive_store import ArchiveStore
from loom.spi.event_store import EventRecord, ExecutionQuery, Lane, Request, Storage
from loom.spi.memory import MemoryStorage
from tests.kernel.running import runtime
from tests.plugins.sqlite.processes import ROOT
from tests.services import driving_many
from tests.services.compacted import compacted, here, many, row_of, told

RUNS: Final = 10
STEPS: Final = 80
LONG: Final = 600
RESULT: Final = sum(range(STEPS)) + 2


class Run(NamedTuple):
    """What a run was before it was compacted: its log, its lane, and the name of its state."""

    log: list[EventRecord]
    lane: list[Request]
    digest: str


def over(storage: Storage) -> WorkflowRuntime:
    """Return a runtime on *storage*."""
    return runtime(many, storage=storage, write_behind=True)


async def filled(storage: Storage) -> Mapping[str, Run]:
    """Write runs, every third of which has ended, and return what they are."""
    driver = over(storage)
    for number in range(RUNS):
        name = f"run-{number}"
        await driver.start(many, STEPS, id=name)
        for message in range(2 if number % 3 == 0 else 1):
            await driver.send(name, "more", 1, key=f"more-{message}")
        await driver.send(name, "more" if number % 3 else "unread", 1, drive=False) if number % 3 else None
    return await seen(storage, MemoryStorage())


async def seen(storage: Storage, archive: ArchiveStore) -> Mapping[str, Run]:
    """Return what the runs are, as both stores tell it."""
    rows = await storage.find(ExecutionQuery())
    return {row.execution_id: await _seen(storage, archive, row.execution_id) for row in rows}


async def _seen(storage: Storage, archive: ArchiveStore, name: ExecutionId) -> Run:
    lane = Lane(name, (await row_of(storage, name)).incarnation)
    requests = [request async for request in read_lane_with_archive(storage, archive, lane)]
    return Run(await told(storage, archive, name), requests, state_digest(await over(storage).load_state(name)))


def killed(store: str, archive: str, seed: int) -> int:
    """Have the command compact all runs, kill it at a moment of the *seed*'s, and return how many runs it said were done."""
    chance = random.Random(seed)
    command = ["compact", "--where", "flow=many", "--yes", "--json", "--store", store, "--archive", archive]
    process = subprocess.Popen(
        [sys.executable, "-m", "loom_cli", *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    wanted = chance.randrange(RUNS)
    for _ in range(wanted):
        assert process.stdout.readline(), process.communicate()
    time.sleep(chance.uniform(0, 0.02) if wanted else chance.uniform(0.2, 0.9))  # somewhere in the next run
    process.kill()
    rest, _ = process.communicate()
    return wanted + len(rest.splitlines())


async def hold(storage: Storage, archive: ArchiveStore, before: Mapping[str, Run], *, done: int, seed: int) -> None:
    """Fail where a run is not what it was, or does not come to what it comes to."""
    at_the_kill = await seen(storage, archive)
    assert at_the_kill == before, f"seed {seed}"
    snapshots: Any = storage
    with_checkpoint = [head for head in await snapshots.executions_with_snapshots() if head.is_checkpoint]
    assert len(with_checkpoint) >= done, f"seed {seed}"
    for name in before:
        await compacted(storage, archive, name)
    assert await seen(storage, archive) == before, f"seed {seed}"
    for number in range(RUNS):
        outcome = await over(storage).resume(f"run-{number}") if number % 3 else None
        assert outcome is None or outcome.result() == RESULT, f"seed {seed}"


async def compacted_while_driven(storage: Storage, archive: ArchiveStore, url: str) -> int:
    """Compact a run again and again while another process drives it; return how often something was moved."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", driving_many.__name__, url, "long", str(LONG)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    moved = 0
    while process.returncode is None:
        if await storage.row(ExecutionId("long")) is not None:
            moved += (await compacted(storage, archive, "long")).events > 0
        await asyncio.sleep(0.002)
    out, errors = await process.communicate()
    assert (out.decode(), errors.decode()) == (f"{sum(range(LONG))}\n", "")
    await compacted(storage, archive, "long")
    log = await told(storage, archive, "long")
    assert [record.sequence for record in log] == list(range(2 * LONG + 2))
    assert len(await here(storage, "long")) == 2
    return moved
