"""Never a success after a cancellation was accepted: the closing write is conditional (field fault 18)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.core.errors import ExecutionTerminated
from loom.driving.runtime import WorkflowRuntime
from loom.spi.event_store import Append, AppendResult
from loom.spi.memory import MemoryStorage
from tests.kernel.cancelled import act, nothing_ran
from tests.kernel.running import RUN, AppendsAreCounted, kinds, runtime

HERE = Path(__file__).resolve()


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    nothing_ran()


@loom.flow
async def one_step(ctx: loom.Context) -> str:
    return await ctx.run(act, "step")


@loom.flow
async def fails(ctx: loom.Context) -> str:
    await ctx.run(act, "step")
    raise ValueError


@loom.flow
async def cleans_up(ctx: loom.Context) -> str:
    try:
        return await ctx.run(act, "step")
    finally:
        await ctx.run(act, "clean up")


class CancelledAtTheEnd(MemoryStorage):
    """A store in which somebody cancels the run just before its closing write."""

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        for item in batch:
            if item.lane_kinds:
                await self._cancel(item)
        return await super().append(batch)

    async def _cancel(self, item: Append) -> None:
        assert item.incarnation is not None
        body = b'{"cause": "request", "reason": "too late?", "grace_ms": 1000}'
        run, life = item.execution_id, item.incarnation
        await self.insert(run, life, kind="cancel", key="cancel", at=0, body=body, while_open=True)


@pytest.mark.proves("RNG-11")
@pytest.mark.parametrize("flow", [one_step, fails, cleans_up])
async def test_a_run_that_is_cancelled_between_its_last_step_and_its_closing_write_is_cancelled(
    flow: loom.Flow[[], Any],
) -> None:
    over = runtime(flow, storage=CancelledAtTheEnd())

    outcome = await over.start(flow, id=RUN)

    assert (outcome.status, outcome.reason) == ("cancelled", "too late?")
    assert (await kinds(over))[-2:] == ["CANCEL_REQUESTED", "CANCELLED"]
    with pytest.raises(ExecutionTerminated, match="too late"):
        outcome.result()


async def test_what_else_waits_in_the_lane_does_not_keep_a_run_from_ending() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        await over.send(RUN, "topic", "unread")
        return await ctx.run(act, "step")

    over = runtime(flow)

    assert (await over.start(flow, id=RUN)).value == "step"


async def test_a_run_that_nobody_can_know_of_closes_without_a_condition_and_in_one_transaction() -> None:
    store = AppendsAreCounted()
    over = WorkflowRuntime(
        store, flows={one_step.id: one_step}, idle_s=60.0
    )  # else a slow machine writes before the end

    await over.start(one_step)

    assert [item.lane_above for batch in store.batches for item in batch] == [None]


async def test_a_run_that_can_be_found_closes_on_the_condition_that_nobody_wants_it_cancelled() -> None:
    store = AppendsAreCounted()

    await runtime(one_step, storage=store).start(one_step, id=RUN)

    last = store.batches[-1][0]
    assert (last.events[-1].type, last.lane_above, last.lane_kinds) == ("EXECUTION_COMPLETED", 0, ("cancel",))


async def test_every_cancellation_that_is_accepted_ends_the_run_as_cancelled_whenever_it_comes() -> None:
    """Fault 17 and 18 by brute force: a loop of short steps, cancelled after so many turns of the loop."""

    @loom.step
    async def short(turn: int) -> None:
        for _ in range(turn % 4):
            await asyncio.sleep(0)

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        for turn in range(8):
            await ctx.run(short, turn)

    statuses = set()
    for turns in range(150):
        over = runtime(flow)
        driving = asyncio.create_task(over.start(flow, id=RUN))
        while RUN not in over._driver.drives:
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        try:
            await over.cancel(RUN)
            expected = "cancelled"
        except ExecutionTerminated:
            expected = "completed"
        assert (await driving).status == expected
        told = (await kinds(over))[::-1]
        assert expected == "completed" or told[:2] == ["CANCELLED", "CANCEL_REQUESTED"]
        statuses.add(expected)

    assert statuses == {"cancelled", "completed"}
