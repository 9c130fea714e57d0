"""What adapters share that keep snapshots in a table: how a row is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.snapshot_store import SnapshotHead


def snapshot_head(execution_id: ExecutionId, incarnation: Incarnation, found: Sequence[Any]) -> SnapshotHead:
    """Return the head of a snapshot.

    Its columns are: sequence, fold_version, state_codec_version, codec, is_checkpoint, at, the size of the body, digest.
    """
    sequence, fold, state_codec, codec, is_checkpoint, at, size, digest = found
    return SnapshotHead(
        execution_id, incarnation, sequence, fold, state_codec, codec, bool(is_checkpoint), at, size, digest
    )
