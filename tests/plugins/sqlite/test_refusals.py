"""What the disk, the file and other processes can refuse: told in words, with nothing lost or half-written."""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from loom.core.errors import InvalidDeclaration
from loom.devtools.conformance.logs import REFUND, after, appended, first, insert, payloads
from loom.plugins.files import FileContent
from loom.plugins.sqlite import SqliteStorage
from loom.plugins.sqlite.contents import SqliteContent
from loom.plugins.sqlite.location import path_of
from loom.plugins.sqlite.schema import APPLICATION_ID
from loom.spi.errors import StoreCorrupt, StoreError, StoreNewer, StoreNotFound, StoreUnavailable
from tests.plugins.sqlite.processes import finish, start

READ_AS_NOBODY = """
import asyncio, os, sys
from loom.devtools.conformance.logs import REFUND, appended, first, payloads
from loom.plugins.sqlite import SqliteStorage
from loom.spi.errors import StoreError

async def main(path, mode):
    store = SqliteStorage(path, readonly=mode == "read", busy_timeout_s=0.2)
    try:
        print(await (payloads(store, REFUND) if mode == "read" else appended(store, first(REFUND, b"2"))))
    except StoreError as error:
        print(error.code, str(path) in str(error), bool(error.hint))

if os.geteuid() == 0:  # after the imports: nobody may not even be able to read Python
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    store = SqliteStorage(tmp_path / "loom.db", busy_timeout_s=0.15)
    yield store
    await store.close()


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Path]:
    """Give a directory that everybody can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


async def test_a_lock_that_is_not_let_go_is_told_after_the_wait(store: SqliteStorage, tmp_path: Path) -> None:
    begun = await appended(store, first(REFUND, b"1"))
    item = after(begun, REFUND, b"2")
    rival = sqlite3.connect(tmp_path / "loom.db", isolation_level=None)
    rival.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailable, match=r"locked for 0\.15 s .*loom\.db"):
        await store.append([item])
    assert await payloads(store, REFUND) == [b"1"]  # reading goes on

    rival.execute("ROLLBACK")
    rival.close()
    assert (await appended(store, item)).length == 2


async def test_a_lock_that_is_let_go_in_time_is_waited_for(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")
    begun = await appended(store, first(REFUND, b"1"))
    rival = sqlite3.connect(tmp_path / "loom.db", isolation_level=None)
    rival.execute("BEGIN IMMEDIATE")

    waiting = asyncio.ensure_future(store.append([after(begun, REFUND, b"2")]))
    await payloads(store, REFUND)
    assert not waiting.done()
    rival.execute("COMMIT")
    rival.close()

    assert await waiting == [type(begun)(begun.incarnation, 2)]
    await store.close()


async def test_a_full_database_is_told_and_takes_nothing_half(store: SqliteStorage) -> None:
    begun = await appended(store, first(REFUND, b"1"))
    item = after(begun, REFUND, *[b"x" * 4000] * 50)
    await _limit_pages(store, 30)

    with pytest.raises(StoreUnavailable, match=r"full.*loom\.db"):
        await store.append([item])
    assert await payloads(store, REFUND) == [b"1"]

    await _limit_pages(store, 1_000_000)
    assert (await appended(store, item)).length == 51


async def test_a_directory_is_no_database(tmp_path: Path) -> None:
    await _refuses(SqliteStorage(tmp_path), StoreCorrupt, "directory")
    await _refuses(SqliteStorage(tmp_path, readonly=True), StoreCorrupt, "directory")


async def test_a_file_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    await _refuses(SqliteStorage(tmp_path / "file" / "loom.db"), StoreUnavailable, "file system")


async def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    path.write_bytes(b"Dear diary, " * 1000)

    await _refuses(SqliteStorage(path), StoreCorrupt, "no SQLite database")
    await _refuses(SqliteStorage(path, readonly=True), StoreCorrupt, "no SQLite database")
    assert path.read_bytes() == b"Dear diary, " * 1000


async def test_a_damaged_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    store = SqliteStorage(path)
    await appended(store, first(REFUND, *[b"x" * 500] * 200))
    await store.close()
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xaa" * (len(content) - 8192))

    with pytest.raises(StoreCorrupt, match=r"damaged.*loom\.db"):
        await payloads(SqliteStorage(path), REFUND)


async def test_another_applications_database_is_not_adopted(tmp_path: Path) -> None:
    path = tmp_path / "places.db"
    _execute(path, "CREATE TABLE bookmarks (url TEXT)")
    before = path.read_bytes()

    await _refuses(SqliteStorage(path), StoreCorrupt, "another application")
    await _refuses(SqliteStorage(path, readonly=True), StoreCorrupt, "another application")
    assert path.read_bytes() == before


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "loom.db"
    _execute(path, f"PRAGMA application_id = {APPLICATION_ID}", "PRAGMA user_version = 99")

    await _refuses(SqliteStorage(path), StoreNewer, "version 99")
    await _refuses(SqliteStorage(path, readonly=True), StoreNewer, "version 99")


async def test_a_reader_makes_nothing(tmp_path: Path) -> None:
    await _refuses(SqliteStorage(tmp_path / "made" / "loom.db", readonly=True), StoreNotFound, "no database")

    assert _names(tmp_path) == []


async def test_a_reader_finds_nothing_in_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "loom.db").touch()

    await _refuses(SqliteStorage(tmp_path / "loom.db", readonly=True), StoreNotFound, "empty")
    assert (tmp_path / "loom.db").stat().st_size == 0


