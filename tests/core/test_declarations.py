"""Declaring steps and flows: what a declaration says, and that it does nothing by itself."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

import loom
from loom.core.errors import InvalidDeclaration
from loom.values.binding import binding_of
from tests.kernel.running import RUN, runtime


class Order(BaseModel):
    id: str
    amount: Decimal


class Receipt(BaseModel):
    order: str


POLICY = loom.Retry(attempts=2, delay=timedelta(0))


@loom.step(id="pay-order", retry=POLICY, idempotent=False, timeout=timedelta(seconds=5))
async def pay(order: Order) -> Receipt:
    """Pay an order."""
    return Receipt(order=order.id)


@loom.flow(id="settle-order", version="7")
async def settle(ctx: loom.Context, order: Order) -> Receipt:
    """Settle an order."""
    return await ctx.run(pay, order)


@pytest.mark.proves("AUT-01")
async def test_a_step_is_declared_with_id_models_retry_and_flags_and_is_still_the_function() -> None:
    binding = binding_of(pay)

    assert (pay.id, pay.retry, pay.idempotent, pay.timeout) == ("pay-order", POLICY, False, timedelta(seconds=5))
    assert binding.validated({"order": {"id": "a", "amount": "1.50"}}) == {
        "order": Order(id="a", amount=Decimal("1.50"))
    }
    assert binding.returns is Receipt
    assert await pay(Order(id="a", amount=Decimal(1))) == Receipt(order="a")


@pytest.mark.proves("AUT-01")
async def test_running_a_step_logs_that_it_started_and_that_it_completed() -> None:
    over = runtime(settle)

    outcome = await over.start(settle, Order(id="a", amount=Decimal("1.50")), id=RUN)

    started, completed = (await over.events(RUN))[1:3]
    assert (started.type, completed.type) == ("STEP_STARTED", "STEP_COMPLETED")
    assert (started.payload.id, started.payload.once) == ("pay-order", True)
    assert started.payload.args == {"order": {"id": "a", "amount": {"$decimal": "1.50"}}}
    assert (completed.payload.start, completed.payload.result) == (started.sequence, {"order": "a"})
    assert outcome.value == Receipt(order="a")


@pytest.mark.proves("AUT-03")
async def test_a_flow_is_declared_with_id_version_and_models_and_its_log_has_them_and_the_hash_of_its_code() -> None:
    over = runtime(settle)

    await over.start("settle-order", {"id": "a", "amount": "1"}, id=RUN)

    assert (settle.id, settle.version, settle.description) == ("settle-order", "7", "Settle an order.")
    assert settle.hints() == (Order, Receipt)
    started = (await over.events(RUN))[0].payload
    assert (started.flow, started.version) == ("settle-order", "7")
    assert started.fingerprint.startswith("1:")
    assert started.input == {"id": "a", "amount": {"$decimal": "1"}}


@pytest.mark.proves("NOT-02")
@pytest.mark.parametrize(
    "graph",
    [
        {"start": "pay", "edges": [["pay", "ship"]]},
        "steps: [pay, ship]",
        [pay, pay],
        lambda ctx: [pay, pay],
        pay,
    ],
    ids=["json", "yaml", "list", "builder", "step"],
)
def test_a_flow_is_an_async_function_and_nothing_else(graph: Any) -> None:
    with pytest.raises(InvalidDeclaration):
        loom.flow(graph)
    with pytest.raises(InvalidDeclaration):
        loom.define_config(flows=[graph])
