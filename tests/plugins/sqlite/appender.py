"""A process of its own that appends to a log: `appender.py STORE ID COUNT [CHECKPOINT_BYTES] [FILE_BYTES_MAX]`.

It prints the payload of each append once that is acknowledged, and at the end `done` or the code of the error.
Several may share a log: who gets a conflict goes on from what is there.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import after, first
from loom.plugins.postgres import PostgresStorage
from loom.plugins.sqlite import SqliteStorage
from loom.plugins.sqlite.location import is_postgres
from loom.spi.errors import StoreError
from loom.spi.event_store import Appended, Storage


async def grow(store: Storage, execution_id: ExecutionId, count: int) -> None:
    head = await store.head(execution_id)
    place = Appended(head.incarnation, head.length) if head else None
    for number in range(count):
        payload = b"%d:%d" % (os.getpid(), number)
        place = await insist(store, execution_id, place, payload=payload)
        sys.stdout.write(payload.decode() + "\n")
        sys.stdout.flush()


async def insist(store: Storage, execution_id: ExecutionId, place: Appended | None, *, payload: bytes) -> Appended:
    """Append *payload* at the end, wherever that is by now."""
    while True:
        item = after(place, execution_id, payload) if place else first(execution_id, payload)
        [result] = await store.append([item])
        if isinstance(result, Appended):
            return result
        head = await store.head(execution_id)
        assert head is not None
        place = Appended(head.incarnation, head.length)


async def main(path: str, execution_id: str, count: str, checkpoint_bytes: str = "4194304", limit: str = "") -> None:
    asyncio.get_running_loop().slow_callback_duration = 10  # a busy machine is no fault of the store
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    store: Storage = (
        PostgresStorage(path) if is_postgres(path) else SqliteStorage(path, checkpoint_bytes=int(checkpoint_bytes))
    )
    try:
        await grow(store, ExecutionId(execution_id), int(count))
    except StoreError as error:
        sys.stdout.write(f"{error.code}\n")
    else:
        sys.stdout.write("done\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))  # and closes nothing: the end of the loop does
