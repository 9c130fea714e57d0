from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from loom.devtools.conformance.logs import REFUND, after, appended, first, payloads
from loom.plugins.sqlite import SqliteStorage, connection, wal_safety, writable
from loom.plugins.sqlite.wal import WalSafety, has_wal_reset_bug, log_bytes

CHECKPOINT_BYTES = 128 << 10
needs_the_lock = pytest.mark.skipif(wal_safety().way != "locked checkpoints", reason="SQLite checkpoints by itself")


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((4, 0, 0), False),
    ],
)
def test_it_is_known_which_libraries_have_the_wal_reset_bug(version: tuple[int, int, int], affected: bool) -> None:
    assert has_wal_reset_bug(version) is affected
    assert wal_safety(version).affected is affected


def test_the_loaded_library_is_told() -> None:
    assert wal_safety().library == sqlite3.sqlite_version
    assert wal_safety((3, 51, 3)).way == "sqlite's own checkpoints"


@needs_the_lock
async def test_no_connection_checkpoints_by_itself(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db")

    for thread in (await store._sessions.current().writer(), await store._sessions.current().reader()):
        assert await thread.run(lambda database: database.raw.execute("PRAGMA wal_autocheckpoint").fetchone()) == (0,)
    await store.close()


@needs_the_lock
async def test_the_log_is_written_over_and_does_not_grow_for_ever(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db", checkpoint_bytes=CHECKPOINT_BYTES)
    head = await appended(store, first(REFUND, b"0"))

    for _ in range(600):
        head = await appended(store, after(head, REFUND, b"x" * 100))

    assert (tmp_path / "loom.db-wal").stat().st_size < 16 * CHECKPOINT_BYTES
    assert (tmp_path / "loom.db").stat().st_size > 60_000
    assert len(await payloads(store, REFUND)) == 601
    await store.close()


@needs_the_lock
async def test_large_commits_are_moved_out_of_the_log_soon(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db", checkpoint_bytes=CHECKPOINT_BYTES)
    head = await appended(store, first(REFUND, b"0"))

    for _ in range(5):
        head = await appended(store, after(head, REFUND, b"x" * 1_000_000))

    assert (tmp_path / "loom.db-wal").stat().st_size < 3_000_000
    await store.close()


@needs_the_lock
async def test_a_reader_that_stays_delays_a_checkpoint_and_no_append(tmp_path: Path) -> None:
    store = SqliteStorage(tmp_path / "loom.db", checkpoint_bytes=CHECKPOINT_BYTES, busy_timeout_s=5)
    head = await appended(store, first(REFUND, b"0"))
    rival = sqlite3.connect(tmp_path / "loom.db", isolation_level=None)
    rival.execute("BEGIN")
    seen = rival.execute("SELECT count(*) FROM events").fetchone()

    for _ in range(200):
        head = await appended(store, after(head, REFUND, b"x" * 100))

    assert rival.execute("SELECT count(*) FROM events").fetchone() == seen == (1,)
    rival.close()
    assert len(await payloads(store, REFUND)) == 201
    await store.close()


@needs_the_lock
async def test_the_length_of_the_log_is_told_by_its_salt(tmp_path: Path) -> None:
    path = tmp_path / "plain.db"
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA journal_mode = WAL").fetchall()
    raw.execute("CREATE TABLE t (x)")
    for number in range(20):
        raw.execute("INSERT INTO t VALUES (?)", (number,))
    fd = os.open(f"{path}-wal", os.O_RDONLY)
    full = log_bytes(fd)

    raw.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    raw.execute("INSERT INTO t VALUES (21)")

    assert full == os.fstat(fd).st_size - 32
    assert log_bytes(fd) == 4096 + 24
    os.close(fd)
    raw.close()


async def test_a_fixed_library_keeps_its_own_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = WalSafety(library="3.51.3", affected=False, way="sqlite's own checkpoints")
    for opens in (connection, writable):
        monkeypatch.setattr(opens, "wal_safety", lambda: fixed)
    store = SqliteStorage(tmp_path / "loom.db")

    await appended(store, first(REFUND, b"1"))

    assert await payloads(store, REFUND) == [b"1"]
    assert not (tmp_path / "loom.db-lock").exists()
    await store.close()
