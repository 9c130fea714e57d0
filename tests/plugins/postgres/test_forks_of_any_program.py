"""Forks in compacted history, tried on any program, against a server that is started for it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loom.plugins.postgres import PostgresStorage
from tests.driving.test_forks_of_any_program import EXAMPLES, as_of_the_whole
from tests.kernel.lives import Way
from tests.kernel.test_live_and_replay import Program, programs, ways, wild
from tests.plugins.postgres.server import Server


@pytest.mark.proves("LIF-06")
@pytest.mark.timeout(400)
@settings(max_examples=max(1, EXAMPLES // 4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=programs(wild), first=ways(retries=1), second=ways(retries=1), data=st.data())
async def test_a_fork_of_a_compacted_run_comes_to_what_one_of_the_whole_log_comes_to(
    server: Server, program: Program, first: Way, second: Way, data: st.DataObject
) -> None:
    store = PostgresStorage(await server.emptied())
    await as_of_the_whole(store, program, first, second, data)
    await store.close()
