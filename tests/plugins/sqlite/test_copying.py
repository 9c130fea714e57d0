"""Copying a database while others write to it, and what becomes of one that is copied without asking SQLite."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import REFUND, after, appended, first
from loom.plugins.files import FileContent
from loom.plugins.sqlite import SqliteStorage, copying
from loom.plugins.sqlite.copying import CONTENT_SUFFIX, copy_database
from loom.plugins.sqlite.schema import SCHEMA_VERSION
from loom.spi.errors import StoreCorrupt, StoreNewer, StoreNotFound, StoreUnavailable
from loom.spi.event_store import ExecutionQuery
from tests.copies import Logs, is_earlier, logs_of
from tests.plugins.sqlite.processes import ROOT
from tests.services import labourer
from tests.services.test_retention_beside_workers import Jobs, workers


async def logs_in(path: Path) -> Logs:
    store = SqliteStorage(path)
    try:
        return await logs_of(store)
    finally:
        await store.close()


async def enqueued(path: Path, count: int) -> None:
    async with labourer.app_on(str(path)) as app:
        await asyncio.gather(*(app.runtime.enqueue("job", n, id=f"job-{n:04}") for n in range(count)))


async def finished(path: Path) -> Logs:
    """Have all runs of a database driven to their end, and return their logs."""
    async with labourer.app_on(str(path)) as app:
        await app.worker(until_idle=True).run()
        while any(not row.index.ended for row in await app.storage.find(ExecutionQuery(limit=10_000))):
            await app.worker(until_idle=True, poll_s=0.05).run()  # what another worker held, once its lease is over
    return await logs_in(path)


# Under load


async def test_a_copy_under_load_is_of_one_moment_and_goes_on_from_there(tmp_path: Path) -> None:
    path, taken = tmp_path / "loom.db", [tmp_path / f"copy-{number}.db" for number in range(4)]
    store = SqliteStorage(path)
    await store.open()
    work = Jobs(store, str(path), at_hand=60)
    feeding = asyncio.create_task(work.feed())
    with workers(str(path)) as complaints:
        for number, copy in enumerate(taken):
            await work.until(1 + 15 * number)
            await asyncio.to_thread(copy_database, path, copy)
        await work.finish(feeding)
    await store.close()

    original = await logs_in(path)
    copies = [await logs_in(each) for each in taken]
    assert complaints == []
    sizes = [sum(map(len, copy.values())) for copy in (*copies, original)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    assert all(is_earlier(copy, original) for copy in copies)
    gone_on = await finished(taken[0])
    assert is_earlier(copies[0], gone_on)
    assert {log[-1].type for log in gone_on.values()} == {"EXECUTION_COMPLETED"}


async def test_files_that_are_copied_one_by_one_may_be_of_two_moments(tmp_path: Path) -> None:
    """What `cp` does when a checkpoint comes between the database and its write-ahead log: the copy is wrong, or broken."""
    path, copy = tmp_path / "loom.db", tmp_path / "copy" / "loom.db"
    copy.parent.mkdir()
    store = SqliteStorage(path)
    head = await appended(store, first(REFUND, b"0"))
    for number in range(1, 40):
        head = await appended(store, after(head, REFUND, b"%d" % number * 500))

    shutil.copy(path, copy)
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    await appended(store, first(ExecutionId("another"), b"1"))
    shutil.copy(f"{path}-wal", f"{copy}-wal")

    assert not await _holds(copy, {REFUND: 40, ExecutionId("another"): 1})
    await store.close()


async def _holds(path: Path, lengths: dict[ExecutionId, int]) -> bool:
    """Whether the database is sound and holds logs of these lengths."""
    store = SqliteStorage(path, readonly=True)
    try:
        return all([len(await store.read(name)) == length for name, length in lengths.items()])
    except (StoreCorrupt, StoreUnavailable, StoreNotFound):
        return False
    finally:
        await store.close()


async def test_files_that_nobody_has_open_may_be_copied(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    await enqueued(path, 3)

    shutil.copy(path, tmp_path / "copy.db")

    assert await logs_in(tmp_path / "copy.db") == await logs_in(path)
    assert "loom.db-wal" not in _names(tmp_path)


GUIDE = (ROOT / "docs" / "guide" / "backups.md").read_text("utf-8")
COMMANDS = re.findall(r"^sqlite3 -readonly .loom/loom.db \"(.*)\"$", GUIDE, re.MULTILINE)


def test_the_guide_has_the_two_commands_of_sqlite() -> None:
    assert [line.split()[0] for line in COMMANDS] == [".backup", "VACUUM"]


@pytest.mark.parametrize("statement", COMMANDS)
async def test_the_tools_of_sqlite_copy_it_too(tmp_path: Path, statement: str) -> None:
    if shutil.which("sqlite3") is None:
        pytest.skip("THE COMMANDS OF SQLITE ARE NOT TESTED: there is no sqlite3 on this machine")
    path, copy = tmp_path / "loom.db", tmp_path / "copy.db"
    store = SqliteStorage(path)
    head = await appended(store, first(REFUND, b"0"))

    done = await asyncio.to_thread(_sqlite3, path, statement.replace("loom-copy.db", str(copy)))
    await appended(store, after(head, REFUND, b"1"))
    await store.close()

    assert (done.returncode, done.stderr) == (0, "")
    copied = SqliteStorage(copy)
    [record] = await copied.read(REFUND)
    again = await appended(copied, first(ExecutionId("new")))
    assert record.payload == b"0"
    assert again.incarnation > head.incarnation
    await copied.close()


def _names(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


def _sqlite3(path: Path, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sqlite3", "-readonly", path, command], capture_output=True, text=True, check=False)


# What is in it


@loom.step(claim_check=loom.ClaimCheck())
async def scan(page: str) -> bytes:
    return page.encode() * 100_000


@loom.flow
async def archive(ctx: loom.Context, page: str) -> Any:
    return await ctx.run(scan, page)


async def test_the_contents_beside_the_database_are_copied_with_it(tmp_path: Path) -> None:
    path, copy = tmp_path / "loom.db", tmp_path / "copy.db"
    async with loom.define_config(flows=[archive], storage=loom.sqlite_storage(path)) as app:
        await app.runtime.start("archive", "a", id="a-1")
        (path.with_name(path.name + CONTENT_SUFFIX) / "incoming" / "half").write_bytes(b"not yet")

        copied = copy_database(path, copy)

    assert (copied.executions, copied.contents) == (1, 1)
    assert copied.bytes == copy.stat().st_size
    assert _contents(copy) == {name: data for name, data in _contents(path).items() if "incoming" not in name}
    content = FileContent(copy.with_name(copy.name + CONTENT_SUFFIX))
    [found] = await content.contents()
    assert found.size == 100_000
    assert len(await content.citations([found.ref])) == 1
    await content.close()


def _contents(database: Path) -> dict[str, bytes]:
    folder = database.with_name(database.name + CONTENT_SUFFIX)
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != "lock")
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


async def test_a_database_of_an_earlier_schema_is_copied_as_it_is(tmp_path: Path) -> None:
    path, copy = tmp_path / "loom.db", tmp_path / "copy.db"
    await enqueued(path, 1)
    _pragma(path, f"user_version = {SCHEMA_VERSION - 1}")

    copy_database(path, copy)

    with contextlib.closing(sqlite3.connect(copy)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION - 1,)


def _pragma(path: Path, pragma: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute(f"PRAGMA {pragma}")


# What cannot be copied


async def test_nothing_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    await enqueued(path, 1)
    (tmp_path / "there.db").write_bytes(b"mine")
    (tmp_path / "other.db.content").mkdir()

    for target in ("there.db", "other.db", "no/folder.db"):
        with pytest.raises(InvalidDeclaration):
            copy_database(path, tmp_path / target)

    assert (tmp_path / "there.db").read_bytes() == b"mine"
    assert not (tmp_path / "other.db").exists()


async def test_a_link_that_leads_nowhere_is_there(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    await enqueued(path, 1)
    (tmp_path / "copy.db").symlink_to(tmp_path / "away.db")

    with pytest.raises(InvalidDeclaration, match="is there already"):
        copy_database(path, tmp_path / "copy.db")

    assert [name for name in _names(tmp_path) if "away" in name] == []


async def test_a_copy_that_fails_leaves_nothing_and_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, copy = tmp_path / "loom.db", tmp_path / "copy.db"
    async with loom.define_config(flows=[archive], storage=loom.sqlite_storage(path)) as app:
        await app.runtime.start("archive", "a", id="a-1")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("_copied", "_link"):
        with monkeypatch.context() as patch:
            patch.setattr(copying, name, full)
            with pytest.raises(StoreUnavailable, match="could not be copied"):
                copy_database(path, copy)
        assert _beside(path) == ["loom.db.content"]

    assert copy_database(path, copy).contents == 1
    assert _contents(copy) == _contents(path)


async def test_a_name_that_is_too_long_is_told(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    await enqueued(path, 1)

    with pytest.raises(StoreUnavailable, match="too long"):
        copy_database(path, tmp_path / ("a" * 300))
    with pytest.raises(InvalidDeclaration, match="no folder"):
        copy_database(path, tmp_path / ("a" * 300) / "copy.db")

    assert _beside(path) == []


def _beside(path: Path) -> list[str]:
    """Return what lies beside a database that is none of SQLite's own."""
    return [name for name in _names(path.parent) if name != path.name and not name.startswith(f"{path.name}-")]


