"""Functions of a test stand in for steps, wherever and however they are called."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.app.config import SimulatorsWarning
from loom.core.errors import InvalidDeclaration
from loom.spi.memory import MemoryStorage

real: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_real() -> Any:
    real.clear()
    yield
    assert real == []


@loom.step(failures={"sold_out": str})
async def ship(step: loom.StepContext, order: str, express: bool = False) -> str:
    real.append(order)
    return "shipped"


@loom.tool
def price(order: str) -> int:
    real.append(order)
    return 0


@loom.flow
async def parcel(ctx: loom.Context, order: str) -> str:
    cost = await ctx.execute("price", {"order": order})
    try:
        return f"{await ctx.run(ship.keyed(order), order)} for {cost}"
    except loom.TypedFailure as failure:
        return f"{failure.channel} {failure.payload}"


@loom.flow
async def parcels(ctx: loom.Context, orders: list[str]) -> list[str]:
    await ctx.sleep(timedelta(days=30))
    return await loom.await_all(ctx, [await loom.spawn(ctx, parcel, order) for order in orders])


def app(**options: Any) -> loom.LoomApp:
    return loom.define_config(flows=[parcel, parcels], steps=[price], **options)


def give(step: loom.StepContext, order: str, express: bool = False) -> str:
    return f"{step.step_id} {step.attempt}"


def length(order: str) -> int:
    return len(order)


FAKES: dict[Any, Any] = {ship: give, price: length}


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_they_are_called_in_the_place_of_steps_and_tools_and_their_results_are_those_of_the_steps(
    elsewhere: bool,
) -> None:
    faked = app().with_steps(FAKES)
    over = (faked.on(MemoryStorage()) if elsewhere else faked).runtime

    outcome = await over.start(parcel, "lamp")

    assert outcome.result() == "ship#lamp 1 for 4"


async def test_a_declared_failure_of_the_step_is_one_of_its_stand_in_and_the_app_itself_stays_as_it_was() -> None:
    async def sold_out(order: str, **_: Any) -> str:
        raise loom.fail("sold_out", order)

    first = app(middleware=[])
    both = first.with_steps(FAKES).with_steps({ship: sold_out})

    assert (await both.runtime.start(parcel, "lamp")).result() == "sold_out lamp"
    await first.runtime.start(parcel, "lamp")
    assert real == ["lamp", "lamp"]
    real.clear()


@pytest.mark.parametrize(
    ("stand_ins", "told"),
    [
        ({"ship": give}, "'ship', which is no step"),
        ({ship: 5}, "A step or its id, and a function"),
        ({ship: lambda order: order}, r"the stand-in of ship takes \(order\), and the step \(order"),
        ({price: lambda step, order: 1}, "the stand-in of price takes"),
    ],
)
def test_what_cannot_stand_in_is_refused(stand_ins: Any, told: str) -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        app().with_steps(stand_ins)

    assert re.search(told, f"{refused.value} {refused.value.hint}")


def test_a_stand_in_has_no_context_where_the_step_has_none() -> None:
    def with_context(step: loom.StepContext, order: str) -> int:
        return step.attempt

    with pytest.raises(InvalidDeclaration, match="the step takes none"):
        app().with_steps({price: with_context})


async def test_what_ctx_run_was_given_instead_of_a_step_is_told() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.run(give, "lamp")  # type: ignore[call-overload]

    outcome = await loom.define_config(flows=[flow]).runtime.start(flow)

    assert outcome.failure is not None
    assert "not <function give" in outcome.failure.message


def test_simulators_that_look_like_the_fakes_of_a_test_are_warned_of() -> None:
    told: list[str] = []

    app(simulators={price: lambda order: 1}, on_warn=told.append)
    app(simulators={price: lambda order: 1}, storage=MemoryStorage())

    assert len(told) == 1
    assert "app.with_steps" in told[0]
    with pytest.warns(SimulatorsWarning):
        app(simulators={price: lambda order: 1})
