"""A snapshot as the command shows it: what it is, and the state that it holds. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from loom.core.sides import KINDS
from loom.core.state import FOLD_VERSION, ExecutionState
from loom.core.views import awaited_messages, open_gates
from loom.driving.snapshots import is_current
from loom.driving.state_codec import STATE_CODEC_VERSION
from loom.lenses.folding import state_json
from loom.spi.snapshot_store import SnapshotHead
from loom_cli.times import date_time
from loom_cli.wording import counted, identity, one_line, value_text

OPEN_MAX = 10
"""So many of the calls that stand open are named for people; JSON has all of them."""


def head_json(head: SnapshotHead) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    return {
        "execution_id": head.execution_id,
        "incarnation": head.incarnation,
        "sequence": head.sequence,
        "codec": head.codec,
        "size": head.size,
        "checkpoint": head.is_checkpoint,
        "at": head.at,
        "fold": head.fold_version,
        "state_codec": head.state_codec_version,
        "current": is_current(head),
        "digest": head.digest,
    }


def snapshot_json(head: SnapshotHead, state: ExecutionState) -> dict[str, Any]:
    """Return the same with the whole *state*."""
    return {**head_json(head), "state": state_json(state)}


def head_rows(head: SnapshotHead) -> list[tuple[str, str]]:
    """Return what a snapshot is, for people: names and words."""
    versions = f"by fold {head.fold_version} and state codec {head.state_codec_version}"
    present = f", and this Loom has {FOLD_VERSION} and {STATE_CODEC_VERSION}" if not is_current(head) else ""
    rows = [
        ("codec", head.codec),
        ("size", counted(head.size, "byte", "bytes")),
        ("made", f"{date_time(head.at)}, {versions}{present}"),
        ("digest", head.digest),
    ]
    return [*rows, ("checkpoint", "events up to it were taken out of the log")] if head.is_checkpoint else rows


def listed(head: SnapshotHead, points: Sequence[int] = ()) -> tuple[str, ...]:
    """Return the line of a snapshot in a listing; *points* are where in compacted history its run can be forked."""
    told = "checkpoint" if head.is_checkpoint else "" if is_current(head) else "not used: by another version"
    told = "fork point" if head.sequence in points else told
    by = f"fold {head.fold_version}, state codec {head.state_codec_version}"
    return f"{head.sequence:,}", head.codec, f"{head.size:,}", date_time(head.at), by, told


def state_rows(state: ExecutionState) -> list[tuple[str, str]]:
    """Return what *state* says, for people: names and words."""
    facts = state.facts
    waits = [f"gate {gate.gate}" for gate in open_gates(state)]
    waits += [f"message {message.topic}" for message in awaited_messages(state)]
    kinds = Counter(KINDS.get(settled.start.type, "event") for settled in state.settled)
    opened = [identity(state.open[start]) for start in sorted(state.open)]
    rows = [
        ("status", state.status),
        ("flow", f"{facts.flow} version {facts.version}"),
        ("input", one_line(value_text(facts.input)) if facts.input is not None else ""),
        (
            "settled",
            ", ".join(_counted(kind, kinds[kind]) for kind in sorted(kinds, key=lambda kind: (-kinds[kind], kind))),
        ),
        ("open", _some(opened)),
        ("waits for", _some(waits)),
        ("result", one_line(value_text(facts.result)) if facts.result is not None else ""),
    ]
    return [row for row in rows if row[1]]


def _counted(kind: str, count: int) -> str:
    return counted(count, kind, f"{kind}s")


def _some(names: Sequence[str]) -> str:
    more = len(names) - OPEN_MAX
    return ", ".join(names[:OPEN_MAX]) + (f" and {more:,} more" if more > 0 else "")
