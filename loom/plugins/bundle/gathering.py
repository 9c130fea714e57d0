"""Which logs belong into a bundle: all links of the runs that are meant, what those have spawned, and so on down.

A run is looked at before its children: a child is written before its parent's log tells of it, so what a log that was read tells of
is found. With *forks* the forks of each come along, and theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from loom.core.ids import ExecutionId
from loom.driving.errors import ExecutionNotFound
from loom.plugins.bundle.shapes import LogEntry
from loom.spi.event_fork import EventFork
from loom.spi.event_store import ExecutionQuery, ExecutionRow, Storage
from loom.spi.ref_store import Family, RefMove, RefStore

_PAGE: Final = 1_000


class Wanted(NamedTuple):
    """What is to be in a bundle: the *runs*, by the ids of their first links, and what is below them; their *forks* as well."""

    runs: Sequence[ExecutionId]
    forks: bool = False


async def gathered(storage: Storage, wanted: Wanted) -> list[LogEntry]:
    """Return all logs that are *wanted*, as they stand now, without their parts: those that belong to others after them.

    Raises:
        ExecutionNotFound: one of the runs is not there.
    """
    found: dict[ExecutionId, LogEntry] = {}
    level = list(wanted.runs)
    while level:
        below: set[ExecutionId] = set()
        for chain in level:
            for log in await _links(storage, chain):
                found[log.row.execution_id] = log
                below.update(await _below(storage, log.row, forks=wanted.forks))
        level = sorted(below - found.keys())
    return list(found.values())


async def _links(storage: Storage, chain: ExecutionId) -> list[LogEntry]:
    rows = sorted(await _found(storage, ExecutionQuery(chain=chain, limit=_PAGE)), key=lambda row: row.index.link)
    if not rows:
        raise ExecutionNotFound(execution_id=chain, store=storage.url)
    forked = await storage.source_of(chain) if isinstance(storage, EventFork) else None
    first = LogEntry(rows[0], source=forked, names=await _names(storage, rows[0]) if forked is None else {})
    return [first, *(LogEntry(row) for row in rows[1:])]


async def _below(storage: Storage, row: ExecutionRow, *, forks: bool) -> set[ExecutionId]:
    children = await _found(storage, ExecutionQuery(parent=row.execution_id, limit=_PAGE))
    found = {ExecutionId(each.index.chain) for each in children}
    if forks and isinstance(storage, EventFork):
        found |= {each.execution_id for each in await storage.forks_of(row.execution_id, row.incarnation)}
    return found


async def _names(storage: Storage, row: ExecutionRow) -> dict[str, Sequence[RefMove]]:
    if not isinstance(storage, RefStore):
        return {}
    family = Family(row.execution_id, row.incarnation)
    return {name: await storage.ref_moves(family, name) for name in await storage.refs(family)}


async def _found(storage: Storage, query: ExecutionQuery) -> list[ExecutionRow]:
    rows: list[ExecutionRow] = []
    cursor: tuple[int, str] | None = None
    while page := await storage.find(
        ExecutionQuery(chain=query.chain, parent=query.parent, limit=_PAGE, before=cursor)
    ):
        rows += page
        if len(page) < _PAGE:
            break
        cursor = page[-1].index.started_at, page[-1].execution_id
    return rows
