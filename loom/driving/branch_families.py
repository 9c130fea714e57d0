"""The family of a run: all that was forked from one another, whose branches have names. Light: what only looks needs no more."""

from __future__ import annotations

from typing import Final

from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId, execution_id
from loom.driving.errors import ExecutionNotFound
from loom.driving.run_reader import RunReader
from loom.spi.event_fork import EventFork
from loom.spi.event_store import ExecutionRow
from loom.spi.ref_store import Family, RefStore

MAIN: Final = "main"
"""The name of the branch that counts, unless another is said; it stands for the run itself until it is moved."""
_DEPTH_MAX: Final = 1_000


async def family_of(storage: RunReader, id: str) -> Family:
    """Return the family of a run: the furthest of those that it is a fork of, a fork of a fork, which is still there.

    The logs of a chain are one run, whichever of them a fork began with, and the first of them is its id.

    Raises:
        ExecutionNotFound: there is no such run.
        InvalidDeclaration: the store keeps no branches.
    """
    if not isinstance(storage, EventFork) or not isinstance(storage, RefStore):
        raise InvalidDeclaration(
            f"{storage.url} keeps no branches", hint="Its adapter has to be an EventFork and a RefStore."
        )
    first = await _first(storage, execution_id(id))
    for _ in range(_DEPTH_MAX):
        source = await storage.source_of(first.execution_id)
        if source is None:
            break
        first = await _first(storage, source.execution_id)
    return Family(first.execution_id, first.incarnation)


async def _first(storage: RunReader, run_id: ExecutionId) -> ExecutionRow:
    row = await storage.row(run_id)
    if row is not None and row.index.chain != run_id:
        row = await storage.row(ExecutionId(row.index.chain))
    if row is None:
        raise ExecutionNotFound(execution_id=run_id, store=storage.url)
    return row
