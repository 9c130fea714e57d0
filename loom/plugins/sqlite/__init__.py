"""The SQLite store: `sqlite_storage()` for apps, `wal_safety()` for `loom doctor`."""

from loom.plugins.sqlite.storage import DEFAULT_PATH, SqliteStorage, sqlite_storage
from loom.plugins.sqlite.wal import WalSafety, wal_safety

__all__ = ["DEFAULT_PATH", "SqliteStorage", "WalSafety", "sqlite_storage", "wal_safety"]
