"""What `loom retention run` says: how long is kept, and what became of what has ended. Pure, but for `policy_at`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from loom.core.errors import InvalidDeclaration
from loom.core.retention import TTL_MIN, RetentionPolicy
from loom.services.expiry import Tally, Why
from loom.services.snapshot_pruning import Pruned
from loom_cli.errors import Usage
from loom_cli.times import date_time
from loom_cli.wording import counted

KEPT_WORDS: Final[dict[Why, str]] = {
    "child": "has a child or a fork that has not ended, or not for so long",
    "tick": "was started by a schedule that has not put it on record",
    "gone": "was deleted meanwhile",
    "changed": "went on meanwhile",
    "open": "was retried meanwhile",
    "held": "is held by a driver",
    "asked": "was asked something since it ended",
    "kin": "has a relative that came meanwhile",
    "pinned": "is pinned, or has a relative that is",
    "place": "has taken the place of a run that has not ended",
}


class Pass(NamedTuple):
    """A retention pass: over which store, by which TTL, until when a run must have ended (ms), and what came of it.

    *pruned* is None where snapshots were left alone.
    """

    store: str
    ttl: timedelta
    before: int
    dry_run: bool
    tally: Tally
    interrupted: bool = False
    pruned: Pruned | None = None


def policy_at(reference: str, *, folder: Path) -> RetentionPolicy:
    """Return the policy that `module:attribute` stands for.

    Raises:
        AppNotFound, AppNotImportable: it stands for nothing.
        InvalidDeclaration: what is there is no policy.
    """
    from loom_cli.app_location import named_object

    found = named_object(reference, "--policy", folder=folder)
    if not isinstance(found, RetentionPolicy):
        hint = "Write POLICY = loom.retention_policy(terminal_ttl=timedelta(days=30)) in that module."
        raise InvalidDeclaration(f"{reference} is {type(found).__name__}, no retention policy", hint=hint)
    return found


def ttl_of(policy: RetentionPolicy | None, ttl: timedelta | None) -> timedelta:
    """Return for how long what has ended is kept: *ttl* where it is given, else that of the *policy*.

    Raises:
        Usage: neither says, or *ttl* is shorter than a run has to be kept.
    """
    if ttl is not None and ttl < TTL_MIN:
        raise Usage("--ttl is shorter than a minute", hint="an id stays taken at least so long after its run has ended")
    if ttl is not None:
        return ttl
    if policy is None:
        raise Usage("how long is kept what has ended?", hint="--policy MODULE:NAME, or --ttl 30d")
    return policy.terminal_ttl


def retention_json(done: Pass) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    tally = done.tally
    return {
        "store": done.store,
        "dry_run": done.dry_run,
        "interrupted": done.interrupted,
        "ttl_ms": round(done.ttl / timedelta(milliseconds=1)),
        "ended_before_at": done.before,
        "deleted": {
            "families": tally.families,
            "runs": tally.runs,
            "logs": tally.logs,
            "events": tally.events,
        },
        "kept": dict(sorted(tally.kept.items())),
        "snapshots": done.pruned._asdict() if done.pruned is not None else None,
    }


def lines_of(done: Pass) -> list[str]:
    """Return the same for people, a line each."""
    tally, ended = done.tally, f"ended before {date_time(done.before)}"
    kept = [f"kept {count:,}: it {KEPT_WORDS[why]}" for why, count in tally.kept.most_common()]
    if done.pruned is not None and done.pruned.snapshots:
        pruned = counted(done.pruned.snapshots, "snapshot", "snapshots")
        kept.append(f"{'would prune' if done.dry_run else 'pruned'} {pruned} ({done.pruned.bytes:,} bytes)")
    if not tally.runs:
        return [f"nothing to delete: no run {ended} in {done.store}" if not tally.kept else "nothing to delete", *kept]
    runs, events = counted(tally.runs, "run", "runs"), counted(tally.events, "event", "events")
    did = "would delete" if done.dry_run else "deleted"
    return [f"{did} {runs} ({events}) that {ended} in {done.store}", *kept]
