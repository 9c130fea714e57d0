"""What adapters share that keep the store in tables: how a row of the index is read, and the bounds of what is asked for."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Final

from loom.core.ids import ExecutionId, Incarnation
from loom.spi.event_store import Claim, ExecutionRow, IndexRow

SEQUENCE_END: Final = (1 << 63) - 1
"""Greater than every sequence, number and time."""

AFTER_EVERY_ID: Final = "\U0010ffff" * 201
"""What no id is as long as: a prefix followed by it is greater than every id with that prefix."""


def execution_row(found: Sequence[Any], *, now: int = 0) -> ExecutionRow:
    """Return a row of the index as it is at *now* (ms; 0: its lease was read as what is left of it).

    Its columns are: id, run, length, flow, status, started_at, updated_at, wake_at, gates, attributes, chain, link, parent,
    ended, driver, leased_until, released, whether its end was asked for, and ended_at.
    """
    execution_id, run, length, flow, status, started_at, updated_at, wake_at, gates, attributes, *rest = found
    chain, link, parent, ended, driver, leased_until, released, asked, ended_at = rest
    index = IndexRow(
        flow=flow,
        status=status,
        started_at=started_at,
        updated_at=updated_at,
        wake_at=wake_at,
        gates=gates,
        attributes=attributes,
        chain=chain,
        link=link,
        parent=parent,
        ended=bool(ended),
    )
    lease_ms = max(0, leased_until - now)
    held = driver, lease_ms, bool(released), bool(asked)
    return ExecutionRow(ExecutionId(execution_id), Incarnation(run), length, index, *held, ended_at)


def claim_of(row: ExecutionRow, *, had: str, released: bool, calls: int, gone: Container[str]) -> Claim:
    """Return the claim of an execution whose driver was *had* (empty: nobody), and what became of that driver."""
    if not had:
        return Claim(row, "due", calls)
    return Claim(row, "released" if released else "gone" if had in gone else "lapsed", calls, had)
