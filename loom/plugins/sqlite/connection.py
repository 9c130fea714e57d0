"""Opening a database and running transactions on it: everything here runs on a connection's own thread."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

from loom.plugins.sqlite import schema
from loom.plugins.sqlite.failures import LockHeld, is_busy, store_error
from loom.plugins.sqlite.wal import wal_safety
from loom.spi.clock import Clock
from loom.spi.errors import StoreCorrupt, StoreNotFound, StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")

SQLITE_OLDEST: Final = (3, 35, 0)
"""For UPDATE ... FROM and RETURNING."""

_TRY_S: Final = 0.02
"""How long SQLite itself waits for a lock. Its back-off is unfair beyond that, so the rest is ours."""

_PAUSE_S: Final = (0.0005, 0.004)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteSettings:
    """How one database is opened, and the clock by which leases are judged. Times are in seconds."""

    path: Path
    readonly: bool
    busy_timeout_s: float
    checkpoint_bytes: int
    clock: Clock

    @property
    def url(self) -> str:
        """The name of the store in messages."""
        return f"sqlite:{self.path}"

    @property
    def file(self) -> Path:
        """The file that *path* leads to. What lies beside it (log, lock, contents) is the same by whichever link it is found."""
        return behind_links(self.path)


class Database:
    """One open connection. *run* gives a function the bare connection, patiently and with our errors.

    Raises (every method):
        StoreUnavailable: locked for longer than the busy timeout, full, read-only or unreachable.
        StoreCorrupt: damaged, or no store of ours.
    """

    def __init__(self, settings: SqliteSettings, raw: sqlite3.Connection) -> None:
        self._settings, self._raw = settings, raw

    @property
    def raw(self) -> sqlite3.Connection:
        return self._raw

    @property
    def url(self) -> str:
        return self._settings.url

    def run(self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what *work* returns; it reads, in statements that each see one committed state."""
        return patiently(self._settings, lambda: work(self._raw, *args, **kwargs))

    def close(self) -> None:
        self._raw.close()


class ReadDatabase(Database):
    """A connection of who only looks, perhaps for days: it is to what lies at the path now.

    Where the file was replaced (a backup was put there, say) it is opened anew, and where it is gone that is said; else SQLite would
    read on in the old one. Where another has migrated it, it is looked at whether this code reads that.
    """

    def __init__(self, settings: SqliteSettings) -> None:
        self._file = identity(settings.path)
        super().__init__(settings, _readable(settings))
        self._schema = _schema_of(self._raw)

    def run(self, work: Callable[Concatenate[sqlite3.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what *work* returns; see `Database.run`.

        Raises:
            StoreNotFound: there is no database any more.
            StoreNewer: it was migrated by a newer Loom.
        """
        return patiently(self._settings, lambda: work(self._present(), *args, **kwargs))

    def _present(self) -> sqlite3.Connection:
        file = identity(self._settings.path)
        if file != self._file:
            raw = _readable(self._settings)
            self._raw.close()
            self._raw, self._file, self._schema = raw, file, _schema_of(raw)
        elif (found := _schema_of(self._raw)) != self._schema:
            schema.accept_for_reading(self._raw, url=self.url)
            self._schema = found
        return self._raw


def identity(path: Path) -> tuple[int, int] | None:
    """Return which file lies at *path*, None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _schema_of(raw: sqlite3.Connection) -> int:
    """Return a number that is another once somebody has changed the tables."""
    [number] = raw.execute("PRAGMA schema_version").fetchone()
    return int(number)


def behind_links(path: Path) -> Path:
    """Return the file that *path* leads to, be it there or not: SQLite keeps its log beside that, and not beside a link to it."""
    return Path(os.path.realpath(path))


def open_reader(settings: SqliteSettings) -> Database:
    """Open the database for reading; it neither makes nor changes anything.

    Raises:
        StoreNotFound: there is no database, or an empty one.
    """
    if settings.readonly:
        return patiently(settings, lambda: ReadDatabase(settings))
    return Database(settings, patiently(settings, lambda: _readable(settings)))


def patiently(settings: SqliteSettings, attempt: Callable[[], T]) -> T:
    """Try until it is not busy any more, for the busy timeout; pauses are random, so that rivals take turns."""
    deadline = time.monotonic() + settings.busy_timeout_s
    while True:
        try:
            return attempt()
        except (sqlite3.Error, OSError, LockHeld) as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise store_error(error, url=settings.url, busy_timeout_s=settings.busy_timeout_s) from error
        time.sleep(_pause_s())


def _pause_s() -> float:
    from random import uniform  # which takes time to load, and few ever wait

    return uniform(*_PAUSE_S)


def _readable(settings: SqliteSettings) -> sqlite3.Connection:
    if not settings.path.exists():
        hint = "Run a flow first, go to the folder of its project, or name another file."
        raise StoreNotFound("there is no database", store=settings.url, hint=hint)
    raw = connect(settings, f"{settings.path.as_uri()}?mode=ro", uri=True)
    try:
        schema.accept_for_reading(raw, url=settings.url)
    except BaseException:
        raw.close()
        raise
    return raw


def connect(settings: SqliteSettings, address: str, *, uri: bool) -> sqlite3.Connection:
    """Return a connection to *address* as every one of ours is: synced, and making no checkpoint where that is not safe."""
    refuse_impossible(settings)
    raw = sqlite3.connect(address, uri=uri, timeout=_TRY_S, isolation_level=None, check_same_thread=False)
    raw.execute("PRAGMA synchronous = FULL")
    if wal_safety().affected:
        raw.execute("PRAGMA wal_autocheckpoint = 0")
        raw.execute(f"PRAGMA journal_size_limit = {2 * settings.checkpoint_bytes}")
    return raw


def refuse_impossible(settings: SqliteSettings) -> None:
    """Refuse what cannot be a database.

    Raises:
        StoreCorrupt: the path is a directory, or no file.
        StoreUnavailable: the SQLite that is loaded is too old.
    """
    if settings.path.is_dir():
        hint = "Name a file in it, such as loom.db."
        raise StoreCorrupt("the path is a directory, not a database", store=settings.url, hint=hint)
    if settings.path.exists() and not settings.path.is_file():
        hint = "Name an ordinary file, such as .loom/loom.db."
        raise StoreCorrupt("the path is no file", store=settings.url, hint=hint)
    if sqlite3.sqlite_version_info < SQLITE_OLDEST:
        message = f"SQLite {sqlite3.sqlite_version} is too old"
        raise StoreUnavailable(message, store=settings.url, hint="Use a Python built with SQLite 3.35 or later.")
