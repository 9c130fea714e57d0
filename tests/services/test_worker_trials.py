"""A trial that stopped for want of something is not taken up again and again by workers: its log stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

import loom
from loom.driving.edits import Edit
from loom.driving.errors import TrialLeft
from loom.driving.reusing import NotRecorded
from loom.driving.simulating import NotSimulated
from loom.services.worker import Report


@loom.step
async def pay(amount: int) -> str:
    return f"paid {amount}"


@loom.flow
async def desk(ctx: loom.Context) -> str:
    amount = await ctx.suspend("amount", expects=int)
    return await ctx.run(pay, amount)


@pytest.mark.parametrize("kind", ["simulated", "served"])
async def test_a_worker_writes_nothing_to_a_trial_that_was_let_go(kind: str) -> None:
    async with loom.define_config(flows=[desk]) as app:
        await app.runtime.start(desk, id="r")
        await app.runtime.resume("r", answer=1)
        edit, is_served = Edit("amount", "output", 2), kind == "served"
        await app.runtime.fork("r", id="f", edit=edit, reuse="only" if is_served else None)
        stopped: Any = NotRecorded if is_served else NotSimulated
        with pytest.raises(stopped):
            await app.runtime.resume("f", simulate=not is_served)
        before = await app.runtime.events("f")
        told: list[Report] = []

        await app.worker(until_idle=True, told=told.append).run()

        assert await app.runtime.events("f") == before
        assert [(report.did, type(report.error)) for report in told if report.error] == [("refused", TrialLeft)]
        with pytest.raises(stopped):
            await app.runtime.resume("f")
