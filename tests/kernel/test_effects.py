from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.core.middleware import EffectContext
from loom.driving.effects import EffectRuntime
from tests.kernel.running import RUN, kinds, runtime

who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
Next = Callable[[dict[str, Any]], Awaitable[Any]]


@loom.step
async def double(x: int) -> int:
    return 2 * x


@loom.flow
async def doubles(ctx: loom.Context) -> int:
    return await ctx.run(double, 3)


def saying(name: str, said: list[str]) -> Any:
    async def middleware(about: EffectContext, args: dict[str, Any], after: Next) -> Any:
        said.append(f"{name} in {about.tool_id} {args}")
        result = await after(args)
        said.append(f"{name} out {result}")
        return result

    middleware.__qualname__ = name
    return middleware


@pytest.mark.proves("EFF-02")
async def test_middleware_stands_around_the_effect_in_the_order_given() -> None:
    said: list[str] = []
    chain = [saying("outer", said), saying("inner", said)]

    outcome = await runtime(doubles, middleware=chain).start(doubles, id=RUN)

    assert outcome.value == 6
    assert said == ["outer in double {'x': 3}", "inner in double {'x': 3}", "inner out 6", "outer out 6"]
    assert EffectRuntime(chain).chain() == ["retry", "outer", "inner"]


async def test_middleware_may_change_arguments_and_result_or_answer_in_its_place() -> None:
    async def changes(about: EffectContext, args: dict[str, Any], after: Next) -> Any:
        return await after({"x": args["x"] + 1}) + 1

    async def answers(about: EffectContext, args: dict[str, Any], after: Next) -> Any:
        return -1

    assert (await runtime(doubles, middleware=[changes]).start(doubles)).value == 9
    assert (await runtime(doubles, middleware=[changes, answers]).start(doubles)).value == 0


async def test_the_chain_runs_once_an_attempt_and_not_on_replay() -> None:
    said: list[str] = []
    failing = [True]

    @loom.step(retry=loom.Retry(attempts=2, delay=timedelta(0)))
    async def flaky() -> str:
        if failing:
            failing.clear()
            raise ConnectionError
        return "ok"

    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        return [await ctx.run(flaky), await ctx.suspend("end")]

    over = runtime(flow, middleware=[saying("m", said)])
    await over.start(flow, id=RUN)
    outcome = await runtime(flow, middleware=[saying("m", said)], storage=over.storage).resume(RUN, answer=1)

    assert outcome.value == ["ok", 1]
    assert said == ["m in flaky {}", "m in flaky {}", "m out ok"]


@pytest.mark.proves("COM-02")
async def test_with_no_middleware_the_log_is_what_it_is_with_one_that_does_nothing() -> None:
    async def nothing(about: EffectContext, args: dict[str, Any], after: Next) -> Any:
        return await after(args)

    bare, wrapped = runtime(doubles), runtime(doubles, middleware=[nothing])
    await bare.start(doubles, id=RUN)
    await wrapped.start(doubles, id=RUN)

    assert await kinds(bare) == await kinds(wrapped)


async def test_a_plain_def_runs_on_a_thread_of_ours_with_the_context_of_its_caller() -> None:
    def looks() -> list[Any]:
        seen = who.get()
        who.set("the thread")
        thread = threading.current_thread()
        return [seen, thread.daemon, thread is threading.main_thread()]

    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        who.set("the flow")
        return [*await ctx.run("look", looks), who.get()]

    outcome = await runtime(flow).start(flow, id=RUN)

    assert outcome.value == ["the flow", True, False, "the flow"]


async def test_plain_defs_run_side_by_side() -> None:
    meeting = threading.Barrier(3, timeout=5)

    @loom.flow
    async def flow(ctx: loom.Context) -> list[int]:
        return await ctx.map(lambda c, i: c.run("meet", meeting.wait), range(3))

    outcome = await runtime(flow).start(flow, id=RUN)

    assert sorted(outcome.result()) == [0, 1, 2]


async def test_after_a_timeout_no_attempt_starts_before_the_thread_has_ended_and_its_result_is_dropped() -> None:
    log: list[str] = []

    def slow() -> str:
        log.append("in")
        if len(log) == 1:
            time.sleep(0.5)
        log.append("out")
        return f"result {len(log)}"

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        step = loom.step(id="slow", timeout=timedelta(seconds=0.25), retry=loom.Retry(attempts=2, delay=timedelta(0)))
        return await ctx.run(step(slow))

    over = runtime(flow)
    outcome = await over.start(flow, id=RUN)

    assert log == ["in", "out", "in", "out"]
    assert outcome.value == "result 4"
    assert (await kinds(over)).count("STEP_COMPLETED") == 1


async def test_a_timeout_bounds_one_attempt_and_is_an_ordinary_failure_of_an_idempotent_step() -> None:
    @loom.step(timeout=timedelta(seconds=0.01))
    async def hangs() -> None:
        await asyncio.Event().wait()

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            await ctx.run(hangs)
        except loom.StepFailed as error:
            return error.message
        return "no"

    outcome = await runtime(flow).start(flow, id=RUN)

    assert outcome.value == "the attempt took longer than 0.01 s"


async def test_a_timeout_error_of_the_step_itself_is_no_timeout_of_the_attempt() -> None:
    @loom.step(timeout=timedelta(seconds=5), idempotent=False)
    async def raises() -> None:
        raise TimeoutError("of its own")

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            await ctx.run(raises)
        except loom.StepFailed as error:
            return error.message
        return "no"

    assert (await runtime(flow).start(flow, id=RUN)).value == "of its own"


async def test_resources_reach_the_step_and_are_closed_with_the_app() -> None:
    life: list[str] = []

    class Pool:
        async def __aenter__(self) -> str:
            life.append("open")
            return "the pool"

        async def __aexit__(self, *_: object) -> None:
            life.append("closed")

    @loom.step
    async def uses(step: loom.StepContext) -> str:
        return str(step.resources["pool"])

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        return await ctx.run(uses)

    app = loom.define_config(flows=[flow], resources={"pool": Pool})
    async with app:
        values = [(await app.runtime.start(flow)).value for _ in range(2)]

    assert values == ["the pool", "the pool"]
    assert life == ["open", "closed"]


async def test_what_a_step_logs_carries_the_run_and_the_attempt(caplog: pytest.LogCaptureFixture) -> None:
    @loom.step
    async def talks(step: loom.StepContext) -> None:
        step.log.warning("hello")

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        ctx.log.warning("line of the flow")
        await ctx.run(talks)
        await ctx.suspend("end")

    over = runtime(flow)
    await over.start(flow, id=RUN)
    await runtime(flow, storage=over.storage).resume(RUN, answer=1)

    [hello] = [record for record in caplog.records if record.message == "hello"]
    [line] = [record for record in caplog.records if record.message == "line of the flow"]
    assert (hello.execution_id, hello.step_id, hello.attempt) == (RUN, "talks", 1)  # type: ignore[attr-defined]
    assert line.pathname == __file__
