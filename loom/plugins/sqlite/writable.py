"""A database that is written to: made or migrated when it is opened, and changed by one transaction at a time."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from loom.plugins.sqlite import schema
from loom.plugins.sqlite.connection import Database, SqliteSettings, connect, patiently, refuse_impossible
from loom.plugins.sqlite.going_on import Places
from loom.plugins.sqlite.taken_away import OpenFiles
from loom.plugins.sqlite.wal import WalGuard, wal_safety
from loom.spi.errors import StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")


class WritableDatabase(Database):
    """A connection whose work is a write transaction: all of it is on disk when `run` returns, or none."""

    def __init__(self, settings: SqliteSettings, raw: sqlite3.Connection, guard: WalGuard) -> None:
        super().__init__(settings, raw)
        self._guard = guard
        self.now_ms = settings.clock.now_ms
        self.places = Places()
        self._files = patiently(settings, lambda: OpenFiles(settings, raw))

    def run(self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what *work* returns once its transaction is durable; *work* may run again after a busy lock."""
        return patiently(self._settings, lambda: self._transact(lambda: work(self._raw, *args, **kwargs)))

    def _transact(self, work: Callable[[], T]) -> T:
        raw = self._raw
        with self._guard.alone():
            self._files.refuse_another()
            try:
                raw.execute("BEGIN IMMEDIATE")
                result = work()
                raw.execute("COMMIT")
            finally:
                if raw.in_transaction:
                    raw.execute("ROLLBACK")
            self._files.refuse_another_log()
            with contextlib.suppress(OSError):  # what is committed stays so, whatever becomes of the checkpoint
                self._guard.committed(raw)
        return result

    def close(self) -> None:
        if self._files.kept():
            return
        super().close()
        self._files.close()
        self._guard.close()


def open_writer(settings: SqliteSettings) -> WritableDatabase:
    """Open the database for writing; make or migrate it when it is not there or old."""
    refuse_impossible(settings)  # before a lock file is made beside it
    guard = WalGuard(settings.file, wal_safety(), checkpoint_bytes=settings.checkpoint_bytes)
    try:
        return WritableDatabase(settings, patiently(settings, lambda: _writable(settings, guard)), guard)
    except BaseException:
        guard.close()
        raise


def _writable(settings: SqliteSettings, guard: WalGuard) -> sqlite3.Connection:
    settings.file.parent.mkdir(parents=True, exist_ok=True)
    raw = connect(settings, str(settings.path), uri=False)
    try:
        schema.accept(raw, url=settings.url)  # before the journal mode: another's database is not changed
        with guard.alone():
            _use_wal(raw, settings)
            schema.migrate(raw, url=settings.url)
    except BaseException:
        raw.close()
        raise
    return raw


def _use_wal(raw: sqlite3.Connection, settings: SqliteSettings) -> None:
    [mode] = raw.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        hint = "Use a local disk: SQLite's write-ahead log needs shared memory."
        raise StoreUnavailable(f"the journal mode stays {mode!r}", store=settings.url, hint=hint)
