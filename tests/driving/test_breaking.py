"""A replayed body stops where it is told to: in the frames of the author's code, with every call served and nothing caused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings

import loom
from loom.core.flow import Flow
from loom.core.ids import ExecutionId
from loom.driving.breaking import Breaks, Point, Stop
from loom.driving.replaying import Replayer
from loom.driving.runtime import WorkflowRuntime
from loom.driving.stored_log import stored_records
from loom.driving.verdicts import Verdict
from loom.kernel.codec import decode_events
from loom.lenses.folding import fold_at
from tests.kernel.lives import RUN as LIFE
from tests.kernel.lives import Way, live
from tests.kernel.programs import WORLD, World, replayer
from tests.kernel.running import RUN, runtime
from tests.kernel.test_live_and_replay import Program, programs, ways, wild

ran: list[Any] = []


@loom.step
async def fetch(n: int) -> int:
    ran.append(n)
    if n > 90:
        raise ValueError("no such page")
    return n * 10


async def ask(ctx: loom.Context, shown: int) -> bool:
    return await ctx.suspend("approve", show=shown, expects=bool)


@loom.flow
async def desk(ctx: loom.Context, n: int) -> Any:
    first = await ctx.run(fetch, n)
    if await ask(ctx, first):
        second = await ctx.run(fetch, first)
        return [first, second]
    return first


@loom.flow
async def wide(ctx: loom.Context) -> Any:
    async def one(ctx: loom.Context, n: int) -> bool:
        mine = n + 1
        return await ctx.suspend(f"sign-{mine}", expects=bool)

    both = await asyncio.gather(ctx.run(fetch, 1), ctx.run(fetch, 2))
    return [both, await ctx.map(one, [1, 2])]


@loom.flow
async def careless(ctx: loom.Context) -> str:
    with contextlib.suppress(loom.StepFailed):
        await ctx.run(fetch, 99)
    return "done"


async def stops(
    over: WorkflowRuntime,
    flow: Flow[Any, Any],
    points: Sequence[Point],
    then: Callable[[Stop], bool] = lambda _: True,
) -> tuple[list[Any], Verdict]:
    """Return what *told* makes of each stop of the replay of the run, and the verdict on it."""
    found: list[Any] = []

    def seen(stop: Stop) -> bool:
        names = [frame.f_code.co_name for frame, _ in stop.frames]
        values = {name: value for name, value in stop.frames[-1][0].f_locals.items() if name != "ctx"} if names else {}
        found.append((stop, names, values))
        return then(stop)

    records = await stored_records(over.surroundings.storage, ExecutionId(RUN))
    ran.clear()
    replayed = await Replayer({flow.id: flow}, manner=Breaks(points, seen)).replay(RUN, records)
    assert ran == []
    assert await stored_records(over.surroundings.storage, ExecutionId(RUN)) == records
    return found, replayed.verdict


@pytest.fixture
async def over() -> WorkflowRuntime:
    over = runtime(desk, wide, careless)
    await over.start(desk, 3, id=RUN)
    await over.resume(RUN, answer=True)
    return over


@pytest.mark.proves("BEY-07")
async def test_it_stops_in_the_body_before_a_call_with_what_the_body_knows_then(over: WorkflowRuntime) -> None:
    [(stop, names, values)], verdict = await stops(over, desk, [Point("before", "fetch#1")])

    assert (stop.when, stop.id, stop.runs, names) == ("before", "fetch#1", True, ["desk"])
    assert values == {"n": 3, "first": 30}
    assert (await over.events(RUN))[stop.sequence].payload.id == "fetch#1"
    assert verdict.kind == "same"


async def test_it_stops_after_a_call_with_what_that_gave(over: WorkflowRuntime) -> None:
    [(stop, _, values)], _ = await stops(over, desk, [Point("after", "fetch")])

    assert (stop.value, values) == (30, {"n": 3})
    assert (await over.events(RUN))[stop.sequence].type == "STEP_COMPLETED"


async def test_a_call_that_a_function_of_the_authors_asks_is_stopped_in_that_function(over: WorkflowRuntime) -> None:
    [(_, names, values)], _ = await stops(over, desk, [Point("before", "approve")])

    assert (names, values) == (["desk", "ask"], {"shown": 30})


@pytest.mark.proves("BEY-07")
async def test_every_call_stops_when_it_is_stepped_through(over: WorkflowRuntime) -> None:
    found, _ = await stops(over, desk, [Point("before")])

    assert [stop.id for stop, _, _ in found] == ["fetch", "approve", "fetch#1"]


async def test_a_failure_is_told_where_it_is_raised_though_the_flow_catches_it() -> None:
    over = runtime(careless)
    await over.start(careless, id=RUN)

    [(stop, names, _)], verdict = await stops(over, careless, [Point("after", "fetch")])

    assert isinstance(stop.error, loom.StepFailed)
    assert (names, verdict.kind) == (["careless"], "same")


async def test_at_the_end_of_the_log_each_branch_that_waits_is_told() -> None:
    over = runtime(wide)
    await over.start(wide, id=RUN)

    found, _ = await stops(over, wide, [Point("end")])

    assert [(stop.id, names, values["mine"]) for stop, names, values in found] == [
        ("map/0/sign-2", ["one"], 2),
        ("map/1/sign-3", ["one"], 3),
    ]
    assert not any(stop.runs for stop, _, _ in found)


async def test_calls_that_are_gathered_are_told_where_they_are_asked_and_where_they_are_waited_for() -> None:
    over = runtime(wide)
    await over.start(wide, id=RUN)

    found, _ = await stops(over, wide, [Point("before", "fetch#1"), Point("after", "fetch#1")])

    assert [(stop.when, names, stop.value) for stop, names, _ in found] == [
        ("before", ["wide"], None),
        ("after", ["wide"], 20),
    ]


async def test_a_run_that_failed_ends_with_its_error_in_the_frame_that_let_it_out() -> None:
    over = runtime(desk)
    await over.start(desk, 99, id=RUN)

    [(stop, names, values)], _ = await stops(over, desk, [Point("end")])

    assert isinstance(stop.error, loom.StepFailed)
    assert (names, values) == (["desk"], {"n": 99})


async def test_who_has_seen_enough_ends_it_and_the_body_goes_no_further(over: WorkflowRuntime) -> None:
    found, verdict = await stops(over, desk, [Point("before")], then=lambda stop: stop.id != "approve")

    assert [stop.id for stop, _, _ in found] == ["fetch", "approve"]
    assert "was left" in verdict.why


async def test_a_body_that_does_not_fit_its_log_is_told_where_it_asks_something_else(over: WorkflowRuntime) -> None:
    @loom.flow(id="desk")
    async def other(ctx: loom.Context, n: int) -> Any:
        mine = n
        return await ctx.suspend("first of all", show=mine)

    [(stop, names, values)], verdict = await stops(over, other, [Point("end")])

    assert (stop.error is not None, names, values, verdict.kind) == (True, ["other"], {"n": 3, "mine": 3}, "breaks")


@settings(max_examples=8)
@given(program=programs(wild), way=ways(retries=2))
async def test_stopping_everywhere_changes_nothing_of_what_a_replay_comes_to(program: Program, way: Way) -> None:
    life = await live(program, way)
    log = list(life.log)
    state = fold_at(decode_events(ExecutionId(LIFE), log))
    known = {start.payload.id for start in state.open.values()}
    known |= {settled.start.payload.id for settled in state.settled}
    seen: list[Stop] = []

    def on_stop(stop: Stop) -> bool:
        seen.append(stop)
        return True

    token = WORLD.set(world := World(0, forbidden=True))
    try:
        manner = Breaks([Point("before"), Point("after"), Point("end")], on_stop)
        replayed = await replayer(manner).replay(LIFE, log)
    finally:
        WORLD.reset(token)

    assert (replayed.verdict.kind, world.effects, list(world.trace)) == ("same", [], life.saw)
    assert {stop.id for stop in seen if stop.when == "before" and stop.sequence is not None} == known
