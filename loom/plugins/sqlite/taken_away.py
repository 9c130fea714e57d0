"""Noticing that a file of an open database was deleted, renamed or replaced under it.

SQLite does not notice: it goes on writing into a file that has no name any more, tells of each commit that it is durable, and all
of it is gone once the last process has closed it. So nothing is done on the word of a commit before it was looked whether the
log that holds it is still the one that others would find. SQLite itself removes its log and the log's index only at the last close,
and makes checkpoints in place, so whoever has the database open sees the same three files for as long.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from contextlib import suppress
from copy import copy
from typing import Final

from loom.plugins.sqlite.connection import SqliteSettings, identity
from loom.spi.errors import StoreUnavailable

_BETWEEN_LOOKS_S: Final = 0.25
"""How long what lies beside an idle database is taken to be as it was, before it is written to again."""

_RESCUE_WAIT_MS: Final = 1000
"""How long readers are waited for before the lost log is moved into the database."""

_FILE_HINT: Final = (
    "Put the file back, or start again with the one that is there; what was committed is in the old file."
)
_RESCUED_HINT: Final = (
    "Nothing is lost: what was committed was moved into the database. End every process that has it open, then start again;"
    " leave what ends in -wal and -shm alone while it is open."
)
_LOST_HINT: Final = (
    "At most what was committed since the last checkpoint is lost, {most} here. End every process that has the database open, then"
    " run `loom doctor`; restore a backup where the error stays, or where runs are missing."
)


class OpenFiles:
    """The files of one open database: it, its write-ahead log and the index of that. Lives on the connection's thread."""

    def __init__(self, settings: SqliteSettings, raw: sqlite3.Connection) -> None:
        self._settings, self._raw = settings, raw
        self._file = identity(settings.path)
        raw.execute(
            "SELECT 1 FROM sqlite_schema LIMIT 1"
        ).fetchone()  # with its first reading SQLite opens the other two
        self._wal = settings.file.with_name(settings.file.name + "-wal")
        self._shm = settings.file.with_name(settings.file.name + "-shm")
        self._wal_fd = os.open(self._wal, os.O_RDONLY | os.O_CLOEXEC)
        self._log, self._index = self._log_now(), identity(self._shm)
        self._look_at = time.monotonic() + _BETWEEN_LOOKS_S
        self._refused: StoreUnavailable | None = None

    def refuse_another(self) -> None:
        """Look before a transaction: SQLite would lay its log over a database that was put in the place of this one.

        Raises:
            StoreUnavailable: a file was taken away; nothing of the transaction was written.
        """
        if self._refused is not None:  # for good: what was put there meanwhile may be written by others
            raise copy(self._refused)
        if identity(self._settings.path) != self._file:
            raise StoreUnavailable(
                "the database was moved, deleted or replaced", store=self._settings.url, hint=_FILE_HINT
            )
        if (now := time.monotonic()) >= self._look_at:
            self.refuse_another_log()
            if identity(self._shm) != self._index:
                self._refuse("the index of the database's write-ahead log (-shm)")
            self._look_at = now + _BETWEEN_LOOKS_S

    def refuse_another_log(self) -> None:
        """Look after a commit, before anybody is told that it is durable.

        Raises:
            StoreUnavailable: the log was taken away, and with it what was committed.
        """
        if self._log_now() != self._log:
            self._refuse("the database's write-ahead log (-wal)")

    def kept(self) -> bool:
        """Keep the connection open until the process ends where its files are not those that lie there; tell whether that is so.

        The last close makes a checkpoint of the log that it knows, and deletes the one that has its name: what others wrote since.
        """
        if self._refused is None:
            return False
        import ctypes  # which nobody else has use for

        ctypes.pythonapi.Py_IncRef(
            ctypes.py_object(self._raw)
        )  # nor is it closed when the interpreter clears its modules
        return True

    def close(self) -> None:
        """Release the handle; call it once the connection is closed."""
        os.close(self._wal_fd)

    def _log_now(self) -> object:
        """Return what is another once the log is.

        Asked of the handle by its name where that can be done: `stat` would make the next write renew the file's times, and
        its sync much slower.
        """
        if sys.platform == "linux":
            with suppress(OSError):
                return os.readlink(f"/proc/self/fd/{self._wal_fd}")  # noqa: PTH115  # a Path costs more than the asking
        return identity(self._wal)

    def _refuse(self, what: str) -> None:
        most = os.fstat(self._wal_fd).st_size / (1 << 20)
        hint = _RESCUED_HINT if self._rescued() else _LOST_HINT.format(most=f"up to {most:.1f} MiB of log")
        message = f"{what} was deleted, renamed or replaced while it was open"
        self._refused = StoreUnavailable(message, store=self._settings.url, hint=hint)
        raise copy(self._refused)

    def _rescued(self) -> bool:
        """Move what the lost log holds into the database, unless somebody may have begun to write there by another log.

        We still have the log open, nameless as it is. Who came later has made another, which is empty where he has only looked;
        with the same index he keeps to the same locks, and is told by it that the log is empty, as we leave it.
        """
        index, log = identity(self._shm), identity(self._wal)
        alone = log is None and index in (None, self._index)
        looking = log is not None and index == self._index and not self._wal.stat().st_size
        if not (alone or looking):
            return False
        with suppress(sqlite3.Error):
            self._raw.execute(f"PRAGMA busy_timeout = {_RESCUE_WAIT_MS}")  # this connection has no other work any more
            [_busy, frames, moved] = self._raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return bool(frames == moved >= 0)
        return False
