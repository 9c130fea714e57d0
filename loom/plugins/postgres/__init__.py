"""The Postgres store: `postgres_storage()` for apps. It needs the extra `postgres`, which brings asyncpg."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loom.plugins.postgres.opening import postgres_storage

if TYPE_CHECKING:
    from loom.plugins.postgres.contents import PostgresContent
    from loom.plugins.postgres.storage import PostgresStorage

__maturity__ = "experimental"

__all__ = ["PostgresContent", "PostgresStorage", "postgres_storage"]


def __getattr__(name: str) -> Any:
    """Import the store when it is first used: its driver is no part of a plain installation.

    Raises:
        InvalidDeclaration: the driver is not installed; the hint says what to install.
    """
    if name not in {"PostgresContent", "PostgresStorage"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from loom.plugins.postgres.dsn import require_driver

    require_driver()
    from loom.plugins.postgres import contents, storage

    return contents.PostgresContent if name == "PostgresContent" else storage.PostgresStorage
