"""Runs that wait for their turn, or for a quiet time; runs that are started once; and what is cut off in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loom
from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId
from loom.driving.errors import ExecutionAlreadyExists
from loom.driving.runtime import WorkflowRuntime
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Append, AppendResult, ExecutionQuery
from loom.spi.memory import MemoryStorage
from tests.driving.lined import CALM, MINUTE, MINUTE_MS, ONCE, ONE, PACED, World, begun, flow, ran, shipping
from tests.kernel.running import kinds, payloads


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


# -- turns ---------------------------------------------------------------------------------------------------------------


@pytest.mark.proves("BEY-15")
async def test_runs_over_the_rate_are_written_with_the_time_of_their_turn() -> None:
    world = World(PACED)
    now = world.clock.now_ms()

    outcomes = [await world.start(f"r{number}") for number in range(5)]

    assert [begun(each) for each in outcomes] == [True, True, False, False, False]
    assert [each.wake_at for each in outcomes[2:]] == [now + MINUTE_MS, now + MINUTE_MS, now + 2 * MINUTE_MS]
    assert outcomes[2].reason == "its turn: 2 runs of shipping begin in 1m"


@pytest.mark.proves("BEY-15")
@settings(max_examples=30, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 3)), max_size=20))
def test_no_more_begin_in_any_minute_than_may_however_late_they_are_taken_up(steps: Sequence[tuple[int, int]]) -> None:
    asyncio.run(_paced(steps))


async def _paced(steps: Sequence[tuple[int, int]]) -> None:
    world, started = World(PACED), 0
    for passes, starts in steps:
        world.clock.advance(passes)
        for _ in range(starts):
            await world.start(f"r{started}")
            started += 1
        await _take_up_due(world)
    while await _take_up_due(world) or await world.over.find(ExecutionQuery(due_before=1 << 60)):
        world.clock.advance(MINUTE_MS // 2)
    began = sorted([(await payloads_at(world, f"r{number}")) for number in range(started)])
    assert all(later - earlier >= MINUTE_MS for earlier, later in zip(began, began[2:], strict=False))


async def _take_up_due(world: World) -> int:
    due = await world.over.find(ExecutionQuery(due_before=world.clock.now_ms() + 1))
    for row in due:
        await world.resume(row.execution_id)
    return len(due)


async def payloads_at(world: World, name: str) -> int:
    """Return when the first step of a run was asked."""
    return next(event.at for event in await world.over.events(name) if event.type == "STEP_STARTED")


# -- quiet times ---------------------------------------------------------------------------------------------------------


@pytest.mark.proves("BEY-15")
async def test_a_newer_start_takes_the_place_of_one_in_its_quiet_time() -> None:
    world = World(CALM)
    waits = await world.start("a")
    world.clock.advance(MINUTE_MS // 2)

    newer = await world.start("b")

    assert (waits.status, waits.reason) == ("suspended", "1m without another start of customer c-1")
    assert newer.wake_at == world.clock.now_ms() + MINUTE_MS
    assert await kinds(world.over, "a") == ["STARTED", "SUSPENDED", "CANCELLED"]
    [cancelled] = await payloads(world.over, "EXECUTION_CANCELLED", "a")
    assert (cancelled.cause, cancelled.reason) == ("superseded", "b was started before it began")
    world.clock.advance(MINUTE_MS)
    assert begun(await world.resume("b"))
    assert ran == ["b"]


async def test_one_whose_quiet_time_is_over_begins_though_another_starts_then() -> None:
    world = World(CALM)
    await world.start("a")
    world.clock.advance(MINUTE_MS)

    await world.start("b")

    assert begun(await world.resume("a"))


async def test_one_whose_end_could_not_be_written_ends_when_it_is_taken_up() -> None:
    world = World(CALM)
    await world.start("a")
    order = {"id": "b", "customer": "c-1"}
    terms = (await _terms(world, order),)
    await world.storage.join_lines(ExecutionId("b"), *terms, length=0)
    await _written(world, "b")
    world.clock.advance(MINUTE_MS)

    outcome = await world.resume("a")

    assert (outcome.status, outcome.reason) == ("cancelled", "b was started before it began")


async def _terms(world: World, order: dict[str, Any]) -> Any:
    from loom.driving.terms import terms_of

    return terms_of(world.flow, order)


async def _written(world: World, name: str) -> None:
    """Write a run beside its lines, as a process does that is killed right after."""
    from loom.devtools.conformance.logs import appended, first

    await appended(world.storage, first(ExecutionId(name)))


# -- once ----------------------------------------------------------------------------------------------------------------


@pytest.mark.proves("BEY-15")
async def test_a_second_start_for_the_same_thing_is_told_where_the_first_stands() -> None:
    world = World(ONCE)
    first = await world.over.start(ONCE, {"id": "A-17"})
    length = (await world.over.load_state("shipping-A-17")).length

    second = await world.over.start(ONCE, {"id": "A-17"})
    unchanged = (await world.over.load_state("shipping-A-17")).length
    await world.end("shipping-A-17")
    third = await world.over.start(ONCE, {"id": "A-17"})

    assert (first.execution_id, begun(first)) == ("shipping-A-17", True)
    assert (second.execution_id, second.status, unchanged) == ("shipping-A-17", "accepted", length)
    assert (third.status, third.result()) == ("completed", "A-17 yes")
    assert ran == ["A-17"]


@pytest.mark.proves("BEY-15")
async def test_of_many_that_start_for_the_same_thing_at_once_one_runs() -> None:
    world = World(ONCE)
    elsewhere = world.process()

    outcomes = await asyncio.gather(
        *(over.start(ONCE, {"id": "A-17"}) for _ in range(5) for over in (world.over, elsewhere))
    )

    assert Counter(each.status for each in outcomes) == {"suspended": 1, "accepted": 9}
    assert ran == ["A-17"]


async def test_an_id_beside_what_a_run_is_for_is_refused() -> None:
    world = World(ONCE)

    with pytest.raises(InvalidDeclaration, match="named by their id, not mine"):
        await world.over.start(ONCE, {"id": "A-17"}, id="mine")

    assert await world.storage.ids() == []


@pytest.mark.parametrize(
    ("key", "named"),
    [("A-17", "shipping-A-17"), (17, "shipping-17"), ("A 17", None), ("~x", None), ("x" * 500, None), ("ü", None)],
)
async def test_an_id_is_readable_where_its_key_can_be_part_of_one(key: Any, named: str | None) -> None:
    world = World(ONCE)

    outcome = await world.over.start(ONCE, {"id": key})

    assert outcome.execution_id == named or (named is None and outcome.execution_id.startswith("shipping-~"))


async def test_the_id_of_another_flow_is_not_taken_for_an_earlier_run() -> None:
    world = World(ONCE)
    other = loom.flow(id="other")(shipping)
    over = loom.define_config(flows=[ONCE, other], storage=world.storage).runtime
    await over.start(other, {"id": "x"}, id="shipping-A-17")

    with pytest.raises(ExecutionAlreadyExists):
        await over.start(ONCE, {"id": "A-17"})


# -- what is cut off in between -----------------------------------------------------------------------------------------


class Broken(MemoryStorage):
    """A store that loses the next writes to the logs, as a process does that is killed."""

    is_broken = False

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        if self.is_broken:
            raise StoreUnavailable("the plug is pulled", store=self.url)
        return await super().append(batch)


@pytest.mark.proves("BEY-15")
async def test_a_start_that_is_lost_before_it_is_written_takes_no_place_for_long() -> None:
    world = World(ONE, Broken)
    assert isinstance(world.storage, Broken)
    world.storage.is_broken = True
    with pytest.raises(StoreUnavailable):
        await world.start("lost")
    world.storage.is_broken = False

    waits = await world.start("a")
    world.clock.advance(MINUTE_MS)

    assert waits.status == "suspended"
    assert list(await world.storage.sweep_lines()) == ["a"]
    assert begun(await world.resume("a"))


class Hasty(MemoryStorage):
    """A store in which a place becomes free right between a run's joining and its being written."""

    over: WorkflowRuntime | None = None

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        over, names = self.over, {item.execution_id for item in batch}
        if over is not None and "b" in names:
            self.over = None
            await over.resume("a", answer="yes")
        return await super().append(batch)


