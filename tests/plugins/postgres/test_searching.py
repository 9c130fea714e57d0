"""A condition finds in Postgres what it finds in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loom.plugins.postgres import PostgresStorage, reading
from loom.spi.event_store import IndexRow
from loom.spi.where import Where
from tests.plugins.model_rows import bodies, conditions, found_as_said
from tests.plugins.postgres.server import Server
from tests.plugins.wheres import runs, same_found, wheres

few = settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
many = settings(max_examples=1_000, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
asked = st.lists(wheres, min_size=1, max_size=20)
newest = st.integers(1, 4)
"""So many runs are looked at before all are."""


@pytest.mark.proves("BEY-03")
@few
@given(rows=runs, asked=asked, newest=newest)
def test_what_is_found_is_what_is_found_in_memory(
    server: Server, rows: Sequence[IndexRow], asked: Sequence[Where], newest: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "NEWEST", newest)
        asyncio.run(_same(server, rows, asked))


@pytest.mark.slow
@pytest.mark.timeout(900)
@many
@given(rows=runs, asked=asked, newest=newest)
def test_what_is_found_of_much_is_what_is_found_in_memory(
    server: Server, rows: Sequence[IndexRow], asked: Sequence[Where], newest: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "NEWEST", newest)
        asyncio.run(_same(server, rows, asked))


async def _same(server: Server, rows: Sequence[IndexRow], asked: Sequence[Where]) -> None:
    store = PostgresStorage(await server.emptied())
    await same_found(store, rows, asked)
    await store.close()


@pytest.mark.proves("BEY-03", "STO-08")
@few
@given(rows=bodies, asked=st.lists(conditions, min_size=1, max_size=20))
def test_rows_of_read_models_are_found_by_what_they_say(
    server: Server, rows: Sequence[bytes], asked: Sequence[Where]
) -> None:
    asyncio.run(_found(server, rows, asked))


@pytest.mark.slow
@pytest.mark.timeout(900)
@many
@given(rows=bodies, asked=st.lists(conditions, min_size=1, max_size=20))
def test_many_rows_of_read_models_are_found_by_what_they_say(
    server: Server, rows: Sequence[bytes], asked: Sequence[Where]
) -> None:
    asyncio.run(_found(server, rows, asked))


async def _found(server: Server, rows: Sequence[bytes], asked: Sequence[Where]) -> None:
    store = PostgresStorage(await server.emptied())
    await found_as_said(store, rows, asked)
    await store.close()