async def test_a_reader_does_not_write(store: SqliteStorage, tmp_path: Path) -> None:
    begun = await appended(store, first(REFUND, b"1"))
    reader = SqliteStorage(tmp_path / "loom.db", readonly=True)

    with pytest.raises(StoreUnavailable, match="read-only"):
        await reader.append([after(begun, REFUND, b"2")])
    with pytest.raises(StoreUnavailable, match="read-only"):
        await reader.insert(REFUND, begun.incarnation, kind="answer", key="", at=1, body=b"")
    assert await payloads(reader, REFUND) == [b"1"]
    await reader.close()


async def test_a_file_that_may_not_be_written_is_told(public: Path) -> None:
    await _closed_store(public / "loom.db")
    _allow(public / "loom.db", 0o444)
    _allow(public, 0o777)

    assert _as_nobody(public / "loom.db", "write") == ["store-unavailable True True"]


async def test_a_directory_that_may_not_be_written_is_told_to_a_writer(public: Path) -> None:
    _allow(public, 0o555)

    assert _as_nobody(public / "loom.db", "write") == ["store-unavailable True True"]


async def test_a_reader_follows_a_writer_where_it_may_not_write(public: Path) -> None:
    writer = SqliteStorage(public / "loom.db")
    await appended(writer, first(REFUND, b"1"))
    _allow(public, 0o555)

    assert _as_nobody(public / "loom.db", "read") == ["[b'1']"]
    await writer.close()


async def test_a_reader_reads_after_the_writer_has_gone(tmp_path: Path) -> None:
    await _closed_store(tmp_path / "loom.db")
    reader = SqliteStorage(tmp_path / "loom.db", readonly=True)

    assert await payloads(reader, REFUND) == [b"1"]
    await reader.close()


@pytest.mark.parametrize("path", [":memory:", "file:loom.db", ""])
def test_what_names_no_file_is_refused_at_once(path: str) -> None:
    with pytest.raises(InvalidDeclaration):
        SqliteStorage(path)


async def _refuses(store: SqliteStorage, error: type[StoreError], words: str) -> None:
    path = store.url.removeprefix("sqlite:")
    with pytest.raises(error, match=words) as caught:
        await store.head(REFUND)
    assert path in str(caught.value)
    assert caught.value.hint
    await store.close()


async def _limit_pages(store: SqliteStorage, pages: int) -> None:
    writer = await store._sessions.current().writer()
    await writer.run(lambda database: database.raw.execute(f"PRAGMA max_page_count = {pages}").fetchall())


async def _closed_store(path: Path) -> None:
    store = SqliteStorage(path)
    await appended(store, first(REFUND, b"1"))
    await store.close()


def _as_nobody(path: Path, mode: str) -> list[str]:
    """Return what a process prints that has no rights but those of everybody."""
    return finish(start("-c", READ_AS_NOBODY, path, mode))


def _execute(path: Path, *statements: str) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        database.execute(statement)
    database.close()


def _allow(path: Path, mode: int) -> None:
    path.chmod(mode)


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE requests SET number = 'first'", "a row of requests has 'first' as its number"),
        ("UPDATE requests SET body = 7", "a row of requests has 7 as its body"),
        ("UPDATE executions SET parent = x'00'", "the row of 'refund-42' in executions has b'\\x00' as its parent"),
        ("UPDATE executions SET wake_at = 'soon'", "'soon' as its wake_at"),
        ("UPDATE executions SET gates = x'ff'", "b'\\xff' as its gates"),
    ],
)
async def test_a_row_with_something_else_than_ours_in_it_is_told_as_damage(
    store: SqliteStorage, tmp_path: Path, statement: str, told: str
) -> None:
    begun = await appended(store, first(REFUND, b"1"))
    await insert(store, begun, key="gate:1")
    with sqlite3.connect(tmp_path / "loom.db") as raw:
        raw.execute(statement)
    raw.close()

    async def look() -> None:
        await store.pending(REFUND, begun.incarnation)
        await store.row(REFUND)

    with pytest.raises(StoreCorrupt, match=re.escape(told)):
        await look()

    await store.close()
    assert await payloads(store, REFUND) == [b"1"]


@pytest.mark.parametrize("path", [":memory:", "file:loom.db?mode=memory", "file:x"])
async def test_what_sqlite_takes_for_something_else_than_a_file_is_refused_everywhere(path: str) -> None:
    for make in (
        lambda: SqliteStorage(path),
        lambda: SqliteContent(path),
        lambda: FileContent(path),
        lambda: path_of(path),
        lambda: path_of(f"sqlite:{path}"),
    ):
        with pytest.raises(InvalidDeclaration, match="names no f"):
            make()


async def test_a_store_is_known_by_whichever_link_it_is_found(tmp_path: Path, store: SqliteStorage) -> None:
    await store.open()
    (tmp_path / "link.db").symlink_to(tmp_path / "loom.db")
    (tmp_path / "hard.db").hardlink_to(tmp_path / "loom.db")
    places = [await SqliteStorage(tmp_path / name).place() for name in ("loom.db", "link.db", "hard.db", "other.db")]

    assert len(set(places)) == 2
    assert len(set(places[:3])) == 1
