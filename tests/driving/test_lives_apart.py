"""Which life of an id a log is of is known to the store alone: nothing that a flow is given tells it (rule 2.1)."""

from __future__ import annotations

import inspect

import pytest

import loom
from loom.core.envelope import EventEnvelope
from loom.core.ids import ExecutionId
from loom.kernel.context import Context
from loom.spi.clock import SeededEntropy, VirtualClock
from loom.spi.event_store import EventRecord, Head
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, records, runtime


@loom.step
async def draw(step: loom.StepContext, number: float) -> str:
    return f"{step.idempotency_key} {number}"


@loom.flow
async def drawing(ctx: loom.Context) -> list[str]:
    drawn = [str(ctx.uuid()), await ctx.run(draw, ctx.random())]
    return [*drawn, str(await ctx.suspend("sure", show=drawn))]


@pytest.mark.proves("STO-15", "KER-15")
async def test_two_lives_of_an_id_that_go_the_same_way_have_the_same_log() -> None:
    storage, lives, logs = MemoryStorage(), [], []
    for _ in range(2):
        over = runtime(drawing, storage=storage, clock=VirtualClock(), entropy=SeededEntropy(7))
        await over.start(drawing, id=RUN)
        await over.resume(RUN, answer="yes")
        row = await storage.row(ExecutionId(RUN))
        assert row is not None
        lives.append(row.incarnation)
        logs.append(await records(storage))
        await storage.delete([[Head(row.execution_id, row.incarnation, row.length)]])

    assert lives[0] != lives[1]
    assert logs[0] == logs[1]


@pytest.mark.proves("STO-15")
def test_neither_an_event_nor_a_context_has_a_place_for_it() -> None:
    assert EventEnvelope._fields == ("execution_id", "sequence", "type", "at", "payload", "metadata")
    assert EventRecord._fields == ("sequence", "type", "at", "payload", "metadata")
    assert not [name for name, _ in inspect.getmembers(Context) if "incarnation" in name or "life" in name]
