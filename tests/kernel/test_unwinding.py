"""Kernel rules 6.1 to 6.3: how a body is put away, and what it cannot do about it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import subprocess
import sys
from typing import Any

import pytest

import loom
from loom.core.errors import SuspensionSwallowed
from loom.kernel.drive import Drive
from tests.kernel.running import RUN, kinds, runtime

pytestmark = pytest.mark.usefixtures("asyncio_is_quiet")
ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@loom.step
async def act(what: str) -> str:
    ran.append(what)
    return what


async def _parks_and_goes_on(flow: loom.Flow[[], Any], *, warns: bool = False) -> loom.Outcome[Any]:
    over = runtime(flow)
    told: Any = pytest.warns(SuspensionSwallowed, match="test_unwinding") if warns else contextlib.nullcontext()
    async with asyncio.timeout(20):
        with told:
            parked = await over.start(flow, id=RUN)
        assert parked.status == "suspended"
        assert await kinds(over) == ["STARTED", "GATE_OPENED", "SUSPENDED"]
        return await runtime(flow, storage=over.storage).resume(RUN, answer="yes")


async def test_except_exception_does_not_see_the_suspension() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            return await ctx.suspend("approve", expects=str)
        except Exception:  # noqa: BLE001  # what authors write
            return "default"

    assert (await _parks_and_goes_on(flow)).value == "yes"


async def test_a_body_that_catches_everything_and_returns_still_parks_with_a_warning() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            return await ctx.suspend("approve", expects=str)
        except BaseException:  # noqa: BLE001  # what authors should not write
            return "default"

    assert (await _parks_and_goes_on(flow, warns=True)).value == "yes"


async def test_a_body_that_raises_something_else_instead_still_parks() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            return await ctx.suspend("approve", expects=str)
        except BaseException as signal:
            raise RuntimeError("another") from signal

    assert (await _parks_and_goes_on(flow, warns=True)).value == "yes"


# What is abandoned swallows even the end of its coroutine, and Python says so when it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("times", [3, 1000])
async def test_a_body_that_asks_on_and_on_is_refused_every_time_and_records_nothing(times: int) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        answer = "none"
        for _ in range(times):
            try:
                if answer == "none":
                    answer = await ctx.suspend("approve", expects=str)
            except:  # noqa: E722  # what an author should not write
                with contextlib.suppress(BaseException):
                    await ctx.run(act, "swallowed")
        return answer

    assert (await _parks_and_goes_on(flow, warns=True)).value == "yes"
    assert ran == []


ENDLESS = """
import asyncio, loom, sys, warnings
warnings.simplefilter("ignore")

@loom.flow
async def flow(ctx: loom.Context) -> None:
    async def branch(ctx: loom.Context) -> None:
        asked = False
        while True:
            try:
                if asked:
                    await ctx.{syscall}
                asked = True
                await ctx.suspend("g")
            except BaseException:
                pass

    async def fails(ctx: loom.Context) -> None:
        raise ValueError

    await {body}

async def main() -> None:
    outcome = await loom.define_config(flows=[flow]).runtime.start(flow, id="r")
    print(outcome.status, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("syscall", "body"),
    [('suspend("g")', "branch(ctx)"), ('run("a", int)', "ctx.parallel(branch)"), ("parallel()", "branch(ctx)")],
)
def test_a_body_that_never_stops_asking_is_abandoned_and_the_process_ends(syscall: str, body: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS.format(syscall=syscall, body=body)],
        capture_output=True,
        text=True,
        timeout=4,
        check=False,
    )

    assert done.stdout == "suspended\n", done.stderr


async def test_clean_up_runs_but_a_syscall_in_it_is_refused_until_the_real_end() -> None:
    cleaned: list[str] = []

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            return await ctx.suspend("approve", expects=str)
        finally:
            cleaned.append("plain")
            await ctx.run(act, "clean up")

    outcome = await _parks_and_goes_on(flow)

    assert outcome.value == "yes"
    assert cleaned == ["plain", "plain"]
    assert ran == ["clean up"]


