"""Chains: how a run that continues as new goes on, and which of its links is meant (kernel rule 11.2).

The links of a chain share a lane, and so an inbox: that of the first. Towards everybody else the chain is one run, which any
link's id names. What is asked of it is asked of its last link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from loom.core import facts as f
from loom.core.envelope import NO_METADATA, SIMULATED
from loom.core.errors import InvalidId
from loom.core.flow import Flow
from loom.core.ids import ID_LENGTH_MAX, ExecutionId
from loom.core.json import JsonObject
from loom.core.missing import MISSING
from loom.core.state import empty_state
from loom.driving.run_reader import RunReader
from loom.driving.stored_log import log_of
from loom.kernel.fold import RULES
from loom.kernel.journal import Journal
from loom.spi.event_store import Append, ExecutionQuery, ExecutionRow, Lane
from loom.spi.telling import tell

if TYPE_CHECKING:
    from loom.driving.driver import Driver

_WRITTEN_WITH_THE_END: Final = frozenset({"EXECUTION_STARTED", "TOPIC_HELD"})


class Aside:
    """A writer that writes nothing: what its journal has ready is written as a part of something else."""

    is_full = False

    def enqueue(self, journal: Journal, events: int, size: int) -> None:
        """Leave it to be taken."""

    def kick(self) -> None:
        """Leave it to be taken."""

    async def room(self) -> None:
        """Return at once."""


def successor(driver: Driver, flow: Flow[Any, Any], closing: Journal, input: Any) -> Append:
    """Return the first item of the link that follows the one that *closing* is of; *input* is encoded, `MISSING` for none.

    Raises:
        InvalidId: the id of the first link leaves no room for the number of another.
    """
    before = closing.state.facts
    assert closing.incarnation is not None
    first, life = before.chain or (closing.state.execution_id, closing.incarnation)
    link = before.link + 1
    run_id = ExecutionId(f"{first}~{link}")
    if len(run_id) > ID_LENGTH_MAX:
        raise InvalidId(kind="execution", text=run_id)
    fact = f.ExecutionStarted(
        flow=flow.id,
        version=flow.version,
        fingerprint=driver.fingerprint_of(flow),
        seed=driver.token(16),
        rules=dict(RULES),
        input=None if input is MISSING else input,
        defaulted=True if input is MISSING and flow.takes_input else None,
        attributes=dict(before.attributes) or None,
        chain=[first, life],
        link=link,
        parent=dict(before.parent) if before.parent else None,
        due_at=before.due_at,
    )
    journal = driver.journal(empty_state(run_id), None, drives=True, writer=Aside())
    about: JsonObject = {"principal": before.principal} if before.principal else {}
    if before.simulated:
        about[SIMULATED] = True  # for good: in every link
    journal.commit("EXECUTION_STARTED", fact, about or NO_METADATA)
    for topic in sorted(before.held):  # the inbox is that of the chain, and so is what is held back of it
        journal.commit("TOPIC_HELD", f.TopicHeld(topic))
    return journal.take()


async def begun_as_link(driver: Driver, run_id: ExecutionId) -> Journal | None:
    """Return the journal of a link that was written with the end of the one before it, and tell who listens.

    None when others have taken it up: who wrote it may have stood still for longer than its lease.
    """
    around = driver.around
    log, row = await log_of(around.storage, run_id), await around.storage.row(run_id)
    events = log.events
    if row is None or not all(event.type in _WRITTEN_WITH_THE_END for event in events):
        return None
    for listener in (around.on_event, *driver.listeners):
        if listener is not None:
            for event in events:
                tell(listener, event)
    return driver.journal(log.state(), row.incarnation, drives=True)


async def last_link(storage: RunReader, row: ExecutionRow) -> ExecutionRow:
    """Return the row of the last link of the chain that *row* is of; *row* itself where the chain was deleted meanwhile."""
    if row.index.status != "continued":
        return row
    rows = await storage.find(ExecutionQuery(chain=row.index.chain, tips=True, limit=1))
    return rows[0] if rows else row


async def lane_of(storage: RunReader, row: ExecutionRow) -> Lane | None:
    """Return the lane of the chain that *row* is of, None when its first link is gone."""
    first = row if row.index.link == 1 else await storage.row(ExecutionId(row.index.chain))
    return None if first is None else Lane(first.execution_id, first.incarnation)