async def test_the_contents_are_found_whichever_link_leads_to_the_database(tmp_path: Path) -> None:
    path, link, copy = tmp_path / "disk" / "loom.db", tmp_path / "loom.db", tmp_path / "copy.db"
    path.parent.mkdir()
    link.symlink_to(path)
    async with loom.define_config(flows=[archive], storage=loom.sqlite_storage(link)) as app:
        envelope = (await app.runtime.start("archive", "a", id="a-1")).result()
    store = SqliteStorage(path)
    found = await store.content_store().get_many([envelope.ref])
    await store.close()

    copied = copy_database(link, copy)

    assert (set(found), copied.contents) == ({envelope.ref}, 1)
    assert [name for name in _names(tmp_path) if name.startswith("loom.db")] == ["loom.db"]
    assert {"loom.db", "loom.db.content"} <= set(_names(path.parent))


async def test_who_comes_by_a_link_keeps_the_write_ahead_log_short_and_shares_the_lock(tmp_path: Path) -> None:
    path, link = tmp_path / "disk" / "loom.db", tmp_path / "loom.db"
    path.parent.mkdir()
    link.symlink_to(path)
    store = SqliteStorage(link, checkpoint_bytes=100_000)
    head = await appended(store, first(REFUND, b"0"))
    for number in range(60):
        head = await appended(store, after(head, REFUND, b"%d" % number * 20_000))

    size = path.with_name("loom.db-wal").stat().st_size
    await store.close()

    assert size < 1_200_000  # of 2.4 MB that were written
    assert not link.with_name("loom.db-lock").exists()


