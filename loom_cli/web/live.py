"""What happens, as it happens: new events of the run that is looked at, and that the list of runs has changed.

Nothing is kept for a listener. Each event has its number in the log as its id; a browser that was cut off says the last one it had,
and is sent what came after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Any, Final, TypeAlias, cast

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.driving.run_reader import RunReader
from loom.spi.event_store import ExecutionQuery
from loom_cli.web.inspector import LINES_MAX, Inspector
from loom_cli.web.shortening import compact

Json: TypeAlias = Any
Sent: TypeAlias = dict[str, Any]

POLL_S: Final = 1.0
"""How often the list is looked at; a run is followed by what the store hears of it."""
_LOOKED_AT: Final = 200


async def live(
    inspector: Inspector, run_id: ExecutionId | None, after: int, closing: asyncio.Event
) -> AsyncGenerator[Sent]:
    """Yield what happens from now on, until *closing*: `runs` when the list has changed, `events` of the run beyond number *after*."""
    ready: asyncio.Queue[Sent | None] = asyncio.Queue(maxsize=8)
    followers = [asyncio.create_task(_list_changes(inspector.store, ready))]
    if run_id is not None:
        followers.append(asyncio.create_task(_events(inspector, run_id, after, ready)))
    try:
        followers.append(asyncio.create_task(_closed(closing, ready)))
        yield {"event": "hello", "data": "{}"}
        while (sent := await ready.get()) is not None:
            yield sent
    finally:
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)


async def _closed(closing: asyncio.Event, ready: asyncio.Queue[Sent | None]) -> None:
    await closing.wait()
    await ready.put(None)


async def _list_changes(store: RunReader, ready: asyncio.Queue[Sent | None]) -> None:
    """Tell that the newest runs are others, or stand otherwise, than when they were last looked at."""
    seen: list[Any] | None = None
    while True:
        with suppress(LoomError):  # the store is away for a moment: it is asked again
            rows = await store.find(ExecutionQuery(tips=True, limit=_LOOKED_AT))
            stands = [(row.execution_id, row.incarnation, row.length, row.driver, row.cancel_asked) for row in rows]
            if seen is not None and stands != seen:
                await ready.put({"event": "runs", "data": "{}"})
            seen = stands
        await asyncio.sleep(POLL_S)


async def _events(inspector: Inspector, run_id: ExecutionId, after: int, ready: asyncio.Queue[Sent | None]) -> None:
    """Send the lines of what comes after event number *after*, as many at a time as are there."""
    while True:
        feed: AsyncIterator[Any] = inspector.store.subscribe(run_id, start=after + 1)
        async with aclosing(cast("AsyncGenerator[Any]", feed)):
            async for record in feed:
                if record.sequence <= after:
                    continue
                try:
                    page = await _page(inspector, run_id, after)
                except LoomError:
                    break
                for sent in page:
                    after = max(after, int(sent["id"]))
                    await ready.put(sent)
        await asyncio.sleep(POLL_S)


async def _page(inspector: Inspector, run_id: ExecutionId, after: int) -> list[Sent]:
    kept = await inspector.kept.get(run_id)
    rows = kept.timeline.rows
    start = next((at for at in range(len(rows), 0, -1) if rows[at - 1].sequence <= after), 0)
    sent: list[Sent] = []
    while start < len(rows):
        told = await inspector.lines(run_id, start=start, limit=LINES_MAX)
        start += len(told["lines"])
        sent.append({"event": "events", "id": str(told["lines"][-1]["n"]), "data": compact(told)})
    return sent
