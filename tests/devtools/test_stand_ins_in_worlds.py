"""Functions of a test in the place of steps, in a virtual world (loom/app, loom/devtools/testing)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from loom.devtools.testing import virtual_world
from tests.app.test_with_steps import FAKES, app, parcels, real


async def test_they_are_in_a_virtual_world_and_in_children() -> None:
    real.clear()
    async with virtual_world(app().with_steps(FAKES), start=datetime(2026, 11, 30, tzinfo=UTC)) as world:
        await world.runtime.start(parcels, ["a", "bc"], id="p")
        await world.run_for(timedelta(days=31))

        assert (await world.runtime.load_state("p")).facts.result == ["ship#a 1 for 1", "ship#bc 1 for 2"]
    assert real == []
