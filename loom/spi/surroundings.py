"""What a runtime is made of, apart from its flows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from loom.core.changes import OnChange
from loom.core.envelope import EventEnvelope
from loom.core.middleware import Effects
from loom.core.step import Step
from loom.spi.authorizer import ExecutionAuthorizer
from loom.spi.citing import Citing
from loom.spi.clock import Clock, Entropy, SystemClock, SystemEntropy
from loom.spi.event_store import Lane, Storage
from loom.spi.guarding import BodyGuard
from loom.spi.host import Host, SystemHost
from loom.spi.limits import ENTRY_BYTES_MAX, EntryTooLarge
from loom.spi.snapshot_store import SnapshotCodec

Event = EventEnvelope[Any]
GRACE_S: Final = 10.0
LEASE_S: Final = 15.0
NESTING_MAX: Final = 32
IDLE_S: Final = 0.005
LINGER_MS: Final = 10_000
LINGER_MAX_MS: Final = 10**13


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a runtime is made of, apart from its flows.

    *resources* opens what steps need; *write_behind* keeps only the barriers of kernel rule 3.1; *grace_s* is how long an
    interrupted drive waits for what is in flight; *authorizer* is asked before a verb changes a run. *on_event* is told of an event
    when it is committed, *on_durable_event* once it is on disk; both in order, and what they raise is logged and stops
    nothing. A driver holds a run for *lease_s* seconds at a time; *host* knows which drivers are gone. A drive waits in place
    for what is due within *linger_ms* unless a verb says otherwise, and for nothing due in more than *linger_max_ms*, whatever it says. Events that nobody waits for may gather for *idle_s*.
    *nesting_max* is how many ancestors a run may have, *on_change* what becomes of one whose code has changed.
    *simulators* stand in for steps, by their ids, in a run that is simulated.
    *guard* watches the bodies of flows. *citing* is told of all that is about to be written to a log or a lane. *snapshot_every* is after how many events a snapshot is kept, beside those at parks;
    *snapshot_codec* what they are written as.
    """

    storage: Storage
    effects: Effects
    clock: Clock = field(default_factory=SystemClock)
    entropy: Entropy = field(default_factory=SystemEntropy)
    resources: Callable[[], Awaitable[Mapping[str, Any]]] | None = None
    write_behind: bool = False
    grace_s: float = GRACE_S
    authorizer: ExecutionAuthorizer | None = None
    lease_s: float = LEASE_S
    nesting_max: int = NESTING_MAX
    on_change: OnChange = "check"
    host: Host = field(default_factory=SystemHost)
    linger_ms: int = LINGER_MS
    linger_max_ms: int = LINGER_MAX_MS
    idle_s: float = IDLE_S
    on_event: Callable[[Event], None] | None = None
    on_durable_event: Callable[[Event], None] | None = None
    on_stream: Callable[[str, str, Any], None] | None = None
    guard: BodyGuard | None = None
    simulators: Mapping[str, Step[Any, Any]] = field(default_factory=dict)
    citing: Citing | None = None
    snapshot_every: int | None = None
    snapshot_codec: SnapshotCodec = "json"

    async def before_insert(self, lane: Lane, body: bytes) -> None:
        """Have noted what a request for *lane* names, before it is inserted.

        Raises:
            EntryTooLarge: it is larger than a log takes; nothing is to be inserted.
            StoreError: it could not be noted; nothing is to be inserted.
        """
        if len(body) > ENTRY_BYTES_MAX:
            raise EntryTooLarge(what=f"what is sent to {lane.execution_id}", size=len(body))
        if self.citing is not None:
            await self.citing.before_insert(lane, body)
