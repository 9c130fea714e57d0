"""What `loom sweep content` says: how long contents are kept, and what became of them. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, NamedTuple

from loom.core.retention import TTL_MIN, RetentionPolicy
from loom.services.ageing import By, SweepTally, Why
from loom_cli.errors import Usage
from loom_cli.times import date_time
from loom_cli.wording import counted

KEPT_WORDS: Final[dict[Why, str]] = {
    "open": "a run that cites it has not ended",
    "young": "it was cited, or put, not so long ago",
    "held_by_end_clock": "a run that cites it ended not so long ago",
    "kept_by_touch": "somebody has put or cited it meanwhile",
    "pinned": "it is pinned",
}
BY_WORDS: Final[dict[By, str]] = {
    "uncited": "cited by no run that is there",
    "citation": "by the time of the citation",
    "end": "by the end of the run",
    "reopened": "by the time of the citation, by runs that were retried and ended not so long ago",
}
_UNITS: Final = (("GB", 10**9), ("MB", 10**6), ("KB", 10**3))


class SweepPass(NamedTuple):
    """A sweep: of which contents, by which TTL, until when their clock must have started (ms), and what came of it."""

    store: str
    ttl: timedelta
    before: int
    dry_run: bool
    tally: SweepTally
    interrupted: bool = False


def content_ttl_of(policy: RetentionPolicy | None, ttl: timedelta | None) -> timedelta:
    """Return for how long contents are kept: *ttl* where it is given, else that of the *policy*.

    Raises:
        Usage: neither says, or *ttl* is shorter than a minute.
    """
    if ttl is not None and ttl < TTL_MIN:
        raise Usage("--ttl is shorter than a minute", hint="the runs that cite a content are kept at least so long")
    if ttl is not None:
        return ttl
    if policy is None:
        raise Usage("how long is a content kept?", hint="--policy MODULE:NAME, or --ttl 30d")
    if policy.content is None:
        hint = "Write loom.retention_policy(terminal_ttl=..., content=timedelta(days=90)), or give --ttl 90d."
        raise Usage("the policy says nothing of contents", hint=hint)
    return policy.content


def sweep_json(done: SweepPass) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    tally = done.tally
    return {
        "store": done.store,
        "dry_run": done.dry_run,
        "interrupted": done.interrupted,
        "ttl_ms": round(done.ttl / timedelta(milliseconds=1)),
        "clock_before_at": done.before,
        "looked_at": tally.looked_at,
        "removed": {
            "contents": tally.removed,
            "bytes": tally.bytes,
            "uncited": tally.by["uncited"],
            "refs_aged_by_citation": tally.by["citation"],
            "refs_aged_by_end": tally.by["end"],
            "refs_of_reopened": tally.by["reopened"],
        },
        "kept": {why: tally.kept[why] for why in KEPT_WORDS},
        "forgotten": tally.forgotten,
        "tidied": tally.tidied,
    }


def sweep_lines(done: SweepPass) -> list[str]:
    """Return the same for people, a line each."""
    tally = done.tally
    kept = [f"kept {count:,}: {KEPT_WORDS[why]}" for why, count in tally.kept.most_common()]
    if tally.tidied:
        kept.append(f"tidied away {counted(tally.tidied, 'put', 'puts')} that had been cut off")
    if not tally.removed:
        what = f"of {counted(tally.looked_at, 'content', 'contents')}" if tally.looked_at else "no content"
        return [f"nothing to remove: {what} in {done.store}", *kept]
    contents, did = counted(tally.removed, "content", "contents"), "would remove" if done.dry_run else "removed"
    by = [f"  {count:,} {BY_WORDS[clock]}" for clock, count in tally.by.most_common()]
    aged = f"whose clock started before {date_time(done.before)}"
    return [f"{did} {contents} ({size_words(tally.bytes)}) {aged} in {done.store}", *by, *kept]


def size_words(size: int) -> str:
    """Return a number of bytes as people say it: `4.6 MB`."""
    for unit, bytes_ in _UNITS:
        if size >= bytes_:
            return f"{size / bytes_:.1f} {unit}"
    return counted(size, "byte", "bytes")
