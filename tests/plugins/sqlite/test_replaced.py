"""A database that is taken away while a run is driven, a process that was forked, and logs with holes."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.kernel.errors import LogCorrupt
from loom.spi.errors import StoreCorrupt, StoreUnavailable

FORKED = """
import asyncio, os, sys
import loom

@loom.flow
async def flow(ctx: loom.Context) -> int:
    return await ctx.run("one", int)

app = loom.define_config(flows=[flow], storage=loom.sqlite_storage(sys.argv[1]))
asyncio.run(app.runtime.start(flow, id="parent"))
child = os.fork()
if child == 0:
    print(asyncio.run(app.runtime.start(flow, id="child")).status, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


async def test_no_effect_runs_once_the_database_is_gone(tmp_path: Path) -> None:
    file, ran = tmp_path / "loom.db", []

    @loom.step
    async def work(n: int) -> int:
        ran.append(n)
        if n == 1:
            file.rename(tmp_path / "elsewhere.db")
        return n

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        for n in range(5):
            await ctx.run(work, n)

    app = loom.define_config(flows=[flow], storage=loom.sqlite_storage(file))

    with pytest.raises(StoreUnavailable, match="moved, deleted or replaced"):
        await app.runtime.start(flow)

    assert ran == [0, 1]
    await app.close()


def test_a_process_that_was_forked_opens_the_store_anew(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKED, str(tmp_path / "loom.db")]

    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert done.stdout == "completed\n", done.stderr


async def test_a_log_with_a_hole_is_corrupt_and_is_not_driven(tmp_path: Path) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> int:
        return await ctx.suspend("go", expects=int)

    file = tmp_path / "loom.db"
    app = loom.define_config(flows=[flow], storage=loom.sqlite_storage(file))
    await app.runtime.start(flow, id="g")
    await app.close()
    with sqlite3.connect(file) as raw:
        raw.execute("DELETE FROM events WHERE sequence = 2")
    raw.close()

    with pytest.raises(LogCorrupt, match="should hold 3 events"):
        await app.runtime.resume("g", answer=1)

    await app.close()


def test_a_pipe_is_no_store_and_nothing_is_made_beside_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    with pytest.raises(StoreCorrupt, match="no file"):
        asyncio.run(loom.sqlite_storage(pipe).head(ExecutionId("x")))

    assert list(tmp_path.iterdir()) == [pipe]
