"""What the function in the database decides is what the store in memory decides: the rules stand twice, and are one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loom.plugins.postgres import PostgresStorage
from loom.spi.clock import VirtualClock
from loom.spi.event_store import Append
from loom.spi.memory import MemoryStorage
from tests.plugins.postgres.server import Server
from tests.plugins.writes import ALL, Plan, all_of, known_of, made_of, one_plan, plans, write

few = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
many = settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
rounds = st.one_of(
    st.lists(plans, min_size=1, max_size=5),
    st.lists(one_plan, min_size=3, max_size=20).map(lambda each: [[plan] for plan in each]),
)


@pytest.mark.proves("STO-03")
@few
@given(rounds=rounds)
def test_what_is_written_comes_to_the_same_as_in_memory(server: Server, rounds: Sequence[Sequence[Plan]]) -> None:
    asyncio.run(_same(server, rounds))


@pytest.mark.slow
@pytest.mark.timeout(900)
@many
@given(rounds=rounds)
def test_what_much_is_written_comes_to_the_same(server: Server, rounds: Sequence[Sequence[Plan]]) -> None:
    asyncio.run(_same(server, rounds))


async def _same(server: Server, rounds: Sequence[Sequence[Plan]]) -> None:
    clock = VirtualClock(0)
    model, store, past = (
        MemoryStorage(clock=clock),
        PostgresStorage(await server.emptied(), clock=clock),
        list[Append](),
    )
    for writes in rounds:
        clock.advance(1)
        known = {name: await known_of(model, name) for name in ALL}
        for made in [made_of(plan, known, past) for plan in writes]:
            expected = await write(model, made)
            assert await write(store, made) == expected
        assert await all_of(store) == await all_of(model)
    clock.advance(99)
    claims = [list(await each.claim("c", lease_ms=1, limit=99)) for each in (store, model)]
    assert claims[0] == claims[1]
    await store.close()
