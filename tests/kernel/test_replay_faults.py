"""What went wrong with replay for people who ran systems like Loom (field faults 2-5, 7, 9, 44), as it goes here.

More of each stands beside what keeps it: delivery, divergence, steps, derived values.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import time
import traceback
from typing import Any

import pytest

import loom
from loom.kernel.errors import ReplayDivergence
from tests.kernel.running import RUN, kinds, payloads, runtime

RESUME_MAX_S = 30.0
"""So long a run of ten thousand events may take to find again where it stood, on the slowest machine that runs the tests."""

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@loom.step
async def fetch(n: int) -> int:
    ran.append(f"fetch {n}")
    return n


async def test_steps_that_finish_in_any_order_are_the_same_on_the_next_worker(seed: int) -> None:  # 2
    rng = random.Random(seed)

    @loom.step
    async def slow(name: str) -> str:
        for _ in range(rng.randrange(30)):
            await asyncio.sleep(0)
        return name

    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        async def branch(ctx: loom.Context, name: str) -> str:
            return await ctx.run(slow, name) + await ctx.run(slow, f"{name}2")

        both = await asyncio.gather(*(ctx.run(slow, name) for name in "xyz"))
        return [await ctx.map(branch, ["a", "b", "c"]), both, await ctx.suspend("go")]

    over = runtime(flow)
    await over.start(flow, id=RUN)

    for _ in range(3):
        assert (await runtime(flow, storage=over.storage).resume(RUN)).status == "suspended"

    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=1)
    assert outcome.value == [["aa2", "bb2", "cc2"], ["x", "y", "z"], 1]
    assert "DIVERGED" not in await kinds(over)


async def test_a_mismatch_stops_the_run_once_and_it_is_not_tried_again_endlessly() -> None:  # 2
    @loom.flow(id="flow")
    async def before(ctx: loom.Context) -> Any:
        await ctx.sleep(0.01)
        return await ctx.run(fetch, 1)

    @loom.flow(id="flow")
    async def after(ctx: loom.Context) -> Any:
        await ctx.run(fetch, 1)

    over = runtime(before)
    await over.start(before, id=RUN, linger_s=0)
    app = loom.define_config(flows=[after], storage=over.storage)
    with pytest.raises(ReplayDivergence):
        await app.runtime.resume(RUN)
    told: list[str] = []

    await app.worker(until_idle=True, told=lambda report: told.append(report.did)).run()

    assert told == [], "a diverged run is nobody's work until somebody takes it up"
    assert (await kinds(over)).count("DIVERGED") == 1
    assert (await runtime(before, storage=over.storage).resume(RUN)).status == "completed"


async def test_a_timer_is_not_taken_for_a_step() -> None:  # 3
    @loom.flow(id="flow")
    async def before(ctx: loom.Context) -> Any:
        await ctx.sleep(0, name="fetch")
        return await ctx.suspend("go")

    @loom.flow(id="flow")
    async def after(ctx: loom.Context) -> Any:
        return [await ctx.run(fetch, 1), await ctx.suspend("go")]

    over = runtime(before)
    await over.start(before, id=RUN)

    with pytest.raises(ReplayDivergence, match="recorded timer fetch, asked step fetch with"):
        await runtime(after, storage=over.storage).resume(RUN, answer=1)

    assert ran == []


async def test_another_argument_is_noticed_and_told() -> None:  # 4
    draws = random.Random(1)

    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        return [await ctx.run(fetch, draws.randrange(10**9)), await ctx.suspend("go")]

    over = runtime(flow)
    await over.start(flow, id=RUN)

    with pytest.raises(ReplayDivergence, match="other arguments this time: a clock, randomness") as told:
        await runtime(flow, storage=over.storage).resume(RUN, answer=1)

    assert told.value.recorded is not None
    assert told.value.asked is not None
    assert told.value.recorded["args"] != told.value.asked["args"]
    assert told.value.asked["where"].startswith(f"{__file__}:")


async def test_one_step_in_a_loop_and_side_by_side_has_a_record_for_each_call() -> None:  # 5
    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        one_by_one = [await ctx.run(fetch, n) for n in range(10)]
        beside = await asyncio.gather(*(ctx.run(fetch, n) for n in range(10, 15)))
        return [one_by_one + list(beside), await ctx.suspend("go")]

    over = runtime(flow)
    await over.start(flow, id=RUN)
    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=1)

    assert outcome.value == [list(range(15)), 1]
    ids = [fact.id for fact in await payloads(over, "STEP_STARTED")]
    assert ids == ["fetch", *(f"fetch#{n}" for n in range(1, 15))]
    assert len(ran) == 15


async def test_one_more_draw_moves_no_later_one() -> None:  # 7
    def version(*, draws_more: bool) -> loom.Flow[[], Any]:
        @loom.flow(id="flow")
        async def flow(ctx: loom.Context) -> Any:
            if draws_more:
                ctx.random()
            await ctx.run(fetch, 1)
            if draws_more:
                ctx.uuid("a new one")
            child = str(ctx.uuid())
            await ctx.run("start a child", str, child)
            return [child, await ctx.suspend("go")]

        return flow

    over = runtime(version(draws_more=False))
    await over.start("flow", id=RUN)

    outcome = await runtime(version(draws_more=True), storage=over.storage).resume(RUN, answer=1)

    asked = (await payloads(over, "STEP_STARTED"))[1]
    assert outcome.value is not None
    assert asked.args["args"] == outcome.value[:1]
    [migrated] = await payloads(over, "EXECUTION_MIGRATED")
    assert migrated.differences == []


async def test_a_failure_reads_the_same_the_second_time() -> None:  # 9
    @loom.step
    async def breaks() -> None:
        raise ConnectionError(f"no answer at {time.monotonic_ns()}")

    @loom.step
    async def report(text: str) -> str:
        return text

    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        try:
            await ctx.run(breaks)
        except loom.StepFailed as failed:
            told = f"{failed.error_type}: {failed.message}\n{failed.traceback}"
            await ctx.run(report, told)
            await ctx.run(report, traceback.format_exception_only(failed)[0])
        return await ctx.suspend("go")

    over = runtime(flow)
    await over.start(flow, id=RUN)

    assert (await runtime(flow, storage=over.storage).resume(RUN, answer="same")).value == "same"


async def test_a_fan_out_logs_its_line_once_and_its_body_runs_once_a_drive(
    caplog: pytest.LogCaptureFixture,
) -> None:  # 44
    bodies: list[int] = []
    line = 0

    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        nonlocal line
        bodies.append(1)
        found = await ctx.map(fetch, range(1000))
        ctx.log.info("fetched %d", len(found))
        line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
        return [sum(found), await ctx.suspend("go")]

    over = runtime(flow)
    with caplog.at_level(logging.INFO, logger="loom"):
        await over.start(flow, id=RUN)
        for _ in range(3):
            await runtime(flow, storage=over.storage).resume(RUN)

    told = [record for record in caplog.records if record.getMessage() == "fetched 1000"]
    assert [(record.pathname, record.lineno) for record in told] == [(__file__, line)]
    assert len(bodies) == 4
    assert len(ran) == 1000


async def test_the_work_of_a_replay_grows_with_the_log_and_not_faster() -> None:  # 44
    @loom.flow
    async def flow(ctx: loom.Context, count: int) -> Any:
        total = sum([await ctx.run(fetch, n) for n in range(count)])
        return [total, await ctx.suspend("go")]

    async def replay_s(count: int) -> float:
        over = runtime(flow, write_behind=True)
        await over.start(flow, count, id=RUN)
        began = time.perf_counter()
        assert (await runtime(flow, storage=over.storage).resume(RUN)).status == "suspended"
        return time.perf_counter() - began

    small = min([await replay_s(500) for _ in range(3)])
    large = await replay_s(5_000)

    assert large < RESUME_MAX_S
    assert large < 40 * small, "ten times the log, not a hundred times the work"
