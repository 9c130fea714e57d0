"""Where snapshots lie beside the logs: the folded state of an execution after some of its events, as a cache.

A snapshot is never the truth: whoever cannot read one, or does not trust it, folds the log. A *checkpoint* is one whose events
are gone from the store, which is why nothing here removes it. What a body says is the business of whoever wrote it
(`loom.driving.snapshots`); a store keeps bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from loom.core.ids import ExecutionId, Incarnation

SNAPSHOT_STORE_SPI_VERSION: Final = "1.0.0"

SnapshotCodec: TypeAlias = Literal["json", "zstd"]
"""What the bytes of a body are: JSON text, or a zstd frame of it. It goes with each snapshot: one store may hold both."""


class SnapshotHead(NamedTuple):
    """A snapshot without its body: the state of one life of an execution after the event at *sequence*.

    *fold_version* and *state_codec_version* are those of the code that made it. *digest* is that of all this and the body (see
    `snapshot_digest`), *size* the length of the body in bytes, as stored. *at* is when it was made, ms since the epoch.
    """

    execution_id: ExecutionId
    incarnation: Incarnation
    sequence: int
    fold_version: str
    state_codec_version: str
    codec: SnapshotCodec
    is_checkpoint: bool
    at: int
    size: int
    digest: str


class Snapshot(NamedTuple):
    """A snapshot with its *body*."""

    head: SnapshotHead
    body: bytes


def snapshot_digest(head: SnapshotHead, body: bytes) -> str:
    """Return what *head* should have as its digest: of everything else in it, and of *body*."""
    told = "\n".join(str(each) for each in head[:-1])
    return sha256(told.encode() + b"\n" + body).hexdigest()


def reborn(checkpoint: Snapshot, incarnation: Incarnation) -> Snapshot:
    """Return *checkpoint* as one of another life of its execution."""
    head = checkpoint.head._replace(incarnation=incarnation)
    return checkpoint._replace(head=head._replace(digest=snapshot_digest(head, checkpoint.body)))


@runtime_checkable
class SnapshotStore(Protocol):
    """The snapshots of a store. Every method names the life of the execution; of another life, nothing is there."""

    async def put_snapshot(self, snapshot: Snapshot) -> bool:
        """Keep a snapshot durably, and return whether that was done, in one transaction.

        It is not where the execution has another life, or where its log does not hold the event at the snapshot's sequence:
        no snapshot is ever ahead of its log. One that is there already for the same sequence is replaced, but a
        checkpoint only by a checkpoint.

        Raises:
            StoreUnavailable: it is not known to be kept; asking again is safe.
        """
        ...

    async def latest_snapshot(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, upto: int | None = None
    ) -> Snapshot | None:
        """Return the snapshot with the greatest sequence (up to and including *upto*), None when there is none."""
        ...

    async def snapshots(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, limit: int | None = None
    ) -> Sequence[SnapshotHead]:
        """Return up to *limit* snapshots without their bodies, which are not read, the newest first."""
        ...

    async def delete_snapshots(
        self, execution_id: ExecutionId, incarnation: Incarnation, sequences: Sequence[int]
    ) -> Sequence[int]:
        """Remove the snapshots at *sequences*, and return at which it did, in order, in one transaction.

        One that is not there is left out, and so are checkpoints and the latest, which stay whoever asks.
        """
        ...

    async def executions_with_snapshots(
        self, *, after: ExecutionId | None = None, limit: int = 1000
    ) -> Sequence[SnapshotHead]:
        """Return the latest snapshot of up to *limit* executions with ids greater than *after*, by code point order."""
        ...
