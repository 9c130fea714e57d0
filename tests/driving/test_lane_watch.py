"""Looking into the lanes of what a process drives: one question for all, and no trouble of the store ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import loom
from loom.core.ids import ExecutionId, Incarnation
from loom.spi.errors import StoreCorrupt, StoreError, StoreUnavailable
from loom.spi.event_store import LanePlace, Request
from loom.spi.memory import MemoryStorage
from tests.kernel.cancelled import begins, hangs, nothing_ran
from tests.kernel.running import RUN, runtime

RUNS = [f"run-{number}" for number in range(20)]


@pytest.fixture(autouse=True)
def _nothing_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing_ran()
    monkeypatch.setattr("loom.driving.lane_watch.POLL_S", 0.01)


@loom.flow
async def waits(ctx: loom.Context, what: str) -> None:
    await ctx.run(hangs, what)


class Watched(MemoryStorage):
    """A store that keeps which lanes were asked for together, and fails when asked for the first *errors*."""

    def __init__(self, *errors: StoreError) -> None:
        super().__init__()
        self.errors, self.is_damaged = list(errors), False
        self.asked: list[list[str]] = []

    async def have_news(self, places: Sequence[LanePlace]) -> Sequence[bool]:
        self.asked.append([place.execution_id for place in places])
        if self.errors:
            raise self.errors.pop(0)
        return await super().have_news(places)

    async def pending(
        self, execution_id: ExecutionId, incarnation: Incarnation, *, above: int = 0
    ) -> Sequence[Request]:
        if self.is_damaged:
            raise StoreCorrupt("a row of the lane cannot be read", store=self.url)
        return await super().pending(execution_id, incarnation, above=above)


async def test_all_runs_of_a_process_are_asked_for_in_one_question() -> None:
    store = Watched()
    here, elsewhere = runtime(waits, storage=store), runtime(waits, storage=store)
    async with asyncio.timeout(20):
        driving = [asyncio.create_task(here.start(waits, run, id=run)) for run in RUNS]
        for run in RUNS:
            await begins(run).wait()
        for run in RUNS:
            await elsewhere.cancel(run)
        ended = await asyncio.gather(*driving)

    assert {outcome.status for outcome in ended} == {"cancelled"}
    assert sorted(RUNS) in [sorted(asked) for asked in store.asked]


async def test_a_store_that_was_out_of_reach_once_is_asked_again() -> None:
    store = Watched(StoreUnavailable("the plug is pulled", store="here"))
    here, elsewhere = runtime(waits, storage=store), runtime(waits, storage=store)
    async with asyncio.timeout(20):
        driving = asyncio.create_task(here.start(waits, RUN, id=RUN))
        await begins(RUN).wait()
        await elsewhere.cancel(RUN)
        ended = await driving

    assert ended.status == "cancelled"
    assert store.errors == []
    assert len(store.asked) >= 2


async def test_a_lane_that_cannot_be_read_ends_the_drive_with_the_reason() -> None:
    store = Watched(StoreCorrupt("the index of the lanes is damaged", store="here"))
    here = runtime(waits, storage=store)
    async with asyncio.timeout(20):
        driving = asyncio.create_task(here.start(waits, RUN, id=RUN))
        await begins(RUN).wait()
        store.is_damaged = True
        with pytest.raises(StoreCorrupt, match="a row of the lane"):
            await driving
