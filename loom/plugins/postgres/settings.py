"""How one database is used, and what its connections are opened with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loom.plugins.postgres.compression import SnapshotCompression
from loom.plugins.postgres.dsn import Address
from loom.spi.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSettings:
    """How one database is used. Times are in seconds. Without a *clock*, the time is the server's."""

    address: Address
    readonly: bool
    connections: int
    timeout_s: float
    clock: Clock | None
    snapshot_compression: SnapshotCompression | None = None

    @property
    def url(self) -> str:
        """The name of the store in messages."""
        return self.address.url

    @property
    def now_ms(self) -> int | None:
        """The time to go by (ms since the epoch), None for the server's."""
        return None if self.clock is None else self.clock.now_ms()

    def driver_options(self) -> dict[str, Any]:
        """Return how a connection is opened."""
        cache = {"statement_cache_size": 0} if self.address.pooler else {}
        return {"dsn": self.address.dsn, "timeout": self.timeout_s, "command_timeout": self.timeout_s, **cache}