async def test_async_with_is_left_in_the_task_of_the_body() -> None:
    tasks: list[Any] = []

    @contextlib.asynccontextmanager
    async def tool() -> Any:
        tasks.append(asyncio.current_task())
        try:
            yield
        finally:
            await asyncio.sleep(0)
            tasks.append(asyncio.current_task())

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        async with tool():
            return await ctx.suspend("approve", expects=str)

    await _parks_and_goes_on(flow)

    assert tasks[0] is tasks[1]
    assert tasks[2] is tasks[3]


async def test_a_task_group_over_syscalls_parks_and_goes_on() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        async with asyncio.TaskGroup() as group:
            answer = group.create_task(ctx.suspend("approve", expects=str))
        return answer.result()

    assert (await _parks_and_goes_on(flow)).value == "yes"


async def test_gather_over_syscalls_parks_and_goes_on() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        return list(await asyncio.gather(ctx.suspend("approve", expects=str), return_exceptions=True))

    assert (await _parks_and_goes_on(flow)).value == ["yes"]


async def test_branches_are_put_away_before_the_body_that_opened_them() -> None:
    order: list[str] = []

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        async def branch(ctx: loom.Context, item: str) -> None:
            try:
                await ctx.suspend(item)
            finally:
                order.append(item)

        try:
            await ctx.map(branch, ["a", "b"])
        finally:
            order.append("body")

    await runtime(flow).start(flow, id=RUN)

    assert sorted(order[:2]) == ["a", "b"]
    assert order[2:] == ["body"]


async def test_a_flow_that_waits_long_for_nothing_of_ours_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from loom.core.errors import NoSyscallInSight
    from loom.kernel import drive

    monkeypatch.setattr(drive, "STRAY_WAIT_S", 0.01)

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        await asyncio.sleep(0.1)
        return "done"

    with pytest.warns(NoSyscallInSight, match="test_unwinding"):
        outcome = await runtime(flow).start(flow, id=RUN)

    assert outcome.value == "done"


async def test_a_caller_that_is_cancelled_leaves_a_run_that_can_be_resumed() -> None:
    may_end = asyncio.Event()

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        await ctx.run(act, "first")
        await ctx.run("slow", may_end.wait)
        return await ctx.run(act, "last")

    over = runtime(flow)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await over.start(flow, id=RUN)
    left = await over.load_state(RUN)
    may_end.set()

    outcome = await runtime(flow, storage=over.storage).resume(RUN)

    assert left.status == "running"
    assert outcome.value == "last"
    assert ran == ["first", "last"]


async def test_an_interrupt_lets_what_is_in_flight_end_and_starts_nothing_new() -> None:
    may_end, begun = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        begun.set()
        await may_end.wait()
        return "slow"

    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        return [await ctx.run("slow", slow), await ctx.run(act, "next")]

    over = runtime(flow)
    starting = asyncio.create_task(over.start(flow, id=RUN))
    await begun.wait()
    over.interrupt()
    await asyncio.sleep(0)
    may_end.set()

    with pytest.raises(loom.LoomError) as stopped:
        await starting
    ran_then = list(ran)
    outcome = await over.resume(RUN)

    assert stopped.value.code == "interrupted"
    assert ran_then == []
    assert (await kinds(over))[:3] == ["STARTED", "STEP_STARTED", "STEP_COMPLETED"]
    assert outcome.value == ["slow", "next"]


@loom.flow
async def ends_by_itself(ctx: loom.Context, turns: int) -> None:
    async def asks(ctx: loom.Context) -> Any:
        return await ctx.suspend("gate")

    async def busy(ctx: loom.Context) -> Any:
        for _ in range(turns):
            await asyncio.sleep(0)
        raise ValueError

    with contextlib.suppress(ValueError):
        await ctx.parallel(asks, busy)


async def test_a_branch_that_ended_by_itself_has_swallowed_nothing() -> None:
    for turns in range(60, 75):
        await runtime(ends_by_itself).start(ends_by_itself, turns, id=RUN)


@loom.flow
async def waits(ctx: loom.Context) -> Any:
    return await ctx.suspend("gate")


async def test_a_parked_run_is_gone_from_memory_without_the_collector() -> None:
    def drives() -> int:
        return sum(type(each) is Drive for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = drives()
        await runtime(waits).start(waits, id=RUN)

        assert drives() == before
    finally:
        gc.enable()
