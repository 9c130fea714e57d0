"""How Postgres itself compresses the bodies of snapshots: its own way, or lz4 where an app asks for it and the server has it.

It is a setting of the column, for what is written from then on; nothing is rewritten, and every body is read as it was.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import asyncpg

from loom.core.errors import InvalidDeclaration
from loom.plugins.postgres.schema import SOFT_WAIT

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

SnapshotCompression: TypeAlias = Literal["lz4"]

_IS: Final = """
    SELECT attcompression = 'l' FROM pg_attribute WHERE attrelid = 'loom.snapshots'::regclass AND attname = 'body'
"""
_WAIT: Final = "SELECT set_config('lock_timeout', $1, true)"
_SET: Final = "ALTER TABLE loom.snapshots ALTER COLUMN body SET COMPRESSION lz4"

log = logging.getLogger(__name__)


def checked_compression(compression: SnapshotCompression | None) -> SnapshotCompression | None:
    """Return *compression*, None for that of the server.

    Raises:
        InvalidDeclaration: there is none of that name.
    """
    if compression not in {None, "lz4"}:
        hint = "Leave it out for the server's own. zstd is a codec: define_config(snapshot_codec='zstd')."
        raise InvalidDeclaration(f"snapshot_compression is {compression!r}, and there is lz4", hint=hint)
    return compression


async def compress_snapshots(
    raw: PoolConnectionProxy[Any], compression: SnapshotCompression | None, *, url: str
) -> None:
    """Have snapshots compressed so from now on; where that cannot be, they are compressed as before, with a warning."""
    if compression is None:
        return
    try:
        async with raw.transaction():
            if not await raw.fetchval(_IS):
                await raw.execute(_WAIT, SOFT_WAIT)
                await raw.execute(_SET)
    except (
        asyncpg.FeatureNotSupportedError,  # a server built without it
        asyncpg.SyntaxOrAccessError,  # one before 14, or a user who does not own the table
        asyncpg.LockNotAvailableError,
    ) as error:
        log.warning("snapshots in %s are compressed as before, not with %s: %s", url, compression, error)
