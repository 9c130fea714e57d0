"""The effect happened and its record could not be written: the write is repeated, or the run stops; never the effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import pytest

import loom
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Append, AppendResult

How: TypeAlias = Literal["before it is written", "after it is written"]


class FailingStorage(loom.MemoryStorage):
    """A store that fails *times* times when a step's outcome is to be written, before or after it has done so."""

    def __init__(self, how: How, times: int) -> None:
        super().__init__()
        self._how, self.times = how, times

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        outcome = any(event.type == "STEP_COMPLETED" for item in batch for event in item.events)
        if outcome and self.times and self._how == "before it is written":
            self._fail()
        results = await super().append(batch)
        if outcome and self.times:
            self._fail()
        return results

    def _fail(self) -> None:
        self.times -= 1
        raise StoreUnavailable("the disk is away", store=self.url)


class Desk:
    """Two steps that count how often they happen, and under which key."""

    def __init__(self, storage: FailingStorage) -> None:
        self.happened: list[tuple[str, str]] = []

        @loom.step
        async def pay(step: loom.StepContext, amount: int) -> int:
            self.happened.append(("pay", step.idempotency_key))
            return amount

        @loom.step
        async def mail(step: loom.StepContext, amount: int) -> int:
            self.happened.append(("mail", step.idempotency_key))
            return amount

        @loom.flow
        async def refund(ctx: loom.Context) -> int:
            return await ctx.run(mail, await ctx.run(pay, 5))

        self.runtime = loom.define_config(flows=[refund], storage=storage).runtime

    def steps(self) -> list[str]:
        return [name for name, _ in self.happened]


@pytest.mark.proves("LIF-01")
@pytest.mark.parametrize("how", ["before it is written", "after it is written"])
async def test_an_outcome_whose_write_fails_once_is_written_again_and_the_effect_is_not_repeated(how: How) -> None:
    desk = Desk(FailingStorage(how, times=1))

    outcome = await desk.runtime.start("refund", id="run")

    assert outcome.value == 5
    assert desk.steps() == ["pay", "mail"]
    assert [event.sequence for event in await desk.runtime.events("run")] == list(range(6))


@pytest.mark.proves("LIF-01")
async def test_an_outcome_that_cannot_be_written_stops_the_run_before_any_further_effect() -> None:
    storage = FailingStorage("before it is written", times=1_000)
    desk = Desk(storage)

    with pytest.raises(StoreUnavailable, match="the disk is away"):
        await desk.runtime.start("refund", id="run")
    stopped_at = desk.steps()
    storage.times = 0
    outcome = await desk.runtime.resume("run")

    assert stopped_at == ["pay"]
    assert outcome.value == 5
    assert desk.steps() == ["pay", "pay", "mail"]
    assert desk.happened[0] == desk.happened[1], "it is asked again under its own key"
