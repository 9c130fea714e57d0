"""A snapshot made of a state, and the state that a snapshot holds: checked before it is believed.

What is checked is that it is whole (its digest), that it is of this very run and life, and that this code folds and writes
states as the code did that made it. Whoever is refused here folds the log instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loom.core.ids import Incarnation
from loom.core.state import FOLD_VERSION, ExecutionState
from loom.driving.errors import SnapshotUnusable
from loom.driving.snapshot_codecs import CodecNotAvailable, packed, unpacked
from loom.driving.state_codec import STATE_CODEC_VERSION, decode, encode
from loom.spi.snapshot_store import Snapshot, SnapshotCodec, SnapshotHead, snapshot_digest

_PRESENT: Final = (FOLD_VERSION, STATE_CODEC_VERSION)


def snapshot_of(
    state: ExecutionState,
    incarnation: Incarnation,
    *,
    at: int,
    codec: SnapshotCodec = "json",
    is_checkpoint: bool = False,
) -> Snapshot:
    """Return the snapshot of *state*, made *at* that time (ms since the epoch).

    Raises:
        NotAState: the state was not made by folding a log.
        CodecNotAvailable: what writes this *codec* is not installed.
    """
    body = packed(encode(state), codec)
    head = SnapshotHead(
        execution_id=state.execution_id,
        incarnation=incarnation,
        sequence=state.sequence,
        fold_version=FOLD_VERSION,
        state_codec_version=STATE_CODEC_VERSION,
        codec=codec,
        is_checkpoint=is_checkpoint,
        at=at,
        size=len(body),
        digest="",
    )
    return Snapshot(head._replace(digest=snapshot_digest(head, body)), body)


def is_current(head: SnapshotHead) -> bool:
    """Whether a snapshot was made by code that folds and writes states as this code does."""
    return (head.fold_version, head.state_codec_version) == _PRESENT


def is_readable(head: SnapshotHead) -> bool:
    """Whether this code reads a snapshot by its versions, where there is nothing else to go by."""
    return all(map(_is_read, (head.fold_version, head.state_codec_version), _PRESENT))


def state_of(
    snapshot: Snapshot, *, is_needed: bool = False, read: Callable[[bytes], ExecutionState] = decode
) -> ExecutionState:
    """Return the state that *snapshot* holds, or what *read* makes of its text.

    One of other versions is refused, since its log can be folded again; where it *is_needed*, because events before it are
    gone, one of an earlier minor version is read, with what has been added since as it begins.

    Raises:
        SnapshotUnusable: it is damaged, of another run, of other versions, or compressed by what is not installed.
    """
    head = snapshot.head
    if why := _refusal(snapshot, is_needed=is_needed):
        raise _unusable(head, why)
    try:
        state = read(unpacked(snapshot.body, head.codec))
    except (ValueError, CodecNotAvailable) as error:
        raise _unusable(head, str(error)) from error
    if (state.execution_id, state.sequence) != (head.execution_id, head.sequence):
        raise _unusable(head, f"it holds {state.execution_id} at {state.sequence}")
    return state


def _unusable(head: SnapshotHead, why: str) -> SnapshotUnusable:
    return SnapshotUnusable(
        execution_id=head.execution_id, sequence=head.sequence, why=why, is_checkpoint=head.is_checkpoint
    )


def _refusal(snapshot: Snapshot, *, is_needed: bool) -> str:
    head, body = snapshot
    if snapshot_digest(head, body) != head.digest:
        return "it is damaged: its digest is another"
    versions = (
        f"fold {head.fold_version} and codec {head.state_codec_version}, and this code has {' and '.join(_PRESENT)}"
    )
    if is_current(head) or (is_needed and is_readable(head)):
        return ""
    return f"it was made by {versions}"


def _is_read(written: str, present: str) -> bool:
    """Whether *present* code reads what was *written*: by the same major version, and no later minor one."""
    theirs, ours = ([int(part) for part in version.split(".")] for version in (written, present))
    return theirs[0] == ours[0] and theirs <= ours
