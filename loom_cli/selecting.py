"""Which runs a verb is for when it is given conditions instead of an id, and what it refuses among them. Pure.

A verb has a row in `VERBS`. A run that it cannot be for is never tried; what a run has come to since it was listed, the verb
itself finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from loom.spi.event_store import ExecutionQuery, ExecutionRow
from loom.spi.where import Where, fields_of

PAGE: Final = 1000
WAITS: Final = "waits for an answer"
_OPEN: Final = ("running", "suspended", "in_doubt", "diverged", "forked", "paused")


class Verb(NamedTuple):
    """A verb for many runs: its name, its two participles, and the *statuses* of the runs it is for unless the conditions say.

    *refusal* says why it is not for a run, None when it is. A run that is *failing* after it counts as failed.
    """

    name: str
    doing: str
    done: str
    statuses: tuple[str, ...]
    refusal: Callable[[ExecutionRow, int], str | None]
    failing: frozenset[str] = frozenset({"failed", "cancelled", "diverged"})


class Chosen(NamedTuple):
    """A run that fits, and why the verb *refused* it, None when it did not."""

    row: ExecutionRow
    refused: str | None


def query_of(where: Where, verb: Verb, *, after: ExecutionRow | None = None) -> ExecutionQuery:
    """Return what to ask the index for, page by page; *after* is the last row of the page before."""
    cursor = (after.index.started_at, after.execution_id) if after is not None else None
    says_status = any(field.name == "status" for field in fields_of(where))
    statuses = () if says_status else verb.statuses
    return ExecutionQuery(statuses=statuses, where=where, tips=True, limit=PAGE, before=cursor)


def chosen(rows: Iterable[ExecutionRow], verb: Verb, *, now_ms: int) -> list[Chosen]:
    """Return *rows* in their order, each with what the verb says to it."""
    return [Chosen(row, verb.refusal(row, now_ms)) for row in rows]


# -- what each verb refuses ------------------------------------------------------------------------------------------


def _not_failed(row: ExecutionRow, now_ms: int) -> str | None:
    return None if row.index.status == "failed" else f"is {_words(row)}, not failed"


def _cannot_go_on(row: ExecutionRow, now_ms: int) -> str | None:
    if row.index.ended:
        return f"is {_words(row)}"
    if row.index.status == "paused":
        return "is paused"
    if row.index.status in ("diverged", "forked", "running"):
        return None
    if row.index.wake_at is not None and row.index.wake_at <= now_ms:
        return None
    if row.index.gates != "[]":
        return WAITS
    return "sleeps" if row.index.wake_at is not None else None


def _has_ended(row: ExecutionRow, now_ms: int) -> str | None:
    return f"is {_words(row)}" if row.index.ended else None


def _cannot_pause(row: ExecutionRow, now_ms: int) -> str | None:
    return "is paused already" if row.index.status == "paused" else _has_ended(row, now_ms)


def _not_paused(row: ExecutionRow, now_ms: int) -> str | None:
    return None if row.index.status == "paused" else f"is {_words(row)}, not paused"


def _words(row: ExecutionRow) -> str:
    return row.index.status.replace("_", " ")


VERBS: Final = {
    verb.name: verb
    for verb in (
        Verb("retry", "retrying", "retried", ("failed",), _not_failed),
        Verb(
            "resume", "resuming", "resumed", ("running", "suspended", "in_doubt", "diverged", "forked"), _cannot_go_on
        ),
        Verb("cancel", "cancelling", "cancelled", _OPEN, _has_ended, frozenset({"failed", "diverged"})),
        Verb("pause", "pausing", "paused", _OPEN, _cannot_pause, frozenset({"diverged"})),
        Verb("unpause", "unpausing", "unpaused", ("paused",), _not_paused),
    )
}
