"""The verbs that have an execution end or rest."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import loom
from loom.core.errors import ExecutionTerminated, InvalidDeclaration
from loom.core.ids import ExecutionId
from loom.driving.errors import ExecutionNotFound, ExecutionNotPaused
from loom.kernel.errors import DriveStopped
from loom.spi.clock import VirtualClock
from loom.spi.conflicts import SequenceConflict
from loom.spi.memory import MemoryStorage
from tests.kernel.cancelled import act, begins, cancelled, hangs, nothing_ran, ran
from tests.kernel.running import RUN, kinds, payloads, runtime


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    nothing_ran()


# who asks


async def test_a_run_that_has_ended_cannot_be_cancelled() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        return "done"

    over = runtime(flow)
    await over.start(flow, id=RUN)

    for force in (False, True):
        with pytest.raises(ExecutionTerminated, match="completed"):
            await over.cancel(RUN, force=force)

    assert (await kinds(over))[-1] == "COMPLETED"


async def test_to_cancel_twice_is_accepted_and_recorded_once() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        async with ctx.shield():
            await ctx.suspend("guarded")

    over = runtime(flow)

    await cancelled(flow, over=over, reason="first")
    again = await over.cancel(RUN, reason="second")

    assert again.status == "suspended"
    assert [asked.reason for asked in await payloads(over, "EXECUTION_CANCEL_REQUESTED")] == ["first"]


@pytest.mark.parametrize("force", [False, True])
async def test_to_cancel_what_is_cancelled_says_that_it_is_and_changes_nothing(force: bool) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.suspend("approve")

    over = runtime(flow)
    await cancelled(flow, over=over, reason="first")
    before = await kinds(over)

    again = await over.cancel(RUN, reason="second", force=force)

    assert (again.status, again.reason) == ("cancelled", "first")
    assert await kinds(over) == before


@pytest.mark.parametrize("grace_s", [-1, float("nan")])
async def test_a_grace_that_is_no_time_is_refused(grace_s: float) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.suspend("approve")

    over = runtime(flow)

    with pytest.raises(InvalidDeclaration, match="grace_s"):
        await cancelled(flow, over=over, grace_s=grace_s)

    assert (await over.load_state(RUN)).facts.cancel is None


async def test_a_run_whose_code_is_gone_is_ended_by_force() -> None:
    @loom.flow(id="flow")
    async def before(ctx: loom.Context) -> None:
        await ctx.suspend("approve")

    @loom.flow(id="flow")
    async def after(ctx: loom.Context) -> None:
        await ctx.run(act, "another way")

    over = runtime(before)
    await over.start(before, id=RUN)

    outcome = await runtime(after, storage=over.storage).cancel(RUN, reason="gone", principal="ada", force=True)

    assert (outcome.status, outcome.reason) == ("cancelled", "gone")
    assert ran == []
    last = (await over.events(RUN))[-1]
    assert (last.type, last.payload, dict(last.metadata)) == (
        "EXECUTION_CANCELLED",
        ("force", "gone", None),
        {"principal": "ada"},
    )


# deadlines


@pytest.mark.proves("RNG-12")
async def test_a_run_that_takes_longer_than_its_deadline_is_cancelled() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        try:
            await ctx.run(hangs, "work")
        except loom.Cancelled as signal:
            ran.append(signal.cause)
            raise

    over = runtime(flow)

    async with asyncio.timeout(10):
        outcome = await over.start(flow, id=RUN, deadline=timedelta(milliseconds=50))

    assert outcome.status == "cancelled"
    assert ran == ["work", "work was cancelled", "deadline"]
    assert (await payloads(over, "EXECUTION_CANCELLED"))[0].cause == "deadline"


@pytest.mark.proves("RNG-12")
async def test_a_parked_run_wakes_for_its_deadline() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.suspend("approve")

    clock = VirtualClock()
    over = runtime(flow, clock=clock)

    parked = await over.start(flow, id=RUN, deadline=timedelta(hours=1), linger_s=0)

    started = (await over.load_state(RUN)).facts
    assert parked.wake_at == started.due_at == started.started_at + 3_600_000
    clock.advance(3_600_000)
    outcome = await runtime(flow, storage=over.storage, clock=clock).resume(RUN)
    assert outcome.status == "cancelled"
    assert (await payloads(over, "EXECUTION_CANCELLED"))[0].cause == "deadline"


@pytest.mark.parametrize("deadline", [timedelta(0), timedelta(seconds=-1), 60, datetime(2027, 1, 1, tzinfo=UTC)])
async def test_a_deadline_that_is_no_time_after_the_start_is_refused(deadline: Any) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.suspend("approve")

    with pytest.raises(InvalidDeclaration, match="deadline"):
        await runtime(flow).start(flow, deadline=deadline)


# pausing


@loom.flow
async def two_gates(ctx: loom.Context) -> list[str]:
    async def gate(ctx: loom.Context, name: str) -> str:
        return await ctx.run(act, await ctx.suspend(name, expects=str))

    return await ctx.map(gate, ["a", "b"])


@pytest.mark.proves("BEY-14")
async def test_a_paused_run_is_not_driven_and_what_it_is_asked_waits() -> None:
    over = runtime(two_gates)
    await over.start(two_gates, id=RUN)

    paused = await over.pause(RUN, reason="audit", principal="ada")
    answered = await runtime(two_gates, storage=over.storage).resume(RUN, gate="a", answer="yes")
    resumed = await over.resume(RUN)

    assert [paused.status, answered.status, resumed.status] == ["paused"] * 3
    assert ran == []
    assert (await kinds(over))[-2:] == ["SUSPENDED", "PAUSED"]
    again = runtime(two_gates, storage=over.storage)
    outcome = await again.unpause(RUN, principal="bob")
    assert (outcome.status, ran) == ("suspended", ["yes"])
    [event] = [event for event in await over.events(RUN) if event.type == "EXECUTION_UNPAUSED"]
    assert event.metadata["principal"] == "bob"
    assert (await over.resume(RUN, gate="b", answer="too")).value == ["yes", "too"]


@pytest.mark.proves("BEY-14")
async def test_a_run_that_is_driven_is_paused_when_its_step_has_ended() -> None:
    @loom.step
    async def slow() -> None:
        begins("slow").set()
        await asyncio.sleep(0.05)
        ran.append("slow")

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.run(slow)
        await ctx.run(act, "next")

    over = runtime(flow)
    driving = asyncio.create_task(over.start(flow, id=RUN))
    await begins("slow").wait()

    accepted = await over.pause(RUN)
    paused = await driving

    assert (accepted.status, paused.status, ran) == ("accepted", "paused", ["slow"])
    assert (await over.pause(RUN)).status == "paused"
    assert (await over.unpause(RUN)).status == "completed"
    assert ran == ["slow", "next"]
    assert (await kinds(over)).count("PAUSED") == 1


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["driven here", "driven elsewhere"])
async def test_to_unpause_a_run_that_is_about_to_be_paused_lets_it_go_on_once_it_is(
    monkeypatch: pytest.MonkeyPatch, is_elsewhere: bool
) -> None:
    monkeypatch.setattr("loom.driving.lane_watch.POLL_S", 0.01)
    may_end = asyncio.Event()

    @loom.step
    async def slow() -> str:
        ran.append("slow")
        begins("slow").set()
        await may_end.wait()
        return "done"

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        return await ctx.run(slow)

    here = runtime(flow)
    over = runtime(flow, storage=here.storage) if is_elsewhere else here
    async with asyncio.timeout(20):
        driving = asyncio.create_task(here.start(flow, id=RUN))
        await begins("slow").wait()
        accepted = await over.pause(RUN)
        unpausing = asyncio.create_task(over.unpause(RUN))
        while not here._driver.drives[ExecutionId(RUN)].is_interrupted:
            await asyncio.sleep(0)
        may_end.set()
        paused, outcome = await driving, await unpausing

    assert (accepted.status, paused.status, outcome.status) == ("accepted", "paused", "completed")
    assert (await kinds(here)).count("PAUSED") == (await kinds(here)).count("UNPAUSED") == 1


async def test_to_unpause_a_run_whose_driver_died_before_it_paused_drives_it_that_far_and_on() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        return str(await ctx.suspend("approve"))

    over = runtime(flow)
    await over.start(flow, id=RUN)
    row = await over.storage.row(ExecutionId(RUN))
    assert row is not None
    await over.storage.insert(
        row.execution_id, row.incarnation, kind="pause", key="", at=row.index.updated_at, body=b"{}"
    )

    outcome = await over.unpause(RUN)

    assert outcome.status == "suspended"
    assert (await kinds(over)).count("PAUSED") == (await kinds(over)).count("UNPAUSED") == 1


async def test_a_sleep_that_is_over_while_the_run_is_paused_is_taken_up_when_it_goes_on() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.sleep(timedelta(hours=1))

    clock = VirtualClock()
    over = runtime(flow, clock=clock)
    await over.start(flow, id=RUN)

    paused = await over.pause(RUN)
    clock.advance(7_200_000)

    assert paused.wake_at is None
    assert (await over.resume(RUN)).status == "paused"
    assert (await over.unpause(RUN)).status == "completed"


async def test_a_pause_that_was_asked_for_before_the_run_was_unpaused_comes_to_nothing() -> None:
    """Whoever asked for it may have died before it was told so, and another has paused the run instead."""
    storage = MemoryStorage()
    over = runtime(two_gates, storage=storage)
    await over.start(two_gates, id=RUN)
    await over.pause(RUN)
    row = await storage.row(ExecutionId(RUN))
    assert row is not None
    await storage.insert(row.execution_id, row.incarnation, kind="pause", key="", at=row.index.updated_at, body=b"{}")

    outcome = await over.unpause(RUN)

    assert outcome.status == "suspended"
    assert list(await storage.pending(row.execution_id, row.incarnation)) == []
    assert (await kinds(over)).count("PAUSED") == 1


async def test_a_paused_run_can_be_cancelled() -> None:
    over = runtime(two_gates)
    await over.start(two_gates, id=RUN)
    await over.pause(RUN)

    outcome = await over.cancel(RUN)

    assert outcome.status == "cancelled"
    assert (await kinds(over))[-4:] == ["UNPAUSED", "RESUMED", "CANCEL_REQUESTED", "CANCELLED"]


async def test_only_what_is_paused_can_be_unpaused_and_only_what_is_open_paused() -> None:
    over = runtime(two_gates)
    await over.start(two_gates, id=RUN)

    with pytest.raises(ExecutionNotPaused, match="suspended"):
        await over.unpause(RUN)
    await over.cancel(RUN)
    with pytest.raises(ExecutionTerminated, match="cancelled"):
        await over.pause(RUN)
    with pytest.raises(ExecutionTerminated, match="cancelled"):
        await over.unpause(RUN)


@pytest.mark.parametrize("verb", ["cancel", "pause", "unpause"])
async def test_what_does_not_exist_cannot_be_stopped(verb: str) -> None:
    with pytest.raises(ExecutionNotFound):
        await getattr(runtime(two_gates), verb)("nothing")


async def test_a_driver_that_loses_its_run_to_force_stops_and_records_nothing_more() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.run(hangs, "work")

    over = runtime(flow)
    driving = asyncio.create_task(over.start(flow, id=RUN))
    await begins("work").wait()

    outcome = await runtime(flow, storage=over.storage).cancel(RUN, force=True)
    over.interrupt()
    with pytest.raises((DriveStopped, SequenceConflict)):
        await driving

    assert outcome.status == "cancelled"
    assert (await kinds(over))[-1] == "CANCELLED"
