"""Spec 4.5: a fork with simulators in the place of its effects touches nothing, and its log says so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.core.envelope import SIMULATED
from loom.core.errors import InvalidDeclaration
from loom.driving.runtime import WorkflowRuntime
from loom.driving.simulating import NotSimulated, SimulationRefused
from loom.spi.clock import VirtualClock
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN

ran: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


@loom.step
async def fetch(n: int) -> int:
    ran.append(("fetch", n))
    return n


@loom.step(idempotent=False)
async def pay(step: loom.StepContext, amount: int) -> str:
    ran.append(("pay", amount))
    return f"paid {amount}"


def pay_nothing(amount: int) -> str:
    return f"would pay {amount}"


@loom.flow
async def desk(ctx: loom.Context) -> str:
    amount = await ctx.run(fetch, 5)
    if await ctx.suspend("approve", expects=bool):
        return await ctx.run(pay, amount)
    return "nothing"


@loom.flow
async def sleeper(ctx: loom.Context) -> str:
    await ctx.suspend("go")
    await ctx.sleep(timedelta(hours=1))
    return await ctx.run(pay, 7)


@loom.flow
async def parent(ctx: loom.Context) -> str:
    await ctx.suspend("go")
    child = await loom.spawn(ctx, desk)
    return await loom.await_child(ctx, child)


def app(**options: Any) -> loom.LoomApp:
    return loom.define_config(
        flows=[desk, sleeper, parent], **{"simulators": {pay: pay_nothing}, "storage": MemoryStorage(), **options}
    )


async def fork_at_gate(over: WorkflowRuntime, flow: Any) -> str:
    outcome = await over.start(flow, id=RUN)
    ran.clear()
    return (await over.fork(RUN, at=outcome.length - 1)).execution_id


@pytest.mark.proves("BRN-03")
async def test_no_live_effect_is_called_and_the_log_says_so() -> None:
    over = app().runtime
    fork = await fork_at_gate(over, desk)

    outcome = await over.resume(fork, answer=True, simulate=True)

    assert (outcome.status, outcome.value) == ("completed", "would pay 5")
    assert ran == []
    own = (await over.events(fork))[5:]
    assert [e.type for e in own if SIMULATED in e.metadata] == ["EXECUTION_RESUMED"] * 2, "to its gate, and from there"
    assert (await over.load_state(fork)).facts.simulated


async def test_what_was_simulated_once_is_simulated_for_good_whoever_drives_it() -> None:
    clock = VirtualClock(1_000)
    loom_app = app(clock=clock)
    over = loom_app.runtime
    fork = await fork_at_gate(over, sleeper)
    assert (await over.resume(fork, answer=None, simulate=True, linger_s=0)).status == "suspended"
    clock.advance(3_600_000)

    await loom_app.worker(until_idle=True).run()

    assert (await over.load_state(fork)).facts.result == "would pay 7"
    assert ran == []


async def test_a_fork_of_a_simulated_run_is_simulated_as_well() -> None:
    over = app().runtime
    fork = await fork_at_gate(over, desk)
    parked = await over.resume(fork, simulate=True)

    second = await over.fork(fork, at=parked.length - 1)
    outcome = await over.resume(second.execution_id, answer=True)

    assert (outcome.value, ran) == ("would pay 5", [])


async def test_a_step_without_a_simulator_stops_the_drive_and_is_not_run() -> None:
    over = app(simulators={}).runtime
    fork = await fork_at_gate(over, desk)

    with pytest.raises(NotSimulated, match="asks for pay, which has no simulator"):
        await over.resume(fork, answer=True, simulate=True)

    assert ran == []
    assert not (await over.load_state(fork)).is_terminal


async def test_a_stopped_simulation_goes_on_once_the_simulator_is_there() -> None:
    first = app(simulators={})
    fork = await fork_at_gate(first.runtime, desk)
    with pytest.raises(NotSimulated):
        await first.runtime.resume(fork, answer=True, simulate=True)

    again = app(storage=first.storage).runtime
    outcome = await again.resume(fork)
    if outcome.status == "in_doubt":
        outcome = await again.resolve(fork, "pay", "retry")

    assert (outcome.value, ran) == ("would pay 5", [])


@pytest.mark.parametrize("drive", [False, True])
async def test_what_has_touched_the_world_cannot_be_simulated(drive: bool) -> None:
    over = app().runtime
    fork = await fork_at_gate(over, desk)
    if drive:
        await over.resume(fork)
    run = fork if drive else RUN
    before = len(await over.events(run))

    with pytest.raises(SimulationRefused, match="for real"):
        await over.resume(run, answer=True, simulate=True)

    assert len(await over.events(run)) == before


async def test_a_child_is_not_started_for_real() -> None:
    over = app().runtime
    fork = await fork_at_gate(over, parent)

    with pytest.raises(NotSimulated) as refused:
        await over.resume(fork, answer=None, simulate=True)

    assert "A child would be driven for real" in refused.value.hint
    assert sorted(await over.storage.ids()) == [RUN, fork]


@pytest.mark.parametrize(
    ("simulators", "told"),
    [({1: pay_nothing}, "simulators has 1"), ({"pay": 5}, "simulators has 'pay'"), ({pay: lambda: 1}, "takes \\(\\)")],
)
def test_what_is_no_simulator_is_refused(simulators: dict[Any, Any], told: str) -> None:
    with pytest.raises(InvalidDeclaration, match=told):
        app(simulators=simulators)


async def test_a_simulator_may_take_the_context_and_be_named_by_the_id_of_its_step() -> None:
    async def asked(step: loom.StepContext, amount: int) -> str:
        return f"{step.step_id} {amount}"

    over = app(simulators={"pay": asked}).runtime
    fork = await fork_at_gate(over, desk)

    assert (await over.resume(fork, answer=True, simulate=True)).value == "pay 5"
