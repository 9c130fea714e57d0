"""What runs wait for that wait for no gate: their topics, which the index does not tell, but the end of their logs does.

A parked run has asked for its messages shortly before it parked, so few events are read, and as stored: to list a hundred runs
nothing is loaded that drives. Where the end of a log does not tell, neither does this.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.driving.run_reader import LogReader
from loom.spi.event_store import EventRecord, ExecutionRow
from loom_cli.times import distance, moment
from loom_cli.wording import child_of

_TAIL: Final = 64
_ENDS: Final = frozenset({"MESSAGE_RECEIVED", "MESSAGE_TIMED_OUT"})
_SHOWN_MAX: Final = 3


class Wait(NamedTuple):
    """One message that a run waits for: its topic, and until when (ms since the epoch), None for ever."""

    topic: str
    due_at: int | None


def may_wait(row: ExecutionRow) -> bool:
    """Whether the run of *row* is parked, and for no gate."""
    return row.index.status == "suspended" and row.index.gates == "[]"


async def waits_of(storage: LogReader, rows: Sequence[ExecutionRow]) -> Mapping[ExecutionId, Sequence[Wait]]:
    """Return what each of *rows* waits for, as far as the end of its log tells; a log that cannot be read tells nothing."""
    found = await asyncio.gather(*(_waits(storage, row) for row in rows))
    return {row.execution_id: waits for row, waits in zip(rows, found, strict=True) if waits}


async def _waits(storage: LogReader, row: ExecutionRow) -> Sequence[Wait]:
    with suppress(LoomError, ValueError, TypeError, KeyError):
        return open_waits(await storage.read(row.execution_id, start=max(row.length - _TAIL, 0)))
    return ()


def open_waits(records: Sequence[EventRecord]) -> list[Wait]:
    """Return the messages that *records*, the end of the log of a parked run, ask for and do not have."""
    waits: dict[int, Wait] = {}
    for record in records:
        if record.type == "MESSAGE_AWAITED":
            asked: Mapping[str, Any] = json.loads(record.payload)
            waits[record.sequence] = Wait(asked["topic"], asked.get("due_at"))
        elif record.type in _ENDS:
            waits.pop(json.loads(record.payload)["start"], None)
        elif record.type in {"SCOPE_CUT", "SCOPE_TIMED_OUT", "CANCEL_REQUESTED"}:
            waits.clear()  # which of them stand is not for this to say
    return list(waits.values())


def waits_words(waits: Sequence[Wait], wake_at: int | None, now_ms: int) -> str:
    """Return what *waits* are for, and until when the first of them, or a sleep beside them, ends by itself."""
    children = [child for wait in waits if (child := child_of(wait.topic)) is not None]
    topics = [wait.topic for wait in waits if child_of(wait.topic) is None]
    names = [*dict.fromkeys(topics), *(f"the child {child}" for child in children)]
    more = [f"{len(names) - _SHOWN_MAX} more"] if len(names) > _SHOWN_MAX else []
    told = ", ".join([*names[:_SHOWN_MAX], *more])
    if wake_at is None:
        return told
    if wake_at not in {wait.due_at for wait in waits}:
        return f"{told}, or the clock, {distance(wake_at, now_ms)}"
    return f"{told}, until {moment(wake_at, now_ms)}"
