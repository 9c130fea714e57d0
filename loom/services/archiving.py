"""Copying whole logs into an archive, before they are deleted."""

from __future__ import annotations

from typing import Protocol

from loom.spi.archive_store import ArchiveStore
from loom.spi.event_store import Head, Lane, Storage
from loom.spi.event_trim import EventTrim


class Readable(Storage, EventTrim, Protocol):
    """A store whose lanes can be read whole."""


async def archive_log(store: Readable, archive: ArchiveStore, head: Head) -> bool:
    """Copy what the log at *head* holds, and all of its lane, to *archive*; return whether the log still stands there.

    Where it does, all that was copied is of that life: no log comes back to where it stood.

    Raises:
        ArchiveConflict: the archive has something else there.
        StoreError: some of it may be copied; asking again is safe.
    """
    run_id, life, length = head
    start = 0
    while start < length and (page := await store.read(run_id, start=start, stop=length)):
        if await store.head(run_id) != head:
            return False
        await archive.archive(run_id, life, page)
        start = page[-1].sequence + 1
    lane, after = Lane(run_id, life), 0
    while requests := await store.consumed(lane, after=after):
        await archive.archive_requests(run_id, life, requests)
        after = requests[-1].number
    if pending := await store.pending(run_id, life):
        await archive.archive_requests(run_id, life, pending)
    return await store.head(run_id) == head
