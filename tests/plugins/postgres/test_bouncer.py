"""Through PgBouncer in transaction mode, where the machine has one; elsewhere a stand-in has to do (test_together.py)."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from loom.devtools.conformance.admission_store import started
from loom.devtools.conformance.event_store import EventStoreConformance
from loom.devtools.conformance.leases import ClaimConformance
from loom.devtools.conformance.logs import REFUND, after, appended, first
from loom.plugins.postgres import PostgresStorage
from loom.spi.clock import VirtualClock
from loom.spi.errors import StoreUnavailable
from tests.plugins.postgres.bouncer import Bouncer
from tests.plugins.postgres.server import Server


@pytest.fixture(scope="module")
def bouncer(server: Server) -> Iterator[Bouncer]:
    program = shutil.which("pgbouncer")
    if program is None:
        pytest.skip("NO REAL POOLER IS TESTED: pgbouncer is not installed")
    bouncer = Bouncer(server, program)
    yield bouncer
    bouncer.stop()


class TestThroughPgBouncer(EventStoreConformance, ClaimConformance):
    @pytest.fixture
    async def store(self, bouncer: Bouncer, dsn: str, clock: VirtualClock) -> AsyncIterator[PostgresStorage]:
        store = PostgresStorage(bouncer.dsn(dsn) + "&pooler=transaction", clock=clock)
        yield store
        await store.close()


async def test_the_schema_and_lines_go_through_it_and_no_lock_stays(
    server: Server, bouncer: Bouncer, bare: str
) -> None:
    store = PostgresStorage(bouncer.dsn(bare) + "&pooler=transaction")

    stages = [(await started(store, name)).stage for name in ("a", "b", "c")]

    assert stages == ["begun", "begun", "line"]
    assert await server.execute("SELECT FROM pg_locks WHERE locktype = 'advisory'") == []
    await store.close()


async def test_who_does_not_say_that_it_is_a_pooler_is_told(bouncer: Bouncer, dsn: str) -> None:
    store = PostgresStorage(bouncer.dsn(dsn), connections=1)
    begun = await appended(store, first(REFUND))
    other = await asyncpg.connect(bouncer.dsn(dsn), statement_cache_size=0)
    async with other.transaction():  # so that the store is given another process of the server
        await other.fetch("SELECT 1")

        with pytest.raises(StoreUnavailable, match="pooler") as refused:
            await store.append([after(begun, REFUND, b"1")])

    assert "pooler=transaction" in refused.value.hint
    await other.close()
    await store.close()
