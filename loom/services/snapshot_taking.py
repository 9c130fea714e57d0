"""Taking a snapshot of a run after one of its events: a place where it can be forked, however it is compacted later."""

from __future__ import annotations

from loom.core.errors import LoomError
from loom.driving.errors import ExecutionNotFound
from loom.driving.fork_points import prefix_of
from loom.driving.reading import refuse_newer, refuse_newer_rules
from loom.driving.snapshots import snapshot_of
from loom.driving.snapshotting import snapshot_store
from loom.spi.event_store import ExecutionRow, Storage
from loom.spi.snapshot_store import SnapshotCodec, SnapshotHead


class EventNotThere(LoomError):
    """A log has no event of that number."""

    code = "event-not-there"

    def __init__(self, *, execution_id: str, sequence: int, length: int) -> None:
        self.execution_id, self.sequence, self.length = execution_id, sequence, length
        self.hint = f"Its events are numbered 0 to {length - 1}."
        super().__init__(f"{execution_id} has no event {sequence}")


async def take_snapshot(
    storage: Storage, row: ExecutionRow, *, at: int | None = None, codec: SnapshotCodec = "json"
) -> SnapshotHead:
    """Keep the state of the run that *row* is of, after event *at* (None: the last), and return what is kept there.

    Raises:
        InvalidDeclaration: the store keeps no snapshots, or the codec is not installed.
        EventNotThere: it has no such event.
        CompactedForkPoint: it was compacted beyond that event, and the state there is not known any more.
        ExecutionNotFound: it was deleted meanwhile.
        LogCorrupt, LogNewerThanCode: it cannot be folded.
        StoreError: it is not known whether it is kept; asking again is safe.
    """
    store, through = snapshot_store(storage), row.length - 1 if at is None else at
    if not 0 <= through < row.length:
        raise EventNotThere(execution_id=row.execution_id, sequence=through, length=row.length)
    log = await prefix_of(storage, row, through)
    if log.base is not None:
        refuse_newer_rules(row.execution_id, log.base.facts.rules)
    refuse_newer(log.tail)
    snapshot = snapshot_of(log.state(), row.incarnation, at=await storage.now_ms(), codec=codec)
    if await store.put_snapshot(snapshot):
        return snapshot.head
    kept = await store.latest_snapshot(row.execution_id, row.incarnation, upto=through)
    if kept is None or kept.head.sequence != through:
        raise ExecutionNotFound(execution_id=row.execution_id, store=storage.url)
    return kept.head  # the checkpoint: it says the same, and stays until the next one takes its place
