"""Waiting for a run that anybody drives, by following its log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Final

from loom.core.ids import execution_id
from loom.core.state import ExecutionState, empty_state
from loom.driving.errors import ExecutionNotFound
from loom.driving.loading import loaded
from loom.driving.reading import refuse_newer
from loom.driving.stored_log import base_beyond
from loom.kernel.codec import decode_events
from loom.kernel.fold import fold
from loom.spi.event_store import Head, Storage

APPEARS_S: Final = 5.0
"""So long a run that is waited for may not exist yet."""


async def state_once(storage: Storage, id: str, until: Callable[[ExecutionState], bool]) -> ExecutionState:
    """Return the state of a run, of a chain that of the last link, once *until* says so of its newest.

    Raises:
        ExecutionNotFound: it does not exist, and has not appeared within some seconds.
    """
    run_id = execution_id(id)
    row = await storage.row(run_id)
    state = empty_state(run_id) if row is None else (await loaded(storage, row)).state
    if row is not None and until(state) and state.length >= _length(await storage.head(run_id)):
        return state if state.facts.next is None else await state_once(storage, state.facts.next, until)
    feed = storage.subscribe(run_id, start=state.length)
    try:
        async with asyncio.timeout(None) as patience:
            if row is None:
                patience.reschedule(asyncio.get_running_loop().time() + APPEARS_S)
            async for record in feed:
                patience.reschedule(None)
                if record.sequence > state.length:
                    state = await base_beyond(storage, run_id, state.length) or state
                if record.sequence >= state.length:
                    refuse_newer(events := decode_events(run_id, [record]))
                    state = fold(events, state)
                if until(state) and state.length >= _length(await storage.head(run_id)):
                    break
    except TimeoutError:
        pass
    finally:
        if isinstance(feed, AsyncGenerator):
            await feed.aclose()
    if state.status == "new":
        raise ExecutionNotFound(execution_id=id, store=storage.url)
    return state if state.facts.next is None else await state_once(storage, state.facts.next, until)


def _length(head: Head | None) -> int:
    return head.length if head is not None else 0