async def test_what_is_no_store_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    empty, foreign, newer, torn = (tmp_path / f"{name}.db" for name in ("empty", "foreign", "newer", "torn"))
    empty.touch()
    with contextlib.closing(sqlite3.connect(foreign)) as raw:
        raw.execute("CREATE TABLE mine (a)")
    for path in (newer, torn):
        await enqueued(path, 20)
    _pragma(newer, "user_version = 9999")
    with torn.open("rb+") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(4096 * 4))

    for path, error in [
        (tmp_path / "none.db", StoreNotFound),
        (empty, StoreNotFound),
        (foreign, StoreCorrupt),
        (newer, StoreNewer),
        (torn, StoreCorrupt),
    ]:
        with pytest.raises(error):
            copy_database(path, tmp_path / "copy.db")

    assert [name for name in _names(tmp_path) if "copy" in name] == []


COPYING = """
import sys
from pathlib import Path
from loom.plugins.sqlite import copying

def kept(part, target):
    print("copied", flush=True)
    sys.stdin.read()

copying._name = kept
copying.copy_database(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def test_a_copy_that_is_killed_has_no_name(tmp_path: Path) -> None:
    path, copy = tmp_path / "loom.db", tmp_path / "copy.db"
    asyncio.run(enqueued(path, 1))
    process = subprocess.Popen(
        [sys.executable, "-c", COPYING, path, copy], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "copied\n"

    process.kill()
    process.communicate()

    assert not copy.exists()
    assert copy_database(path, copy).executions == 1
