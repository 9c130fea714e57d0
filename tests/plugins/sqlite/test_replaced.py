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
from loom.devtools.conformance.logs import first
from loom.kernel.errors import LogCorrupt
from loom.plugins.sqlite import SqliteStorage
from loom.plugins.sqlite.schema import SCHEMA_VERSION
from loom.spi.errors import StoreCorrupt, StoreNewer, StoreNotFound, StoreUnavailable
from loom.spi.event_store import ExecutionQuery

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


async def test_who_only_looks_is_told_that_the_database_is_gone_and_sees_the_one_that_is_put_there(
    tmp_path: Path,
) -> None:
    file = tmp_path / "loom.db"
    for name in ("first", "second"):
        storage = SqliteStorage(tmp_path / f"{name}.db")
        await storage.append([first(ExecutionId(name), b"0")])
        await storage.close()
    (tmp_path / "first.db").rename(file)
    reader = SqliteStorage(file, readonly=True)
    assert [row.execution_id for row in await reader.find(ExecutionQuery())] == ["first"]

    file.unlink()
    with pytest.raises(StoreNotFound):
        await reader.find(ExecutionQuery())
    (tmp_path / "second.db").rename(file)

    assert [row.execution_id for row in await reader.find(ExecutionQuery())] == ["second"]
    await reader.close()


async def test_who_only_looks_is_told_that_a_newer_loom_has_migrated_the_database(tmp_path: Path) -> None:
    file = tmp_path / "loom.db"
    writer, reader = SqliteStorage(file), SqliteStorage(file, readonly=True)
    await writer.append([first(ExecutionId("r"), b"0")])
    await reader.find(ExecutionQuery())
    raw = sqlite3.connect(file)
    raw.executescript("CREATE TABLE of_later (a); PRAGMA user_version = 999")

    with pytest.raises(StoreNewer, match="version 999"):
        await reader.find(ExecutionQuery())

    raw.executescript(f"DROP TABLE of_later; PRAGMA user_version = {SCHEMA_VERSION}")
    raw.close()
    assert len(await reader.find(ExecutionQuery())) == 1
    await reader.close()
    await writer.close()


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