@pytest.mark.proves("BEY-15")
async def test_a_place_that_is_free_before_its_run_is_written_is_found_at_once() -> None:
    world = World(ONE, Hasty)
    assert isinstance(world.storage, Hasty)
    await world.start("a")
    hasty = world.storage.over = world.process()

    outcome = await world.start("b")
    await hasty.settled()

    assert begun(outcome) or outcome.status == "accepted"
    assert (await world.over.load_state("b")).gates
    assert (await kinds(world.over, "b"))[:3] == ["STARTED", "SUSPENDED", "RESUMED"]


async def test_what_waits_for_its_quiet_time_a_place_and_its_turn_passes_them_in_order() -> None:
    world = World(
        flow(
            concurrency=loom.Limit(1),
            rate=loom.Rate(1, per=timedelta(hours=1)),
            debounce=loom.Debounce(MINUTE, key="id"),
        )
    )
    await world.start("a")
    await world.start("b")
    world.clock.advance(MINUTE_MS)

    first, second = await world.resume("a"), await world.resume("b")
    await world.end("a")
    third = await world.resume("b")
    world.clock.advance(60 * MINUTE_MS)

    assert begun(first)
    assert second.reason == "a place among 1 run of shipping"
    assert third.reason == "its turn: 1 run of shipping begin in 1h"
    assert begun(await world.resume("b"))
