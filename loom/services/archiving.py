"""Copying whole logs into an archive, before they are deleted."""

from __future__ import annotations

from typing import Protocol

from loom.core.errors import LoomError
from loom.spi.archive_store import ArchiveStore
from loom.spi.event_store import Head, Lane, Storage
from loom.spi.event_trim import EventTrim
from loom.spi.places import Located


class Readable(Storage, EventTrim, Protocol):
    """A store whose lanes can be read whole."""


class ArchiveIsTheStore(LoomError):
    """What was named as the archive is the store that something is to be moved out of."""

    code = "archive-is-the-store"
    hint = "Name another file or database for the archive: what is moved within one store takes as much room as before."

    def __init__(self, *, store: str) -> None:
        self.store = store
        super().__init__(f"the archive is the store itself ({store}); nothing was moved")


async def refuse_itself(storage: Storage, archive: ArchiveStore) -> None:
    """Refuse to archive a store in itself, by whatever name.

    Raises:
        ArchiveIsTheStore: it is the same object, file or database.
        StoreError: one of them cannot be used.
    """
    same = id(archive) == id(storage)  # two types, and yet one object may be both
    if not same and isinstance(storage, Located) and isinstance(archive, Located):
        same = await storage.place() == await archive.place()
    if same:
        raise ArchiveIsTheStore(store=storage.url)


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
