"""What the war room finds, what it does once somebody has decided, and what it only thinks through."""

import pytest

import loom
from conftest import INCIDENT, REMEDIES, Room
from fleet import TRUE_TRAITS
from models import Remedy
from physics import Traits
from simulators import estimated


async def test_it_finds_what_the_ill_hosts_have_in_common_and_asks(room: Room) -> None:
    state = await room.app.runtime.load_state(INCIDENT)
    [gate] = (await room.app.runtime.resume(INCIDENT)).gates

    assert state.status == "suspended"
    assert gate.gate == "remedy"
    assert "'points_to': 'version v42'" in str(gate.show)
    assert room.acts() == []


@pytest.mark.parametrize(
    ("remedy", "detail", "is_solved"),
    [("roll back", "v41", True), ("scale out", "6 hosts", False), ("fail over", "zone b", False)],
)
async def test_what_was_decided_is_done_once(remedy: Remedy, detail: str, is_solved: bool, room: Room) -> None:
    resolution = (await room.decide(remedy)).result()

    assert room.acts() == [(INCIDENT, remedy, detail)]
    assert (resolution.remedy, resolution.solved) == (remedy, is_solved)
    assert resolution.after == room.fleet.health("checkout")


async def test_the_estimates_from_metrics_are_near_the_truth(room: Room) -> None:
    found = estimated(room.fleet, "checkout")

    for version, traits in TRUE_TRAITS.items():
        assert found[version] == Traits(pytest.approx(traits.errors, rel=0.1), pytest.approx(traits.cpu_ms, rel=0.05))


async def test_three_remedies_are_tried_and_nothing_is_touched(room: Room) -> None:
    before = room.digest()

    predicted = {remedy: await room.tried(remedy) for remedy in REMEDIES}

    assert room.digest() == before
    assert min(predicted, key=lambda remedy: predicted[remedy].errors_percent) == "roll back"
    assert [remedy for remedy, health in predicted.items() if health.is_well] == ["roll back"]
    assert predicted["fail over"].busiest_cpu > predicted["scale out"].busiest_cpu


@pytest.mark.parametrize("remedy", REMEDIES)
async def test_the_branch_that_is_promoted_is_done_for_real_once_and_comes_out_as_predicted(
    remedy: Remedy, room: Room
) -> None:
    predicted = await room.tried(remedy)

    promotion = await room.app.runtime.promote(f"{INCIDENT}-{remedy.replace(' ', '-')}", reason="it looks best")
    acts_before = room.acts()
    outcome = await room.decide(remedy, promotion.execution_id)

    assert acts_before == []
    assert [act[:2] for act in room.acts()] == [(promotion.execution_id, remedy)]
    assert outcome.result().after.errors_percent == pytest.approx(predicted.errors_percent, rel=0.1, abs=0.1)
    with pytest.raises(loom.LoomError):
        await room.decide(remedy, promotion.execution_id)
    assert len(room.done()) == 1


async def test_what_was_simulated_is_never_done(room: Room) -> None:
    await room.tried("scale out")

    with pytest.raises(loom.LoomError):
        await room.decide("scale out", f"{INCIDENT}-scale-out")

    assert room.acts() == []
