"""Keeping the write-ahead log safe on SQLite libraries that have the WAL-reset bug.

SQLite 3.7.0 to 3.51.2 (but for the backports 3.44.6 and 3.50.7) can lose committed transactions when one
connection checkpoints while another commits and restarts the log. So on those libraries no connection
checkpoints by itself, and a lock file beside the database admits one at a time: a write transaction, or a
checkpoint, which its holder makes after its own commit. On a fixed library SQLite's own way is right.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from loom.plugins.sqlite.failures import LockHeld

if sys.platform != "win32":
    import fcntl

_CAN_LOCK: Final[bool] = sys.platform != "win32"
"""Without the lock there is no checkpoint while the database is open; the last to close it makes one."""

WAL_FIRST: Final = (3, 7, 0)
WAL_FIXED: Final = (3, 51, 3)
_BACKPORTS: Final = {(3, 44): 6, (3, 50): 7}
_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24
_COMMITS_BETWEEN_LOOKS: Final = 64
_CHECKPOINT_WAIT_MS: Final = 50
"""How long a checkpoint waits for readers to let go of old pages. It holds writers up meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalSafety:
    """Which way the write-ahead log is kept safe, and why: for `loom doctor`."""

    library: str
    affected: bool
    way: Literal["sqlite's own checkpoints", "locked checkpoints", "checkpoint at the last close"]


def wal_safety(version: tuple[int, int, int] | None = None) -> WalSafety:
    """Tell how the write-ahead log is kept safe with the SQLite library *version* (None: the one loaded)."""
    version = version or _loaded()
    affected = has_wal_reset_bug(version)
    library = ".".join(map(str, version))
    if not affected:
        return WalSafety(library=library, affected=False, way="sqlite's own checkpoints")
    if not _CAN_LOCK:
        return WalSafety(library=library, affected=True, way="checkpoint at the last close")
    return WalSafety(library=library, affected=True, way="locked checkpoints")


def has_wal_reset_bug(version: tuple[int, int, int]) -> bool:
    """Tell whether that SQLite library can lose commits when a checkpoint meets a restart of the log."""
    backport = _BACKPORTS.get(version[:2])
    return WAL_FIRST <= version < WAL_FIXED and (backport is None or version[2] < backport)


def _loaded() -> tuple[int, int, int]:
    major, minor, patch = sqlite3.sqlite_version_info
    return major, minor, patch


class WalGuard:
    """Stands round every write transaction of one connection, and checkpoints when the log has grown.

    Lives on the connection's thread. With SQLite's own checkpoints it does nothing at all.
    """

    def __init__(self, path: Path, safety: WalSafety, *, checkpoint_bytes: int) -> None:
        self._wal = path.with_name(path.name + "-wal")
        self._lock_file = path.with_name(path.name + "-lock")
        self._locked = safety.way == "locked checkpoints"
        self._step_bytes = self._due_bytes = checkpoint_bytes
        self._commits = self._looked_at_bytes = 0
        self._lock: int | None = None
        self._log: int | None = None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock file for one write transaction and the checkpoint after it.

        Raises:
            LockHeld: another connection has it; try again soon.
        """
        if not self._locked:
            yield
            return
        fd = self._acquire()
        try:
            yield
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)

    def _acquire(self) -> int:
        if self._lock is None:
            self._lock = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockHeld from error
        return self._lock

    def committed(self, raw: sqlite3.Connection) -> None:
        """Move a log that has grown long into the database. Call it inside `alone`, after a commit."""
        if self._locked and self._time_to_look():
            length_bytes = log_bytes(self._wal_fd())
            if length_bytes >= self._due_bytes:
                self._due_bytes = self._step_bytes if _checkpointed(raw) else length_bytes + self._step_bytes

    def _time_to_look(self) -> bool:
        """Whether some commits have passed, or large ones have made the file grow."""
        self._commits += 1
        file_bytes = os.lseek(self._wal_fd(), 0, os.SEEK_END)
        if self._commits % _COMMITS_BETWEEN_LOOKS and file_bytes < self._looked_at_bytes + self._step_bytes // 4:
            return False
        self._looked_at_bytes = file_bytes
        return True

    def _wal_fd(self) -> int:
        """The log's handle: the file stays the same one as long as the connection is open."""
        if self._log is None:
            self._log = os.open(self._wal, os.O_RDONLY | os.O_CLOEXEC)
        return self._log

    def close(self) -> None:
        """Release the handles; call it once the connection is closed."""
        for fd in (self._lock, self._log):
            if fd is not None:
                os.close(fd)
        self._lock = self._log = None


def log_bytes(fd: int) -> int:
    """Return how many bytes of an open log are in use; after a restart the file is longer than that.

    A frame is in use when it carries the salt of the log's header. Those are the first ones, so we bisect. The size
    is asked for by seeking: `stat` would make the next write renew the file's times, and its sync much slower. (To
    close a handle of the log or of the lock file is safe; for the database or -shm it would drop SQLite's locks.)
    """
    header = os.pread(fd, _HEADER_BYTES, 0)
    frame_bytes = int.from_bytes(header[8:12], "big") + _FRAME_HEADER_BYTES
    frames = range(max(0, os.lseek(fd, 0, os.SEEK_END) - _HEADER_BYTES) // frame_bytes)
    in_use = bisect.bisect_left(
        frames, True, key=lambda frame: os.pread(fd, 8, _HEADER_BYTES + frame * frame_bytes + 8) != header[16:24]
    )
    return in_use * frame_bytes


def _checkpointed(raw: sqlite3.Connection) -> bool:
    """Checkpoint so that the next commit begins the log anew; False when a reader needs it or the disk says no.

    RESTART and not TRUNCATE: both hold the writer lock, but writing over a file that keeps its length is synced
    nearly twice as fast as growing it. What was committed is safe in the log whatever happens here, so the
    failure of a checkpoint is no failure of the append before it.
    """
    [patience_ms] = raw.execute("PRAGMA busy_timeout").fetchone()
    try:
        raw.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_WAIT_MS}")
        [busy, _frames, _moved] = raw.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    except sqlite3.OperationalError:
        return False
    finally:
        raw.execute(f"PRAGMA busy_timeout = {patience_ms}")
    return not busy
