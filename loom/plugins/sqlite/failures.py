"""What SQLite and the operating system report, told in the words of `loom.spi.errors`."""

from __future__ import annotations

import sqlite3
from typing import Final

from loom.spi.errors import StoreCorrupt, StoreError, StoreUnavailable

BUSY_CODES: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
"""Somebody else holds the file just now: worth another try."""

_LOCKED: Final = (
    "another process kept the database locked for {timeout_s:g} s",
    "End what holds it (fuser or lsof name it), or give the store a longer busy_timeout_s. Nothing was written.",
)
_UNAVAILABLE: Final = {
    sqlite3.SQLITE_FULL: (
        "the disk, the quota or the database's page limit is full",
        "Free some space and try again; nothing was written.",
    ),
    sqlite3.SQLITE_READONLY: (
        "the database cannot be written",
        "Give this user write permission on the file and its directory, or open it with readonly=True.",
    ),
    sqlite3.SQLITE_PERM: ("access is denied", "Give this user permission on the file and its directory."),
    sqlite3.SQLITE_CANTOPEN: (
        "the database cannot be opened",
        "Check the permissions: where no writer is open, a reader must be able to write to the directory too.",
    ),
    sqlite3.SQLITE_IOERR: (
        "reading or writing failed",
        "Check the disk, its free space and the system log, then try again; nothing was written.",
    ),
}
_CORRUPT: Final = {
    sqlite3.SQLITE_NOTADB: (
        "the file is no SQLite database",
        "Name another file, or move this one away; it was left as it is.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "the database is damaged",
        "Copy the file with its -wal and -shm files first, then restore a backup or try `sqlite3 FILE .recover`.",
    ),
}


class WrongType(sqlite3.DatabaseError):
    """A column holds what nobody of ours has written there: text where a number should be, say."""


class LockHeld(Exception):
    """The advisory lock beside the database is held by somebody else just now."""


def is_busy(error: Exception) -> bool:
    """Tell whether trying again soon may help."""
    return isinstance(error, LockHeld) or _code(error) in BUSY_CODES


def store_error(error: Exception, *, url: str, busy_timeout_s: float) -> StoreError:
    """Return our error for *error*, a `sqlite3.Error`, an `OSError` or `LockHeld`."""
    code = _code(error)
    if is_busy(error):
        return StoreUnavailable(_LOCKED[0].format(timeout_s=busy_timeout_s), store=url, hint=_LOCKED[1])
    if code in _CORRUPT:
        what, hint = _CORRUPT[code]
        return StoreCorrupt(f"{what}: {error}", store=url, hint=hint)
    if isinstance(error, WrongType):
        hint = "Somebody else has written to the file. Restore a backup; nothing was written."
        return StoreCorrupt(str(error), store=url, hint=hint)
    if isinstance(error, sqlite3.IntegrityError):
        hint = "Run `loom doctor`; nothing was written."
        return StoreCorrupt(f"the log and its head disagree: {error}", store=url, hint=hint)
    if isinstance(error, OSError):
        hint = "Check the path, its permissions and the free space; nothing was written."
        return StoreUnavailable(f"the file system refused: {error}", store=url, hint=hint)
    what, hint = _UNAVAILABLE.get(code, ("SQLite refused", "Nothing was written; see the cause."))
    return StoreUnavailable(f"{what}: {error}", store=url, hint=hint)


def _code(error: Exception) -> int:
    extended: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return extended & 0xFF
