"""Families that are forked after parts of their logs were compacted, against a server that is started for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import HealthCheck, example, given, settings

from loom.core.ids import ExecutionId
from loom.plugins.postgres import PostgresStorage
from tests.driving.forked_families import Cut, as_if_nothing_had_been, cuts, moves, parts
from tests.driving.test_forked_families import ALL, EXAMPLES, STEPS
from tests.plugins.postgres.server import Server


@pytest.mark.proves("LIF-06")
@pytest.mark.timeout(400)
@settings(max_examples=max(1, EXAMPLES // 4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=moves, cuts=cuts, part=parts)
@example(moves=STEPS, cuts=ALL, part=60)
async def test_a_family_is_forked_as_if_nothing_had_been_compacted_or_not_at_all(
    server: Server, moves: Sequence[tuple[ExecutionId, int]], cuts: Mapping[ExecutionId, Cut], part: int
) -> None:
    store = PostgresStorage(await server.emptied())
    await as_if_nothing_had_been(store, moves, cuts, part)
    await store.close()
