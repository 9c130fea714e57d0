"""How one database is used, and what its connections are opened with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from loom.plugins.postgres.compression import SnapshotCompression
from loom.plugins.postgres.dsn import Address
from loom.spi.clock import Clock

_SETTINGS: Final = {"idle_in_transaction_session_timeout": "15s"}
"""What a connection begins with: a machine that is lost, or a process that is stopped, keeps no lock for longer."""


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
        # A pooler refuses settings that it does not know, and ends transactions that stand still by its own.
        kept = {"statement_cache_size": 0} if self.address.pooler else {"server_settings": _SETTINGS}
        return {"dsn": self.address.dsn, "timeout": self.timeout_s, "command_timeout": self.timeout_s, **kept}
