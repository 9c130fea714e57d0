"""Keeping the write-ahead log safe on SQLite libraries that have the WAL-reset bug.

SQLite 3.7.0 to 3.51.2 (but for the backports 3.44.6 and 3.50.7) can lose committed transactions when one
connection checkpoints while another commits and restarts the log. So on those libraries no connection
checkpoints by itself, and a lock file beside the database admits one at a time: a write transaction, or a
checkpoint, which its holder makes after its own commit. On a fixed library SQLite's own way is right.
"""

from __future__ import annotations

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
_CHECKPOINT_WAIT_MS: Final = 100
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
        self._lock = path.with_name(path.name + "-lock")
        self._locked = safety.way == "locked checkpoints"
        self._step_bytes = self._due_bytes = checkpoint_bytes
        self._fd: int | None = None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock file for one write transaction or checkpoint.

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
        if self._fd is None:
            self._fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockHeld from error
        return self._fd

    def checkpoint_if_due(self, raw: sqlite3.Connection) -> None:
        """Move the log into the database once it is large. Call it inside `alone`, after the commit."""
        if self._locked and self._log_bytes() >= self._due_bytes:
            done = _checkpointed(raw)
            self._due_bytes = self._step_bytes if done else self._log_bytes() + self._step_bytes

    def _log_bytes(self) -> int:
        try:
            return self._wal.stat().st_size
        except FileNotFoundError:
            return 0

    def close(self) -> None:
        """Release the lock file's handle."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _checkpointed(raw: sqlite3.Connection) -> bool:
    """Checkpoint and truncate the log; False when a reader still needs it or the disk says no.

    What was committed is on disk in the log, whatever happens here: so the failure of a checkpoint is no
    failure of the append before it.
    """
    [patience_ms] = raw.execute("PRAGMA busy_timeout").fetchone()
    try:
        raw.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_WAIT_MS}")
        [busy, _frames, _moved] = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError:
        return False
    finally:
        raw.execute(f"PRAGMA busy_timeout = {patience_ms}")
    return not busy
