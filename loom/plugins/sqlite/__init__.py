"""The SQLite store: `sqlite_storage()` for apps, `wal_safety()` for `loom doctor`."""

from loom.plugins.sqlite.contents import SqliteContent
from loom.plugins.sqlite.location import DEFAULT_PATH, StoreLocation, store_location
from loom.plugins.sqlite.storage import SqliteStorage, sqlite_storage
from loom.plugins.sqlite.wal import WalSafety, wal_safety

__maturity__ = "beta"

__all__ = [
    "DEFAULT_PATH",
    "SqliteContent",
    "SqliteStorage",
    "StoreLocation",
    "WalSafety",
    "sqlite_storage",
    "store_location",
    "wal_safety",
]
