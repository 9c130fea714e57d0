"""Listings over index rows that are in memory: which rows a query shows, in their order. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from loom.core.ids import ExecutionId
from loom.spi.event_store import ExecutionQuery, ExecutionRow, IndexRow
from loom.spi.where import Bodies, fits, no_bodies


def matches(execution_id: ExecutionId, index: IndexRow, query: ExecutionQuery) -> bool:
    """Whether *query* shows a row, but for what it says of tips, and its condition."""
    return (
        (not query.statuses or index.status in query.statuses)
        and (not query.flows or index.flow in query.flows)
        and (not query.with_gates or index.gates != "[]")
        and (query.due_before is None or (index.wake_at is not None and index.wake_at < query.due_before))
        and (not query.chain or index.chain == query.chain)
        and (not query.parent or index.parent == query.parent)
        and (query.ended is None or index.ended == query.ended)
        and (query.before is None or (index.started_at, execution_id) < query.before)
    )


def newest(rows: Iterable[ExecutionRow], query: ExecutionQuery, bodies: Bodies = no_bodies) -> list[ExecutionRow]:
    """Return those of the rows that match which fit its condition, newest first, up to its limit."""
    fitting = [row for row in rows if query.where is None or fits(row, query.where, bodies)]
    return sorted(fitting, key=_age, reverse=True)[: query.limit]


def listed(rows: Iterable[ExecutionRow], query: ExecutionQuery) -> list[ExecutionRow]:
    """Return what `ExecutionIndex.find` returns, of all the *rows* that there are."""
    rows = list(rows)
    last: dict[str, int] = {}
    for row in rows:
        last[row.index.chain] = max(row.index.link, last.get(row.index.chain, 0))
    found = [row for row in rows if matches(row.execution_id, row.index, query)]
    return newest([row for row in found if not query.tips or row.index.link == last[row.index.chain]], query)


def _age(row: ExecutionRow) -> tuple[int, str]:
    return row.index.started_at, row.execution_id
