"""What came of a decision is learned later, and attached to it: while the run goes on, waits, or has long ended."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

import loom
from loom import values
from loom.driving.errors import DecisionNotFound, ExecutionNotFound
from loom.driving.runtime import WorkflowRuntime
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, kinds, payloads, records, runtime


@loom.flow
async def decides(ctx: loom.Context, waits: bool = False) -> Any:
    async def choose(ctx: loom.Context, item: int) -> Any:
        return await ctx.decide("offer", lambda: item)

    picked = await ctx.decide("pick", lambda options: options[1], ["a", "b"])
    await ctx.map(choose, range(2))
    if waits:
        await ctx.suspend("ask")
    return picked


async def outcomes(over: WorkflowRuntime) -> list[tuple[str, Any, str | None]]:
    """Return what is attached: to which decision, what, and with which note."""
    state = await over.load_state(RUN)
    ids = {settled.start.sequence: settled.start.payload.id for settled in state.settled}
    attached = [event.payload for event in state.facts.outcomes]
    return [(ids[fact.start], values.decode(fact.value), fact.note) for fact in attached]


@pytest.mark.proves("SUS-13")
@pytest.mark.parametrize("waits", [False, True])
async def test_an_outcome_is_attached_to_its_decision_of_a_run_that_waits_or_has_ended(waits: bool) -> None:
    over = runtime(decides)
    outcome = await over.start(decides, waits, id=RUN)

    await over.attach(RUN, "pick", 0.8, note="bought it", principal="shop")
    await over.attach(RUN, "map/1/offer", {"rating": Decimal("4.5")})

    assert await outcomes(over) == [("pick", 0.8, "bought it"), ("map/1/offer", {"rating": Decimal("4.5")}, None)]
    assert (await over.load_state(RUN)).status == outcome.status
    assert (await over.events(RUN))[-2].metadata == {"principal": "shop"}


async def test_what_is_attached_changes_nothing_for_the_flow() -> None:
    over = runtime(decides)
    await over.start(decides, True, id=RUN)
    await over.attach(RUN, "pick", 1)

    done = await over.resume(RUN, answer=None)

    assert done.value == "b"


async def test_a_run_that_is_driven_journals_it_itself() -> None:
    over = runtime(works)
    Elsewhere.done = asyncio.Event()
    driving = asyncio.ensure_future(over.start(works, id=RUN))
    async with asyncio.timeout(5):
        while "STEP_STARTED" not in await kinds(over):
            await asyncio.sleep(0)

    await over.attach(RUN, "pick", 0.5, principal="shop")
    async with asyncio.timeout(5):
        while "OUTCOME_ATTACHED" not in await kinds(over):
            await asyncio.sleep(0)
    Elsewhere.done.set()
    await driving

    assert await outcomes(over) == [("pick", 0.5, None)]
    [event] = [event for event in await over.events(RUN) if event.type == "OUTCOME_ATTACHED"]
    assert event.metadata == {"request": 1, "principal": "shop"}


async def test_a_driver_of_another_process_journals_it_too() -> None:
    over = runtime(works)
    Elsewhere.done = asyncio.Event()
    driving = asyncio.ensure_future(over.start(works, id=RUN))
    async with asyncio.timeout(5):
        while "STEP_STARTED" not in await kinds(over):
            await asyncio.sleep(0)

    await runtime(works, storage=over.storage).attach(RUN, "pick", 0.5)
    async with asyncio.timeout(5):
        while "OUTCOME_ATTACHED" not in await kinds(over):
            await asyncio.sleep(0.01)
    Elsewhere.done.set()

    assert (await driving).status == "completed"


class Elsewhere:
    """What a step waits for, and what tells that the run has ended."""

    done: asyncio.Event
    ended: asyncio.Event


@loom.step
async def linger() -> None:
    await Elsewhere.done.wait()


@loom.flow
async def works(ctx: loom.Context) -> None:
    await ctx.decide("pick", lambda: 1)
    await ctx.run(linger)


class Meddled(MemoryStorage):
    """A store in which somebody else appends first, as often as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 0

    async def append(self, batch: Any) -> Any:
        if self.times and batch[0].events[0].type == "OUTCOME_ATTACHED":
            self.times -= 1
            other = runtime(decides, storage=self)
            times, self.times = self.times, 0
            await other.attach(RUN, "pick", "of another")
            self.times = times
        return await super().append(batch)


async def test_it_is_tried_again_when_somebody_else_appends_first() -> None:
    store = Meddled()
    over = runtime(decides, storage=store)
    await over.start(decides, id=RUN)
    store.times = 3

    await over.attach(RUN, "pick", "mine")

    assert await outcomes(over) == [("pick", "of another", None)] * 3 + [("pick", "mine", None)]


class Ends(MemoryStorage):
    """A store in which the run ends between a look at its log and the insert that follows."""

    async def insert(self, *about: Any, **wish: Any) -> Any:
        if not Elsewhere.done.is_set():
            Elsewhere.done.set()
            await Elsewhere.ended.wait()
        return await super().insert(*about, **wish)


async def test_a_run_that_ends_before_its_driver_is_asked_has_it_appended() -> None:
    Elsewhere.done, Elsewhere.ended = asyncio.Event(), asyncio.Event()
    over = runtime(works, storage=Ends())
    driving = asyncio.ensure_future(over.start(works, id=RUN))
    driving.add_done_callback(lambda _: Elsewhere.ended.set())
    async with asyncio.timeout(5):
        while "STEP_STARTED" not in await kinds(over):
            await asyncio.sleep(0)

    await over.attach(RUN, "pick", 0.5)

    assert (await kinds(over))[-2:] == ["COMPLETED", "OUTCOME_ATTACHED"]


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        ("nothing", "no decision of run-1 is called 'nothing'"),
        ("offer", "2 decisions of run-1 are called 'offer'"),
        ("ick", "no decision of run-1 is called 'ick'"),
    ],
)
async def test_a_decision_that_is_not_found_is_never_guessed(decision: str, told: str) -> None:
    over = runtime(decides)
    await over.start(decides, id=RUN)
    before = await records(over.storage)

    with pytest.raises(DecisionNotFound) as refused:
        await over.attach(RUN, decision, 1)

    assert str(refused.value) == told
    assert "map/0/offer" in refused.value.hint
    assert await records(over.storage) == before


async def test_what_cannot_be_attached_is_refused() -> None:
    over = runtime(decides)
    with pytest.raises(ExecutionNotFound):
        await over.attach(RUN, "pick", 1)
    await over.start(decides, id=RUN)

    with pytest.raises(values.NotSerializable):
        await over.attach(RUN, "pick", object())

    assert await payloads(over, "OUTCOME_ATTACHED") == []
