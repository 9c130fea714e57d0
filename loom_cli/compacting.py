"""`loom compact`: how it was asked for, and what came of it, as JSON and as lines. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from loom.kernel.fold import EVENTS, USER_PREFIX
from loom.services.compacting import Compacted, Wish
from loom_cli.errors import Usage
from loom_cli.screen import Column, Styled
from loom_cli.wording import counted

COLUMNS: Final = (
    Column("ID"),
    Column("EVENTS", right=True),
    Column("BYTES", right=True),
    Column("KEPT", right=True),
    Column("REQUESTS", right=True),
    Column("UP TO", right=True),
)


def wish_of(keep: Sequence[str], through: int | None, ids: Sequence[str], *, zstd: bool, dry_run: bool) -> Wish:
    """Return how runs are to be compacted.

    Raises:
        Usage: no event is of a type that is to be kept, or a number of an event goes with more than one run.
    """
    if through is not None and len(ids) != 1:
        raise Usage("--through is the number of an event of one run", hint="name one run, or leave it off")
    types = [type_ if type_.startswith(USER_PREFIX) else type_.upper() for type_ in keep]
    for type_ in types:
        if not type_.startswith(USER_PREFIX) and not any(fnmatchcase(each, type_) for each in EVENTS):
            near = difflib.get_close_matches(type_, EVENTS) or ["STEP_COMPLETED"]
            raise Usage(f"no event is of type {type_!r}", hint=f"--keep {near[0]}, or --keep 'user.*'")
    return Wish(keep=types, through=through, codec="zstd" if zstd else "json", dry_run=dry_run)


def compacted_json(done: Compacted, *, dry_run: bool) -> dict[str, Any]:
    """Return the shape of docs/reference/json.md."""
    return {
        "id": done.execution_id,
        "events": done.events,
        "bytes": done.size,
        "kept": done.kept,
        "requests": done.requests,
        "through": done.through,
        "length": done.length,
        "dry_run": dry_run,
    }


def cells(done: Compacted) -> Sequence[str | Styled]:
    """Return a run as a line of a table."""
    through = "" if done.through is None else str(done.through)
    return (
        done.execution_id,
        f"{done.events:,}",
        f"{done.size:,}",
        f"{done.kept:,}",
        f"{done.requests:,}",
        Styled(through, "dim"),
    )


def summary(done: Sequence[Compacted], *, failed: int, left: int, dry_run: bool) -> str:
    """Return what was moved in all, in words."""
    events, requests = sum(each.events for each in done), sum(each.requests for each in done)
    moved = f"{counted(events, 'event', 'events')} and {counted(requests, 'request', 'requests')}"
    runs = counted(len(done), "run", "runs")
    words = f"{moved} of {runs} would be moved; nothing was" if dry_run else f"moved {moved} of {runs} to the archive"
    if failed:
        words += f"; {counted(failed, 'run', 'runs')} went wrong"
    return f"{words}; {counted(left, 'run', 'runs')} untouched" if left else words
