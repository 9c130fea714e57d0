"""What the snapshot commands ask of a store: the snapshots of one run, named by any beginning of its id that is unique."""

from __future__ import annotations

from collections.abc import Sequence

from loom.core.links import is_later_link
from loom.driving import chains
from loom.driving.errors import ExecutionNotFound
from loom.driving.snapshot_codecs import checked_codec
from loom.driving.snapshotting import snapshot_store
from loom.services.snapshot_taking import take_snapshot
from loom.spi.event_store import ExecutionRow, Storage
from loom.spi.snapshot_store import Snapshot, SnapshotCodec, SnapshotHead
from loom_cli.errors import CommandRefused
from loom_cli.exits import ExitCode
from loom_cli.ids import meant_id


class SnapshotNotFound(CommandRefused):
    """The run has no snapshot at or before that event."""

    code = "snapshot-not-found"
    exit_code = ExitCode.NOT_FOUND

    def __init__(self, *, execution_id: str, at: int | None) -> None:
        self.execution_id, self.at = execution_id, at
        self.hint = "A run has one once it has parked with more than 200 events; `loom show` needs none."
        super().__init__(f"{execution_id} has no snapshot" + (f" at event {at} or before" if at is not None else ""))


async def snapshots_of(storage: Storage, text: str) -> Sequence[SnapshotHead]:
    """Return the snapshots of the run that *text* means, the newest first.

    Raises:
        AmbiguousExecution, ExecutionNotFound: *text* means none, or several.
        InvalidDeclaration: the store keeps no snapshots.
    """
    row = await _meant_row(storage, text)
    return await snapshot_store(storage).snapshots(row.execution_id, row.incarnation)


async def snapshot_at(storage: Storage, text: str, at: int | None) -> Snapshot:
    """Return the newest snapshot of the run that *text* means, at event *at* or before where that is given.

    Raises:
        SnapshotNotFound: there is none.
        As `snapshots_of`.
    """
    row = await _meant_row(storage, text)
    found = await snapshot_store(storage).latest_snapshot(row.execution_id, row.incarnation, upto=at)
    if found is None:
        raise SnapshotNotFound(execution_id=row.execution_id, at=at)
    return found


async def taken(storage: Storage, text: str, at: int | None, *, codec: SnapshotCodec) -> SnapshotHead:
    """Keep the state of the run that *text* means after event *at* (None: the last), and return what is kept.

    Raises:
        As `take_snapshot` and `snapshots_of`.
    """
    return await take_snapshot(storage, await _meant_row(storage, text), at=at, codec=checked_codec(codec))


async def _meant_row(storage: Storage, text: str) -> ExecutionRow:
    run_id = await meant_id(storage, text)
    row = await storage.row(run_id)
    if row is None:  # deleted since we found it
        raise ExecutionNotFound(execution_id=text, store=storage.url)
    return row if is_later_link(run_id) else await chains.last_link(storage, row)
