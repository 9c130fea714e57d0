"""Runs that are being cancelled by their deadline: no request says so, and no row of the index; their logs do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from loom.core.errors import LoomError
from loom.driving.run_reader import RunReader
from loom.spi.event_store import ExecutionRow


async def with_deadlines(storage: RunReader, rows: Sequence[ExecutionRow], now_ms: int) -> Sequence[ExecutionRow]:
    """Return *rows* with each marked as to be cancelled whose deadline has done so, at *now_ms*, and which has not ended."""
    return await asyncio.gather(*(_marked(storage, row, now_ms) if may_be_late(row) else _as_is(row) for row in rows))


def may_be_late(row: ExecutionRow) -> bool:
    """Whether the run of *row* may be cleaning up since its time is over. One that is parked then waits for time as well."""
    is_parked = row.index.status == "suspended" and row.index.wake_at is None and not row.driver
    return not (row.index.ended or row.cancel_asked or is_parked)


async def _as_is(row: ExecutionRow) -> ExecutionRow:
    return row


async def _marked(storage: RunReader, row: ExecutionRow, now_ms: int) -> ExecutionRow:
    with suppress(LoomError):  # a log that cannot be read is told by `loom show`
        if await _is_late(storage, row, now_ms):
            return replace(row, cancel_asked=True)
    return row


async def _is_late(storage: RunReader, row: ExecutionRow, now_ms: int) -> bool:
    from loom.driving.loading import load  # not for each list: that takes time, and few runs have a deadline
    from loom.kernel.codec import decode_events

    for started in decode_events(row.execution_id, await storage.read(row.execution_id, stop=1)):
        due_at = getattr(started.payload, "due_at", None)
        if due_at is None or due_at > now_ms:
            return False
    return (await load(storage, row.execution_id, row=row)).state.facts.cancel is not None
