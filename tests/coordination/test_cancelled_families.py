"""Cancelling a run ends the runs that it has started, theirs, and so on; a saga is undone under it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.driving.runtime import WorkflowRuntime
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Append, AppendResult, ExecutionQuery, Storage
from tests.kernel.running import kinds, payloads

TOP = "top"
happened: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_happened() -> None:
    happened.clear()


@loom.step
async def fail(what: str) -> str:
    raise ConnectionError(f"no line to {what}")


@loom.step
async def book(what: str) -> str:
    happened.append(f"book {what}")
    return what


@loom.step
async def unbook(what: str) -> None:
    happened.append(f"unbook {what}")


@loom.flow
async def sleeper(ctx: loom.Context, hours: float = 1.0) -> str:
    try:
        await ctx.sleep(timedelta(hours=hours))
    except loom.Cancelled as cancelled:
        happened.append(f"{ctx.execution_id} {cancelled.cause}: {cancelled.reason}")
        raise
    return "awake"


@loom.flow
async def middle(ctx: loom.Context) -> str:
    return await loom.await_child(ctx, await loom.spawn(ctx, sleeper))


@loom.flow
async def top(ctx: loom.Context) -> str:
    return await loom.await_child(ctx, await loom.spawn(ctx, middle))


@loom.flow
async def lenient(ctx: loom.Context) -> str:
    kept = await loom.spawn(ctx, sleeper, on_cancel="abandon")
    await loom.spawn(ctx, sleeper)
    return await loom.await_child(ctx, kept)


@loom.flow
async def failing(ctx: loom.Context) -> str:
    return await ctx.run(fail, "him")


@loom.flow
async def all_or_none(ctx: loom.Context) -> list[str]:
    children = [await loom.spawn(ctx, sleeper), await loom.spawn(ctx, sleeper, on_cancel="abandon")]
    return await loom.await_all(ctx, [*children, await loom.spawn(ctx, failing)])


@loom.flow
async def trip(ctx: loom.Context) -> None:
    async with loom.saga(ctx) as saga:
        await saga.run(book.undone_by(unbook), "flight")
        await saga.run(book.undone_by(unbook), "hotel")
        await ctx.suspend("car")


FLOWS: list[loom.Flow[Any, Any]] = [sleeper, middle, top, lenient, failing, all_or_none, trip]


def runtime(storage: Storage | None = None) -> WorkflowRuntime:
    return loom.define_config(flows=FLOWS, storage=storage).runtime


async def statuses(over: WorkflowRuntime) -> dict[str, str]:
    return {row.execution_id: row.index.status for row in await over.find(ExecutionQuery())}


@pytest.mark.proves("CMP-12")
async def test_cancelling_the_top_of_a_tree_ends_all_of_it_while_the_lowest_sleeps() -> None:
    """Field fault 22."""
    over = runtime()
    await over.start(top, id=TOP)

    outcome = await over.cancel(TOP, reason="enough")
    await over.settled()

    assert outcome.status == "cancelled"
    assert await statuses(over) == dict.fromkeys(["top", "top:middle", "top:middle:sleeper"], "cancelled")
    assert happened == ["top:middle:sleeper parent: enough"]


async def test_a_tree_that_is_driven_is_ended_in_place() -> None:
    over = runtime()
    driving = asyncio.ensure_future(over.start(top, id=TOP, linger_s=10_000))
    while len(await statuses(over)) < 3:
        await asyncio.sleep(0)

    await over.cancel(TOP)
    outcome = await driving
    await over.settled()

    assert outcome.status == "cancelled"
    assert set((await statuses(over)).values()) == {"cancelled"}


async def test_a_child_that_is_to_be_abandoned_goes_on() -> None:
    over = runtime()
    await over.start(lenient, id=TOP)

    await over.cancel(TOP)
    await over.settled()

    assert await statuses(over) == {"top": "cancelled", "top:sleeper": "suspended", "top:sleeper#1": "cancelled"}


async def test_ending_a_run_by_force_ends_its_children_as_well() -> None:
    over = runtime()
    await over.start(top, id=TOP)

    await over.cancel(TOP, force=True)
    await over.settled()

    assert set((await statuses(over)).values()) == {"cancelled"}


@pytest.mark.proves("CMP-12")
async def test_when_one_of_all_fails_the_rest_is_cancelled_but_for_those_to_be_abandoned() -> None:
    over = runtime()

    outcome = await over.start(all_or_none, id=TOP)
    await over.settled()

    assert outcome.failure is not None
    assert outcome.failure.payload["child"] == "top:failing"
    assert await statuses(over) == {
        "top": "failed",
        "top:failing": "failed",
        "top:sleeper": "cancelled",
        "top:sleeper#1": "suspended",
    }
    assert happened == ["top:sleeper parent: top:failing failed"]


async def test_a_child_that_was_cancelled_is_a_failure_to_whoever_waits_for_it() -> None:
    over = runtime()
    await over.start(middle, id=TOP)

    await over.cancel("top:sleeper", reason="no need")
    await over.settled()

    failure = (await over.wait(TOP)).failure
    assert failure is not None
    assert failure.channel == "child_failed"
    assert failure.payload == {"child": "top:sleeper", "flow": "sleeper", "status": "cancelled"}
    assert failure.message == "top:sleeper was cancelled: loom.Cancelled: no need"


class Mortal(loom.MemoryStorage):
    """A store that is out of reach after so many transactions and requests."""

    life = 10_000

    def _live(self) -> None:
        if self.life <= 0:
            raise StoreUnavailable("the process is dead", store=self.url)
        self.life -= 1

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        self._live()
        return await super().append(batch)

    async def insert(self, *args: Any, **kwargs: Any) -> Any:
        self._live()
        return await super().insert(*args, **kwargs)


async def test_a_process_that_dies_while_it_cancels_a_tree_leaves_what_the_next_one_ends() -> None:
    for life in range(1, 12):
        storage = Mortal()
        over = runtime(storage)
        await over.start(top, id=TOP)
        storage.life = life
        with contextlib.suppress(StoreUnavailable):
            await over.cancel(TOP)
        await over.settled()
        storage.life = 10_000

        again = runtime(storage)
        for _ in range(3):  # as a worker would, until nothing is left to be done
            for run, status in (await statuses(again)).items():
                if status not in ("cancelled", "failed"):
                    await again.cancel(TOP) if run == TOP else await again.resume(run)
            await again.settled()

        assert set((await statuses(again)).values()) == {"cancelled"}, life


# -- sagas -------------------------------------------------------------------------------------------------------------


@pytest.mark.proves("CMP-14")
async def test_a_cancelled_saga_is_undone_in_reverse_and_the_run_ends_as_cancelled() -> None:
    """Field fault 20."""
    over = runtime()
    await over.start(trip, id=TOP)

    outcome = await over.cancel(TOP)

    assert outcome.status == "cancelled"
    assert happened == ["book flight", "book hotel", "unbook hotel", "unbook flight"]
    assert [start.id for start in await payloads(over, "STEP_STARTED", TOP)][2:] == [
        "unbook#compensate:0",
        "unbook#compensate:1",
    ]
    assert (await kinds(over, TOP))[-1] == "CANCELLED"
