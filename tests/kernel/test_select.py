"""`select`, `first` and `any`: who won is recorded, and the others are cut (rows SYS-06, SYS-10; field fault 6)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loom
from loom.spi.clock import VirtualClock
from tests.kernel.running import RUN, cut_off_after, kinds, payloads, records, runtime

pytestmark = pytest.mark.usefixtures("asyncio_is_quiet")
ran: list[str] = []


class World:
    """What holds the slow steps up, and who of them was cancelled."""

    may_end: asyncio.Event
    cancelled: list[str]


world = World()


@pytest.fixture(autouse=True)
def _new_world() -> None:
    ran.clear()
    world.may_end, world.cancelled = asyncio.Event(), []


async def _slowly(name: str) -> str:
    try:
        await world.may_end.wait()
    except asyncio.CancelledError:
        world.cancelled.append(name)
        raise
    ran.append(name)
    return name


@loom.step
async def work(name: str) -> str:
    ran.append(name)
    return name


@loom.step
async def slow(name: str) -> str:
    return await _slowly(name)


@loom.step(idempotent=False)
async def slow_once(name: str) -> str:
    return await _slowly(name)


@loom.step
async def fails(name: str) -> str:
    ran.append(name)
    raise ConnectionError(name)


def runs(step: loom.Step[[str], str], name: str) -> Callable[[loom.Context], Awaitable[str]]:
    return lambda ctx: ctx.run(step, name)


@loom.flow
async def approval(ctx: loom.Context) -> tuple[str, Any]:
    won = await ctx.select(
        "approval",
        answered=loom.gate("approve", expects=bool, show={"amount": 5}),
        told=loom.topic("news", expects=str),
        late=loom.timer(timedelta(days=2)),
    )
    return won.name, won.value


async def _is_answered(over: Any, clock: VirtualClock) -> loom.Outcome[Any]:
    outcome: loom.Outcome[Any] = await over.resume(RUN, answer=True)
    return outcome


async def _is_told(over: Any, clock: VirtualClock) -> loom.Outcome[Any]:
    outcome: loom.Outcome[Any] = await over.send(RUN, "news", "spring")
    return outcome


async def _is_late(over: Any, clock: VirtualClock) -> loom.Outcome[Any]:
    clock.advance(2 * 24 * 3600 * 1000)
    outcome: loom.Outcome[Any] = await over.resume(RUN)
    return outcome


@pytest.mark.proves("SYS-10")
@pytest.mark.parametrize(
    ("happens", "won"),
    [(_is_answered, ("answered", True)), (_is_told, ("told", "spring")), (_is_late, ("late", None))],
)
async def test_a_race_of_gate_topic_and_timer_is_won_once_and_replays_to_the_recorded_winner(
    happens: Callable[[Any, VirtualClock], Awaitable[loom.Outcome[Any]]], won: tuple[str, Any]
) -> None:
    clock = VirtualClock()
    over = runtime(approval, clock=clock)
    parked = await over.start(approval, id=RUN, linger_s=0)

    outcome = await happens(runtime(approval, storage=over.storage, clock=clock), clock)

    assert parked.wake_at is not None
    assert outcome.value == won
    assert [closed.counted for closed in await payloads(over, "SCOPE_CLOSED")] == [[won[0]]]
    whole = await records(over.storage)
    left = runtime(approval, storage=await cut_off_after(over.storage, len(whole) - 1), clock=clock)
    assert (await left.resume(RUN)).value == won


async def test_a_gate_that_lost_is_open_no_more_and_a_message_that_nobody_took_stays() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        won = await ctx.select(gate=loom.gate("ask"), news=loom.topic("news"), step=runs(work, "won"))
        return [won.name, await ctx.suspend("then"), await ctx.receive("news")]

    over = runtime(flow)
    parked = await over.start(flow, id=RUN)

    assert [gate.gate for gate in parked.gates] == ["then"]
    with pytest.raises(loom.LoomError) as refused:
        await over.resume(RUN, gate="select/gate/ask", answer=1)
    assert refused.value.code == "gate-not-open"
    await over.send(RUN, "news", "kept")
    assert (await over.resume(RUN, answer=1)).value == ["step", 1, "kept"]


@pytest.mark.proves("SYS-06")
async def test_an_idempotent_step_that_lost_is_cancelled_without_a_record_and_a_once_only_one_is_waited_for() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        won = await ctx.select(
            quick=lambda ctx: ctx.sleep(0.001), slow=runs(slow, "idempotent"), once=runs(slow_once, "once")
        )
        return won.name

    over = runtime(flow)
    driving = asyncio.ensure_future(over.start(flow, id=RUN))
    while not world.cancelled:
        await asyncio.sleep(0.001)

    assert world.cancelled == ["idempotent"]
    assert "SCOPE_CLOSED" not in await kinds(over)
    world.may_end.set()
    assert (await driving).value == "quick"
    assert ran == ["once"]
    assert (await kinds(over))[-4:] == ["TIMER_FIRED", "STEP_COMPLETED", "SCOPE_CLOSED", "COMPLETED"]


async def test_the_failure_of_the_arm_that_ends_first_is_raised() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            won = await ctx.select(bad=runs(fails, "bad"), gate=loom.gate("ask"))
        except loom.StepFailed as error:
            return error.message
        return won.name

    over = runtime(flow)

    assert (await over.start(flow, id=RUN)).value == "bad"
    assert [cut.branch for cut in await payloads(over, "SCOPE_CUT")] == ["bad"]


async def test_a_gate_arm_that_nobody_answers_in_time_fails_and_is_no_winner() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            won = await ctx.select(gate=loom.gate("ask", timeout=timedelta(milliseconds=1)), other=loom.gate("other"))
        except loom.GateTimedOut as error:
            return error.gate
        return won.name

    assert (await runtime(flow).start(flow, id=RUN)).value == "select/gate/ask"


async def test_an_arm_that_waits_for_a_time_of_day_is_over_at_once_when_that_has_passed() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> tuple[str, Any]:
        past = datetime(2020, 1, 1, tzinfo=UTC)
        return await ctx.select("race", gate=loom.gate("ask"), past=loom.timer(past, name="new year"))

    over = runtime(flow)

    assert (await over.start(flow, id=RUN)).value == ("past", None)
    assert [timer.id for timer in await payloads(over, "TIMER_SET")] == ["race/past/new year"]


# first and any


@loom.flow
async def first_two(ctx: loom.Context) -> dict[str, str]:
    return await ctx.first(
        2, {"bad": runs(fails, "bad"), "a": runs(work, "a"), "gate": loom.gate("ask"), "b": runs(work, "b")}
    )


async def test_the_first_ones_are_those_that_succeeded_first_in_that_order() -> None:
    over = runtime(first_two)

    outcome = await over.start(first_two, id=RUN)

    assert list((outcome.value or {}).items()) == [("a", "a"), ("b", "b")]
    assert [closed.counted for closed in await payloads(over, "SCOPE_CLOSED")] == [["a", "b"]]


@pytest.mark.parametrize("named", [True, False])
async def test_any_returns_the_first_success_and_with_names_whose_it_is(named: bool) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        if named:
            return tuple(await ctx.any({"bad": runs(fails, "bad"), "good": runs(work, "good")}))
        return await ctx.any(runs(fails, "bad"), runs(work, "good"))

    assert (await runtime(flow).start(flow, id=RUN)).value == (("good", "good") if named else "good")


@loom.flow
async def too_few(ctx: loom.Context) -> list[Any]:
    async def own(ctx: loom.Context) -> str:
        await ctx.run(work, "own")
        raise ValueError("of its own")

    try:
        return await ctx.first(2, runs(fails, "one"), own, runs(slow, "never"))
    except (loom.StepFailed, ValueError) as error:
        return [str(error), *error.__notes__]


async def test_when_too_few_can_still_succeed_the_first_failure_is_raised_with_the_others_attached() -> None:
    world.may_end.set()
    over = runtime(too_few)

    outcome = await over.start(too_few, id=RUN)

    first, note = outcome.value or [""]
    assert "one" in first
    assert note == "first/1 failed as well: ValueError: of its own"


async def test_when_all_have_failed_no_record_is_needed_and_the_first_failure_is_raised() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        try:
            return [await ctx.any(runs(fails, "a"), runs(fails, "b"), runs(fails, "c"))]
        except loom.StepFailed as error:
            return [error.message, *(note.partition(":")[0] for note in error.__notes__)]

    over = runtime(flow)

    assert (await over.start(flow, id=RUN)).value == ["a", "any/1 failed as well", "any/2 failed as well"]
    assert "SCOPE_CUT" not in await kinds(over)


async def test_a_retried_run_gives_the_failed_ones_another_chance_and_keeps_the_records_of_the_others() -> None:
    broken = True

    @loom.step
    async def breaks() -> str:
        ran.append("breaks")
        if broken:
            raise ConnectionError
        return "mended"

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        return await ctx.any(lambda ctx: ctx.run(breaks), runs(fails, "bad"))

    over = runtime(flow)
    assert (await over.start(flow, id=RUN)).status == "failed"
    broken = False

    outcome = await over.retry(RUN)

    assert outcome.value == "mended"
    assert ran == ["breaks", "bad", "breaks"]


# What makes no sense


@pytest.mark.parametrize(
    "asks",
    [
        lambda ctx: ctx.select(),
        lambda ctx: ctx.any(),
        lambda ctx: ctx.any({}),
        lambda ctx: ctx.first(0, runs(work, "a")),
        lambda ctx: ctx.first(2, runs(work, "a")),
        lambda ctx: ctx.select(a=work.named("x")),
        lambda ctx: ctx.select(a=5),
    ],
)
async def test_a_race_that_nobody_can_win_is_refused_before_anything_is_recorded(asks: Any) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await asks(ctx)

    over = runtime(flow)

    assert (await over.start(flow, id=RUN)).status == "failed"
    assert (await kinds(over))[-1] == "FAILED"
    assert "STEP_STARTED" not in await kinds(over)


async def test_another_winner_than_the_recorded_one_is_a_divergence_that_shows_both() -> None:
    def version(is_changed: bool) -> loom.Flow[[], list[Any]]:
        @loom.flow(id="changed")
        async def flow(ctx: loom.Context) -> list[Any]:
            async def one(ctx: loom.Context) -> str:
                await ctx.run(work, "one")
                return await ctx.run(work, "more") if is_changed else "one"

            async def other(ctx: loom.Context) -> str:
                await ctx.run(work, "other")
                return "other"

            return [tuple(await ctx.select(one=one, other=other)), await ctx.suspend("after")]

        return flow

    before = version(False)
    over = runtime(before)
    await over.start(before, id=RUN)
    changed = runtime(version(True), storage=over.storage)

    with pytest.raises(loom.LoomError) as refused:
        await changed.resume(RUN, answer=1)

    assert refused.value.code == "replay-divergence"
    assert 'the end of select with ["one"]' in str(refused.value)


# Field fault 6: race three steps, take the first, suspend, resume


@pytest.mark.proves("SYS-06")
@given(seed=st.integers(0, 100_000), length=st.integers(0, 30), write_behind=st.booleans())
async def test_a_race_of_steps_is_won_by_the_recorded_one_however_long_they_take_the_next_time(
    seed: int, length: int, write_behind: bool
) -> None:
    dice = random.Random(seed)

    async def takes_its_time(name: str) -> str:
        for _ in range(dice.randrange(12)):
            await asyncio.sleep(0)
        return name

    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        def arm(name: str) -> Callable[[loom.Context], Awaitable[str]]:
            async def run(ctx: loom.Context) -> str:
                first = await ctx.run("first", takes_its_time, name)
                return first + await ctx.run("second", takes_its_time, name)

            return run

        won = await ctx.select(a=arm("a"), b=arm("b"), c=arm("c"))
        order = await ctx.first(3, {"a": arm("a"), "b": arm("b"), "c": arm("c")}, name="order")
        return [won.name, won.value, list(order), await ctx.suspend("go on")]

    over = runtime(flow, write_behind=write_behind)
    await over.start(flow, id=RUN)
    recorded = [closed.counted for closed in await payloads(over, "SCOPE_CLOSED")]

    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer="on")

    [winner], order = recorded
    assert outcome.value == [winner, winner * 2, order, "on"]
    whole = await records(over.storage)
    storage = await cut_off_after(over.storage, 1 + length % (len(whole) - 1))
    left = runtime(flow, storage=storage)
    again = await left.resume(RUN)
    again = await left.resume(RUN, answer="on") if again.status == "suspended" else again
    kept = [closed.counted for closed in await payloads(left, "SCOPE_CLOSED")]
    assert again.value == [kept[0][0], kept[0][0] * 2, kept[1], "on"]
