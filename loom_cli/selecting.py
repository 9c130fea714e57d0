"""Which runs a verb is for when it is given conditions instead of an id, and what it refuses among them. Pure.

A verb has a row in `VERBS`. A run that it cannot be for is never tried; what a run has come to since it was listed, the verb
itself finds out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from loom.spi.event_store import ExecutionQuery, ExecutionRow
from loom_cli.errors import Usage
from loom_cli.screen import STATUS_STYLES

PAGE: Final = 1000
_OPEN: Final = ("running", "suspended", "in_doubt", "diverged", "forked", "paused")
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGE: Final = re.compile(r"(\d{1,9})([smhd])")
_NAMES_HINT: Final = "write status=, flow=, before=, after= or attributes.NAME=, as in --where status=failed"


class Where(NamedTuple):
    """Conditions on a run: any of the *statuses*, any of the *flows*, and for each attribute any of its texts.

    It began before *before* and not before *after* (ms since the epoch). What is empty or None does not count.
    """

    statuses: tuple[str, ...] = ()
    flows: tuple[str, ...] = ()
    attributes: Mapping[str, tuple[str, ...]] = {}
    before: int | None = None
    after: int | None = None


class Verb(NamedTuple):
    """A verb for many runs: its name, its two participles, and the *statuses* of the runs it is for unless others are named.

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


def where_of(conditions: Sequence[str], *, now_ms: int) -> Where:
    """Return the conditions that were given as `NAME=VALUE`; of one name, any may hold.

    Raises:
        Usage: one is no condition.
    """
    given: dict[str, list[str]] = {}
    for condition in conditions:
        name, sign, value = condition.partition("=")
        if not (sign and name and value):
            raise Usage(f"--where {condition!r} is no condition", hint=_NAMES_HINT)
        given.setdefault(name, []).append(value)
    attributes = {name.removeprefix("attributes."): tuple(given[name]) for name in given if _is_attribute(name)}
    if unknown := sorted(set(given) - {"status", "flow", "before", "after"} - {n for n in given if _is_attribute(n)}):
        raise Usage(f"runs have no {unknown[0]!r} to go by", hint=_NAMES_HINT)
    return Where(
        tuple(_status(text) for text in given.get("status", ())),
        tuple(given.get("flow", ())),
        attributes,
        before=min((_moment(text, now_ms) for text in given.get("before", ())), default=None),
        after=max((_moment(text, now_ms) for text in given.get("after", ())), default=None),
    )


def query_of(where: Where, verb: Verb, *, after: ExecutionRow | None = None) -> ExecutionQuery:
    """Return what to ask the index for, page by page; *after* is the last row of the page before."""
    cursor = (where.before, "") if where.before is not None else None
    if after is not None:
        cursor = (after.index.started_at, after.execution_id)
    return ExecutionQuery(
        statuses=where.statuses or verb.statuses, flows=where.flows, tips=True, limit=PAGE, before=cursor
    )


def chosen(rows: Iterable[ExecutionRow], where: Where, verb: Verb, *, now_ms: int) -> list[Chosen]:
    """Return those of *rows* that fit, in their order, each with what the verb says to it."""
    return [Chosen(row, verb.refusal(row, now_ms)) for row in rows if fits(row, where)]


def fits(row: ExecutionRow, where: Where) -> bool:
    """Whether a run is as *where* says, as far as the index was not asked for that."""
    if where.after is not None and row.index.started_at < where.after:
        return False
    known = _attributes(row) if where.attributes else {}
    return all(name in known and _is_one_of(known[name], texts) for name, texts in where.attributes.items())


def _attributes(row: ExecutionRow) -> Mapping[str, Any]:
    try:
        known = json.loads(row.index.attributes)
    except ValueError:  # a row is but a cache, and this one is damaged
        return {}
    return known if isinstance(known, dict) else {}


def _is_one_of(value: Any, texts: Sequence[str]) -> bool:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text in texts


def _is_attribute(name: str) -> bool:
    return name.startswith("attributes.") and name != "attributes."


def _status(text: str) -> str:
    status = text.replace("-", "_").replace(" ", "_")
    if status not in STATUS_STYLES:
        raise Usage(f"{text!r} is no status", hint=f"one of {', '.join(STATUS_STYLES)}")
    return status


def _moment(text: str, now_ms: int) -> int:
    """Return when *text* is: an age such as `2h`, or a date or time, here where it names no zone."""
    if age := _AGE.fullmatch(text):
        return now_ms - int(age[1]) * _UNITS_MS[age[2]]
    try:
        return round(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        hint = "write an age, as in 2h or 3d, or a time, as in 2026-11-30T09:00"
        raise Usage(f"{text!r} is no time", hint=hint) from None


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
    if row.index.wake_at is not None:
        return None if row.index.wake_at <= now_ms else "sleeps"
    return "waits for an answer" if row.index.gates != "[]" else None


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
