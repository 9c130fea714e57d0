"""What the on-call desk does with an alarm."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import loom
from app import on_call
from conftest import INCIDENT, START, Desk
from loom.devtools.testing import virtual_world
from models import Cleared, Report
from outside import Outside


async def test_a_sweep_opens_one_incident_for_an_alarm_and_calls_the_first(desk: Desk) -> None:
    await desk.pass_minutes(10)

    assert await desk.status() == "suspended"
    assert desk.called() == ["ines"]


async def test_the_alarm_of_an_open_incident_opens_no_other(desk: Desk) -> None:
    await desk.take("ines")
    await desk.pass_minutes(3 * 60)

    assert {call.incident for call in desk.outside.pager.calls() if call.reason == "alarm"} == {INCIDENT}


async def test_whoever_answers_owns_it_and_the_ill_host_is_replaced(desk: Desk) -> None:
    await desk.take("ines")
    await desk.report("ines", "looking")

    outcome = await desk.report("ines", "it was the disk", solved=True)

    assert outcome.result() == Report("A-1", "solved", "ines", ["ines: looking", "ines: it was the disk"])
    assert desk.moves() == ["drain web-3", "add checkout"]
    assert desk.outside.monitor.ends() == {"A-1": "solved"}


async def test_when_the_first_does_not_answer_in_time_the_second_and_the_manager_are_called(desk: Desk) -> None:
    await desk.pass_minutes(14)
    before = desk.called()

    await desk.pass_minutes(1)

    assert (before, desk.called()) == (["ines"], ["ines", "jonas", "mira"])
    await desk.take("mira")
    assert (await desk.report("mira", "done", solved=True)).result().owner == "mira"


async def test_an_incident_that_nobody_answers_is_on_record_as_such(desk: Desk) -> None:
    await desk.pass_minutes(30)

    assert await desk.status() == "completed"
    assert desk.outside.monitor.ends() == {"A-1": "unanswered"}
    assert desk.moves() == []


async def test_an_alarm_that_is_over_by_itself_needs_nobody(desk: Desk) -> None:
    outcome = await desk.world.runtime.send(INCIDENT, "monitor", Cleared(3))

    assert outcome.result() == Report("A-1", "recovered")
    with pytest.raises(loom.LoomError, match="completed"):
        await desk.take("ines")


async def test_an_owner_who_falls_silent_has_it_undone_and_the_manager_called(desk: Desk) -> None:
    await desk.take("ines")
    await desk.report("ines", "looking")

    await desk.pass_minutes(4 * 60)

    assert desk.outside.monitor.ends() == {"A-1": "unattended"}
    assert desk.moves() == ["drain web-3", "add checkout", "release checkout", "restore web-3"]
    assert desk.called() == ["ines", "mira"]


async def test_a_false_alarm_is_undone_in_reverse(desk: Desk) -> None:
    await desk.take("ines")
    await desk.report("ines", "looking")

    outcome = await desk.world.runtime.cancel(INCIDENT, reason="false alarm")

    assert (outcome.status, outcome.reason) == ("cancelled", "false alarm")
    assert desk.moves() == ["drain web-3", "add checkout", "release checkout", "restore web-3"]
    assert desk.outside.monitor.ends() == {"A-1": "false alarm"}


async def test_a_false_alarm_that_is_found_out_in_the_middle_of_the_mitigation_undoes_what_was_done(
    tmp_path: Path,
) -> None:
    outside = Outside(tmp_path / "outside.db")
    outside.monitor.raise_alarm("checkout", "web-3", "errors over 5 %")

    async def cancelled_at_drain(effect: loom.EffectContext, arguments: dict[str, Any], call_next: Any) -> Any:
        result = await call_next(arguments)
        if effect.tool_id == "drain":
            await world.runtime.cancel(INCIDENT, reason="false alarm")
        return result

    async with virtual_world(on_call(outside, middleware=[cancelled_at_drain]), start=START) as world:
        await world.run_for(timedelta(minutes=5))
        await Desk(world, outside).take("ines")
        await world.run_for(timedelta(minutes=1))

        assert await Desk(world, outside).status() == "cancelled"
    assert Desk(world, outside).moves() == ["drain web-3", "restore web-3"]


async def test_on_monday_at_nine_in_berlin_the_next_ones_are_on_call(desk: Desk) -> None:
    await desk.pass_minutes(60)

    [call] = [call for call in desk.outside.pager.calls() if call.reason == "shift"]
    assert call.incident == "hand-over-20261130T080000Z"
    assert desk.outside.rota.shift().first == call.person

    await desk.world.run_for(timedelta(days=7))

    assert desk.outside.rota.shift().first != call.person
