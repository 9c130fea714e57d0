"""A sweep that is killed at any moment, or that others work beside, leaves every run whole and no content lost that a log needs."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

import loom
from loom.core.ids import ContentRef, ExecutionId, Incarnation
from loom.plugins.files import FileContent
from loom.plugins.sqlite import SqliteContent, SqliteStorage
from loom.services.sweeping import ContentSweep
from loom.spi.clock import VirtualClock
from loom.spi.content_store import Citer, address_of
from tests.plugins.putter import faults
from tests.plugins.sqlite.processes import ROOT
from tests.services import sweeper

DAY: Final = sweeper.DAY_MS
RUNS: Final = 30
OLD_DAYS, YOUNG_DAYS = 100, 3


@loom.step(claim_check=loom.ClaimCheck(over_bytes=0))
async def fetch(name: str) -> bytes:
    return f"{name} ".encode() * 3_000


@loom.step
async def read(step: loom.StepContext, page: loom.Claimed[bytes]) -> int:
    return len(await step.content.get(page))


@loom.flow
async def waits(ctx: loom.Context, name: str) -> int:
    page = await ctx.run(fetch, name)
    await ctx.suspend("go on")
    return await ctx.run(read, page)


@loom.flow
async def ends(ctx: loom.Context, name: str) -> int:
    return await ctx.run(read, await ctx.run(fetch, name))


FLOWS: Final[list[Any]] = [waits, ends]


def contents_at(kind: str, folder: Path, clock: VirtualClock | None = None) -> Any:
    made = {"files": FileContent, "sqlite": SqliteContent}[kind]
    return made(place(kind, folder), clock=clock)


def place(kind: str, folder: Path) -> Path:
    return folder / ("contents" if kind == "files" else "loom.db")


async def filled(kind: str, folder: Path) -> tuple[set[ContentRef], set[ContentRef]]:
    """Make a store whose runs began long ago or lately, and have ended or wait; return which contents may go, and which stay."""
    now, going, staying = time.time_ns() // 1_000_000, set[ContentRef](), set[ContentRef]()
    for days in (OLD_DAYS, YOUNG_DAYS):
        clock = VirtualClock(now - days * DAY)
        logs, contents = SqliteStorage(folder / "loom.db", clock=clock), contents_at(kind, folder, clock)
        app = loom.define_config(flows=FLOWS, storage=logs, content=contents, clock=clock)
        async with app:
            for number in range(RUNS):
                flow, name = FLOWS[number % 2], f"{days} {number}"
                await app.runtime.start(flow, name, id=f"{flow.id}-{days}-{number}")
                is_old = days == OLD_DAYS and flow is ends
                (going if is_old else staying).add(address_of(f"{name} ".encode() * 3_000))
    return going, staying


def killed(kind: str, folder: Path, seed: int) -> int:
    """Have contents swept by a process that is killed at a moment of the *seed*'s; return how many it said were removed."""
    chance = random.Random(seed)
    process = subprocess.Popen(
        [sys.executable, "-m", sweeper.__name__, kind, str(folder / "loom.db"), str(place(kind, folder))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(chance.randint(1, 2 * RUNS // sweeper.PAGE))]
    time.sleep(chance.uniform(0, 0.01))  # somewhere in a page, or between two
    process.kill()
    rest, errors = process.communicate()
    assert not errors, errors
    return int([*said, *rest.splitlines()][-1].replace("open", "0"))


@pytest.mark.proves("CLI-18", "LIF-16")
@pytest.mark.parametrize("kind", ["files", "sqlite"])
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 51))])
async def test_whatever_the_moment_every_run_is_whole_and_no_content_is_lost(
    tmp_path: Path, seed: int, kind: str
) -> None:
    going, staying = await filled(kind, tmp_path)

    said = killed(kind, tmp_path, seed)

    logs, contents = SqliteStorage(tmp_path / "loom.db"), contents_at(kind, tmp_path)
    left = {content.ref for content in await contents.contents(limit=10_000)}
    assert staying <= left <= staying | going, f"seed {seed}"
    assert len(going - left) >= said
    assert await faults(contents, sorted(staying)) == []
    app = loom.define_config(flows=FLOWS, storage=logs, content=contents)
    async with app:
        for run in await logs.ids():
            state = await app.runtime.load_state(run)
            if state.status == "suspended":
                assert (await app.runtime.resume(run, answer=None)).status == "completed"
            else:
                assert state.status == "completed"
        tally = await ContentSweep(contents, logs, ttl_ms=30 * DAY).run()
        assert tally.removed == len(going & left)
        assert {content.ref for content in await contents.contents(limit=10_000)} == staying


@pytest.mark.proves("CLI-18")
@pytest.mark.parametrize("kind", ["files", "sqlite"])
async def test_what_is_put_again_while_another_process_sweeps_is_not_lost(tmp_path: Path, kind: str, seed: int) -> None:
    clock = VirtualClock(time.time_ns() // 1_000_000 - OLD_DAYS * DAY)
    old, pages = contents_at(kind, tmp_path, clock), [b"page %d" % number for number in range(60)]
    for page in pages:
        await old.put(page)
    await old.close()
    logs = SqliteStorage(tmp_path / "loom.db")
    await logs.open()
    random.Random(seed).shuffle(pages)
    command = [sys.executable, "-m", sweeper.__name__, kind, str(tmp_path / "loom.db"), str(place(kind, tmp_path))]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()  # it is open, and begins

    contents = contents_at(kind, tmp_path)
    refs = [await contents.put(page) for page in pages]
    await contents.cite([(ref, Citer(ExecutionId("r1"), Incarnation(1))) for ref in refs])
    await process.communicate()

    assert process.returncode == 0
    assert await faults(contents, refs) == []
    assert set(await contents.get_many(refs)) == set(refs)
    await contents.close()
    await logs.close()
