"""Reading a run before something is done with it: its log, folded, and its row in the index."""

from __future__ import annotations

from typing import NamedTuple

from loom.core.collecting import collected_later
from loom.core.ids import execution_id
from loom.core.state import ExecutionState, empty_state
from loom.driving.chains import last_link
from loom.driving.errors import ExecutionNotFound
from loom.driving.reading import read_log, refuse_newer
from loom.kernel.errors import LogCorrupt
from loom.kernel.fold import fold
from loom.spi.event_store import ExecutionRow, Storage


class Loaded(NamedTuple):
    """A run as it was when its row was read, which says who holds it: the fold of as much of its log as the row knows of.

    Events that were written meanwhile are left out. Who drives on by what was read before them is refused by the first append;
    with them it would pass, though the row does not know yet who wrote them.
    """

    state: ExecutionState
    row: ExecutionRow


async def load(storage: Storage, id: str, *, row: ExecutionRow | None = None) -> Loaded:
    """Return the run *id*; of a chain its last link. *row* is its row, where that is known already.

    Raises:
        ExecutionNotFound: there is no such execution.
        LogNewerThanCode: it can be looked at only.
        LogCorrupt: events are missing.
    """
    run_id = execution_id(id)
    if row is None:
        row = await storage.row(run_id)
        if row is None:
            raise ExecutionNotFound(execution_id=id, store=storage.url)
        row = await last_link(storage, row)
    run_id = row.execution_id
    events = await read_log(storage, run_id, length=row.length)
    refuse_newer(events)
    if [event.sequence for event in events] != list(range(len(events))) or len(events) < row.length:
        why = f"the log should hold {row.length} events without a gap"
        raise LogCorrupt(execution_id=id, sequence=len(events), why=why)
    with collected_later():
        return Loaded(fold(events, empty_state(run_id)), row)
