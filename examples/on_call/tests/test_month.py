"""A month on call: every incident ends, nobody is called twice for one thing, and what happened outside is what the logs say."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app import on_call
from evals.month import START, live, troubles
from loom.devtools.testing import VirtualWorld, virtual_world
from loom.spi.event_store import ExecutionQuery
from outside import Outside

MOVES = {"drain": "drain", "add_capacity": "add", "release": "release", "restore": "restore"}


@pytest.mark.parametrize("seed", [7, 8])
async def test_every_incident_of_a_month_ends_and_ledger_and_logs_agree(seed: int, tmp_path: Path) -> None:
    with Outside(tmp_path / "outside.db") as outside:
        began = time.process_time()
        async with virtual_world(on_call(outside), start=START, seed=seed) as world:
            await live(world, outside, seed)
            print(f"a month in {time.process_time() - began:.2f} s of a processor, {world.writes} writes")
            rows = await world.runtime.find(ExecutionQuery(flows=("incident",), limit=1000))
            stories = [await story(world, row.execution_id) for row in rows]
            statuses = {row.index.status for row in await world.runtime.find(ExecutionQuery(limit=10_000))}

        alarms = outside.monitor.ends()
        assert len(rows) == len(alarms) == len(list(troubles(seed)))
        assert statuses <= {"completed", "cancelled"}
        assert {told["alarm"]: told["ended"] for told in stories} == alarms
        calls = Counter((call.person, call.incident, call.reason) for call in outside.pager.calls())
        assert set(calls.values()) == {1}
        for told in stories:
            assert [call.person for call in outside.pager.calls(told["id"])] == told["called"]
            assert [tuple(move) for move in outside.balancer.moves(told["id"])] == told["moves"]


async def story(world: VirtualWorld, incident: str) -> dict[str, Any]:
    """Return what the log of an incident says of the world outside."""
    events = await world.runtime.events(incident)
    starts = {event.sequence: event.payload for event in events if event.type == "STEP_STARTED"}
    done = [starts[event.payload.start] for event in events if event.type == "STEP_COMPLETED"]
    steps = [(start.id.rpartition("/")[2].partition("#")[0], start.args) for start in done]
    [ended] = [args for step, args in steps if step == "close_alarm"]
    return {
        "id": incident,
        "alarm": ended["alarm"],
        "ended": ended["ended"],
        "called": [args["call"]["person"] for step, args in steps if step == "page"],
        "moves": [(MOVES[step], *args.values()) for step, args in steps if step in MOVES],
    }
