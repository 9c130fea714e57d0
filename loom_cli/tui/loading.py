"""Reading a log for somebody who looks at it meanwhile: its beginning at once, the rest in pieces, then what happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Final, cast

from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.core.links import link_named
from loom.driving import chains
from loom.driving.errors import ExecutionNotFound
from loom.driving.stored_log import checkpoint_of, has_gap, log_of
from loom.kernel.codec import decode_events
from loom.spi.event_store import EventRecord, Storage
from loom_cli.ids import meant_link
from loom_cli.tui.open_log import OpenLog

Event = EventEnvelope[Any]

_FIRST_BYTES: Final = 64 << 10
_PAGE_BYTES: Final = 1 << 20


async def opened(storage: Storage, text: str) -> OpenLog:
    """Return the log of the run that *text* means, with its beginning read; the rest is brought by `rest`.

    Of a chain, unless *text* names a link (`ID~2`), it is the last one. A log of which events were moved away is read whole.

    Raises:
        AmbiguousExecution, ExecutionNotFound: *text* means none, or several.
        LogCorrupt: a record cannot be read.
        SnapshotUnusable: the checkpoint cannot be read that stands for events which were moved away.
    """
    link = await meant_link(storage, text)
    run_id = ExecutionId(link_named(link) or link)
    if link_named(link) is None and (row := await storage.row(run_id)) is not None:
        run_id = (await chains.last_link(storage, row)).execution_id
    head = await storage.head(run_id)
    if head is None:
        raise ExecutionNotFound(execution_id=text, store=storage.url)
    if await checkpoint_of(storage, run_id, head.incarnation) is not None:
        return await _whole(storage, run_id)
    log = OpenLog(run_id)
    log.total = head.length
    records = await storage.read(run_id, limit_bytes=_FIRST_BYTES)
    if has_gap([record.sequence for record in records]):  # compacted meanwhile
        return await _whole(storage, run_id)
    log.add(decode_events(run_id, records))
    log.is_read = len(log.rows) >= log.total
    return log


async def _whole(storage: Storage, run_id: ExecutionId) -> OpenLog:
    stored = await log_of(storage, run_id)
    log = OpenLog(run_id, base=stored.base)
    log.add(stored.events)
    log.is_read = True
    return log


async def rest(storage: Storage, log: OpenLog) -> AsyncGenerator[Sequence[EventRecord]]:
    """Yield the records that follow what *log* has, page by page."""
    while page := await storage.read(log.run_id, start=log.moments.last + 1, limit_bytes=_PAGE_BYTES):
        yield page


async def followed(storage: Storage, log: OpenLog) -> AsyncGenerator[Event]:
    """Yield each further event as it becomes durable, whoever drives the run, and go on for ever."""
    feed: AsyncIterator[EventRecord] = storage.subscribe(log.run_id, start=log.moments.last + 1)
    async with aclosing(cast("AsyncGenerator[EventRecord]", feed)):
        async for record in feed:
            for event in decode_events(log.run_id, [record]):
                yield event
