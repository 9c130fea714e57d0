"""Where the runs of the crash tests live: a place is a folder, for what they do to the world, and a store of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from loom.core.ids import ExecutionId
from loom.plugins.postgres import PostgresStorage
from loom.plugins.sqlite import SqliteStorage
from loom.plugins.sqlite.location import is_postgres
from loom.spi.errors import StoreNotFound, StoreUnavailable
from loom.spi.event_store import Storage
from tests.plugins.postgres.server import PowerCut, Server

BACK_S: Final = 30.0
"""So long a server may take to come back."""

Row = tuple[int, str, int, bytes, bytes | None]
"""An event: sequence, type, at, payload, metadata."""


class Place(NamedTuple):
    """A folder, the name of the store, and how the server of that can be made to fall, if it has one."""

    folder: Path
    store: str
    power_cut: PowerCut | None = None

    def storage(self, **options: Any) -> SqliteStorage | PostgresStorage:
        return (PostgresStorage if is_postgres(self.store) else SqliteStorage)(self.store, **options)

    def logs(self) -> dict[str, list[Row]]:
        """Return what is durable of every run, as anybody may read it; a server that is coming back is waited for."""
        until = time.monotonic() + (BACK_S if self.power_cut else 0)
        while True:
            try:
                return asyncio.run(_logs(self.storage(readonly=True)))
            except StoreUnavailable:
                if time.monotonic() > until:
                    raise


class Ground:
    """Makes places. On some stores all takes longer: tests that sample take *share* of what they take on SQLite."""

    def __init__(self, folder: Path, store_of: Callable[[Path], str], *, server: Server | None = None) -> None:
        self._folder, self._store_of, self._server = folder, store_of, server
        self.share = 1.0 if server is None else 0.1

    def place(self, name: str) -> Place:
        """Return a new place, which holds nothing yet."""
        folder = self._folder / name
        folder.mkdir()
        return Place(folder, self._store_of(folder), self._server.power_cut if self._server else None)

    def few(self, number: int) -> int:
        """Return how many are to be tried where SQLite has time for *number*."""
        return max(1, round(number * self.share))


def on_sqlite(folder: Path) -> Ground:
    return Ground(folder, lambda place: str(place / "loom.db"))


@contextmanager
def on_postgres(folder: Path, server: Server) -> Iterator[Ground]:
    """Give each place a database, whose store is there and empty; only the last two are kept, the others are dropped."""
    made: list[str] = []

    def store_of(place: Path) -> str:
        made.append(asyncio.run(server.with_store()))
        while len(made) > 2:
            asyncio.run(server.drop(made.pop(0)))
        return made[-1]

    yield Ground(folder, store_of, server=server)
    for dsn in made:
        asyncio.run(server.drop(dsn))


async def _logs(storage: Storage) -> dict[str, list[Row]]:
    try:
        return {name: await _log(storage, name) for name in await storage.ids()}
    except StoreNotFound:
        return {}
    finally:
        await storage.close()


async def _log(storage: Storage, name: ExecutionId) -> list[Row]:
    return [(*event[:4], event.metadata or None) for event in await storage.read(name)]
