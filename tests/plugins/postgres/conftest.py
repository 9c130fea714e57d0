"""One server for all tests of a process, and an empty database for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from loom.plugins.postgres import PostgresStorage
from loom.spi.clock import VirtualClock
from tests.plugins.postgres.server import NoPostgres, Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    try:
        server = Server()
    except NoPostgres as reason:
        pytest.skip(f"THE POSTGRES STORE IS NOT TESTED: {reason}")
    yield server
    server.remove()


@pytest.fixture
async def dsn(server: Server) -> str:
    """A database with a store that is empty."""
    return await server.emptied()


@pytest.fixture
async def bare(server: Server) -> str:
    """A database that holds nothing yet."""
    return await server.database()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def store(dsn: str, clock: VirtualClock) -> AsyncIterator[PostgresStorage]:
    store = PostgresStorage(dsn, clock=clock)
    yield store
    await store.close()
