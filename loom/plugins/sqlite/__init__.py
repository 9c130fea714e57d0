"""The SQLite store: `sqlite_storage()` for apps, `wal_safety()` for `loom doctor`. Names are imported when they are first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "DEFAULT_PATH": "location",
    "SqliteContent": "contents",
    "SqliteStorage": "storage",
    "StoreLocation": "location",
    "WalSafety": "wal",
    "sqlite_storage": "storage",
    "store_location": "location",
    "wal_safety": "wal",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
