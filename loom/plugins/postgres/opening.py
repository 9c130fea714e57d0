"""`postgres_storage()`: it can be imported without the driver, and says what to install when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loom.core.errors import InvalidDeclaration
from loom.plugins.postgres.dsn import require_driver
from loom.plugins.sqlite.location import store_name

if TYPE_CHECKING:
    from loom.plugins.postgres.compression import SnapshotCompression
    from loom.plugins.postgres.storage import PostgresStorage


def postgres_storage(
    dsn: str | None = None,
    *,
    connections: int = 10,
    timeout_s: float = 30.0,
    poll_s: float = 0.05,
    snapshot_compression: SnapshotCompression | None = None,
) -> PostgresStorage:
    """Return a store in a Postgres database, which opens nothing yet.

    Without a *dsn* it is the one that `LOOM_STORE` names, or `[tool.loom] store` in the nearest pyproject.toml. The server
    compresses snapshots in its own way, or with `lz4`: docs/guide/snapshots.md has what that is good for.

    Raises:
        InvalidDeclaration: nobody names a Postgres database, the name cannot be read, or the driver is not installed.
    """
    if dsn is None:
        dsn = store_name().text
        if not dsn:
            hint = "Give postgres_storage() a DSN, or set LOOM_STORE to postgresql://user@host/database."
            raise InvalidDeclaration("nobody names a Postgres database", hint=hint)
    require_driver()
    from loom.plugins.postgres.storage import PostgresStorage

    return PostgresStorage(
        dsn, connections=connections, timeout_s=timeout_s, poll_s=poll_s, snapshot_compression=snapshot_compression
    )
