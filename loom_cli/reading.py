"""What the reading commands ask of a store: one log, by any beginning of its id that is unique."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.links import link_named
from loom.driving import chains
from loom.driving.errors import ExecutionNotFound
from loom.driving.run_reader import RunReader
from loom.driving.stored_log import StoredLog, log_of
from loom.lenses.inbox import UnreadMessage, unread_messages
from loom.spi.event_store import ExecutionQuery, ExecutionRow, Request
from loom_cli.ids import meant_link

Event = EventEnvelope[Any]

CHILDREN_MAX: Final = 1000
"""So many children of a run are looked at, the newest."""


async def log_meant(storage: RunReader, text: str) -> StoredLog:
    """Return the log of the execution that *text* means: of a chain, unless *text* names a link (`ID~2`), the last one.

    Raises:
        AmbiguousExecution, ExecutionNotFound: *text* means none, or several.
        LogCorrupt: a record cannot be read.
        SnapshotUnusable: the checkpoint cannot be read that stands for events which were moved away.
    """
    run_id = await log_named(storage, text)
    log = await log_of(storage, run_id)
    if not log.events:  # deleted since we found it
        raise ExecutionNotFound(execution_id=text, store=storage.url)
    return log


async def log_named(storage: RunReader, text: str) -> ExecutionId:
    """Return the id of the log that *text* means; see `log_meant`.

    Raises:
        AmbiguousExecution, ExecutionNotFound: *text* means none, or several.
    """
    link = await meant_link(storage, text)
    run_id = ExecutionId(link_named(link) or link)
    if link_named(link) is None and (row := await storage.row(run_id)) is not None:
        run_id = (await chains.last_link(storage, row)).execution_id
    return run_id


async def lane_of(storage: RunReader, run_id: ExecutionId) -> Sequence[Request]:
    """Return the requests of an execution that its log does not hold yet."""
    row = await storage.row(run_id)
    lane = None if row is None else await chains.lane_of(storage, row)
    return await storage.pending(*lane) if lane is not None else ()


async def unread_of(storage: RunReader, run_id: ExecutionId) -> list[UnreadMessage]:
    """Return the messages of an execution that no receive has taken."""
    return unread_messages(await lane_of(storage, run_id))


async def children_of(storage: RunReader, events: Sequence[Event]) -> Sequence[ExecutionRow]:
    """Return the rows of the runs that the execution with the log *events* has started, the newest first."""
    chain = getattr(events[0].payload, "chain", None)
    parent = chain[0] if chain else events[0].execution_id
    return await storage.find(ExecutionQuery(parent=parent, tips=True, limit=CHILDREN_MAX))
