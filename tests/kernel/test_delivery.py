"""Kernel rule 5: outcomes reach the body in the order of the log, in the first run as in every replay."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

import loom
from tests.kernel.running import RUN, cut_off_after, records, runtime


class World:
    """How long each effect takes this time, what ran, and what the body saw."""

    def __init__(self) -> None:
        self.turns: dict[str, int] = {}
        self.ran: list[str] = []
        self.saw: list[Any] = []


world = World()


@pytest.fixture(autouse=True)
def _new_world() -> None:
    world.__init__()  # type: ignore[misc]  # the steps below hold the object


@loom.step
async def work(name: str) -> str:
    for _ in range(world.turns.get(name, 0)):
        await asyncio.sleep(0)
    world.ran.append(name)
    return name


@loom.step
async def mark(name: str) -> str:
    world.ran.append(f"mark {name}")
    return f"marked {name}"


@loom.flow
async def two_chains(ctx: loom.Context) -> list[str]:
    async def chain(ctx: loom.Context, name: str) -> str:
        first = await ctx.run(work, name)
        return await ctx.run(mark, first)

    pair = await ctx.map(chain, ["slow", "fast"])
    return [*pair, await ctx.suspend("end", expects=str)]


async def test_two_chains_keep_their_own_results_whoever_is_quick() -> None:  # field fault 1
    world.turns = {"slow": 30}
    over = runtime(two_chains)
    await over.start(two_chains, id=RUN)

    world.turns = {"fast": 30}
    outcome = await runtime(two_chains, storage=over.storage).resume(RUN, answer="x")

    assert outcome.value == ["marked slow", "marked fast", "x"]
    assert sorted(world.ran) == ["fast", "mark fast", "mark slow", "slow"]


def _racing(how: Callable[[list[Any]], Any]) -> loom.Flow[[], list[Any]]:
    @loom.flow(id="racing")
    async def flow(ctx: loom.Context) -> list[Any]:
        world.saw.clear()
        for value in await how([ctx.run(work, name) for name in ("a", "b", "c")]):
            world.saw.append((value, ctx.now(), ctx.random()))
        return [*(value for value, *_ in world.saw), await ctx.suspend("end")]

    return flow


async def _gather(calls: list[Any]) -> list[str]:
    return list(await asyncio.gather(*calls))


async def _tasks(calls: list[Any]) -> list[str]:
    tasks = [asyncio.create_task(call) for call in calls]
    return [await task for task in reversed(tasks)]


async def _as_completed(calls: list[Any]) -> list[str]:
    return [await each for each in asyncio.as_completed(calls)]


async def _first_completed(calls: list[Any]) -> list[str]:
    pending = {asyncio.ensure_future(call) for call in calls}
    order: list[str] = []
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        order += sorted(task.result() for task in done)
    return order


async def _the_first_only(calls: list[Any]) -> list[str]:
    done, _ = await asyncio.wait([asyncio.ensure_future(call) for call in calls], return_when=asyncio.FIRST_COMPLETED)
    return [task.result() for task in done]


@pytest.mark.parametrize("how", [_gather, _tasks, _as_completed, _first_completed, _the_first_only])
async def test_tasks_of_the_standard_library_see_the_same_order_again(how: Any, seed: int) -> None:  # fault 2
    dice = random.Random(seed)
    for i in range(20):
        world.turns = {name: dice.randrange(0, 90, 15) for name in "abc"}
        flow = _racing(how)
        over = runtime(flow)
        parked = await over.start(flow, id=f"run-{i}")
        saw, world.turns = list(world.saw), {name: dice.randrange(0, 90, 15) for name in "abc"}

        outcome = await runtime(flow, storage=over.storage).resume(f"run-{i}", answer="end")

        assert parked.status == "suspended"
        assert world.saw == saw
        assert outcome.value == [*(value for value, *_ in saw), "end"]


async def test_cut_off_after_each_event_the_same_values_come_to_the_same_places(seed: int) -> None:
    dice = random.Random(seed)
    world.turns = {name: dice.randrange(0, 60, 7) for name in "abc"}
    flow = _racing(_as_completed)
    over = runtime(flow)
    await over.start(flow, id=RUN)
    whole = await records(over.storage)

    for length in range(1, len(whole)):
        left = runtime(flow, storage=await cut_off_after(over.storage, length))
        outcome = await left.resume(RUN, linger_s=0)
        if outcome.status == "suspended":
            outcome = await left.resume(RUN, answer="end")
        assert sorted(outcome.result()[:3]) == ["a", "b", "c"]


async def test_branches_may_wait_for_each_other_with_locks_and_queues() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        lock, queue, order = asyncio.Lock(), asyncio.Queue[str](), list[str]()

        async def careful(ctx: loom.Context, name: str) -> str:
            async with lock:
                order.append(await ctx.run(work, name))
                await queue.put(await ctx.run(mark, name))
            return name

        async def reader(ctx: loom.Context) -> list[str]:
            return [await queue.get() for _ in range(3)]

        async def writers(ctx: loom.Context) -> list[str]:
            return await ctx.map(careful, ["a", "b", "c"])

        got = await ctx.parallel(reader, writers)
        return [*got, list(order), await ctx.suspend("end")]

    world.turns = {"a": 20}
    over = runtime(flow)
    await over.start(flow, id=RUN)
    world.turns = {"c": 20}

    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=1)

    assert outcome.value == [["marked a", "marked b", "marked c"], ["a", "b", "c"], ["a", "b", "c"], 1]
    assert len(world.ran) == 6


async def test_messages_and_results_interleave_on_replay_as_they_did() -> None:  # field fault 8
    may = asyncio.Event()

    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        seen: list[Any] = []

        async def asks(ctx: loom.Context, name: str) -> None:
            seen.append(await ctx.suspend(name, expects=str))

        async def works(ctx: loom.Context) -> None:
            await ctx.run("held", may.wait)
            seen.append("step")

        await ctx.parallel(lambda c: asks(c, "one"), works, lambda c: asks(c, "two"))
        return [list(seen), await ctx.suspend("end")]

    over = runtime(flow)
    starting = asyncio.create_task(over.start(flow, id=RUN))
    await over.wait_for_suspend(RUN)
    await over.resume(RUN, answer="first", gate="two")
    await asyncio.sleep(0.02)
    may.set()
    await starting
    parked = await over.resume(RUN, answer="last", gate="one")
    assert [gate.label for gate in parked.gates] == ["end"]

    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=1)

    assert outcome.value == [["first", "step", "last"], 1]


async def test_the_value_of_the_first_run_is_a_copy_as_it_is_in_a_replay() -> None:  # field fault 27
    given: dict[str, list[int]] = {"numbers": [1]}

    @loom.step
    async def hands_out() -> dict[str, list[int]]:
        return given

    @loom.step
    async def takes(numbers: list[int]) -> int:
        numbers.append(99)
        return len(numbers)

    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        got = await ctx.run(hands_out)
        got["numbers"].append(2)
        count = await ctx.run(takes, got["numbers"])
        return [got["numbers"], count, await ctx.suspend("end")]

    over = runtime(flow)
    await over.start(flow, id=RUN)
    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=0)

    assert outcome.value == [[1, 2], 3, 0]
    assert given == {"numbers": [1]}


async def test_derived_values_are_the_same_again_and_an_added_draw_moves_no_other() -> None:  # field fault 7
    def version(draws: int) -> loom.Flow[[], list[Any]]:
        @loom.flow(id="draws")
        async def flow(ctx: loom.Context) -> list[Any]:
            for _ in range(draws):
                ctx.random()
            await ctx.run(mark, "a")
            child = ctx.uuid()
            named = ctx.uuid("child")
            assert named == ctx.uuid("child")
            await ctx.suspend("end")
            return [str(child), str(named), ctx.random("x")]

        return flow

    over = runtime(version(0))
    await over.start("draws", id=RUN)
    whole = len(await records(over.storage))
    copies = [await cut_off_after(over.storage, whole) for _ in range(2)]

    before = await runtime(version(0), storage=copies[0]).resume(RUN, answer=1)
    after = await runtime(version(3), storage=copies[1]).resume(RUN, answer=1)

    assert before.value == after.value


@pytest.mark.parametrize("turns", [1, 30, 62, 63, 64, 65, 66, 67, 70, 128, 129, 130])
@pytest.mark.parametrize("then", ["a step", "an error"])
async def test_a_branch_busy_with_plain_waiting_may_move_at_any_turn_of_a_park(turns: int, then: str) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        async def asks(ctx: loom.Context) -> Any:
            return await ctx.suspend("gate", expects=int)

        async def busy(ctx: loom.Context) -> Any:
            for _ in range(turns):
                await asyncio.sleep(0)
            if then == "a step":
                return await ctx.run(mark, "busy")
            raise ValueError(then)

        try:
            return list(await ctx.parallel(asks, busy))
        except ValueError:
            return [await ctx.suspend("gate", expects=int), "caught"]

    over = runtime(flow)

    outcome = await over.start(flow, id=RUN)
    for _ in range(3):
        if outcome.status == "suspended":
            outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=1, gate=outcome.gates[0].gate)

    assert outcome.value in ([1, "marked busy"], [1, "caught"])
    assert len(world.ran) <= 1


async def test_a_scope_whose_branch_waits_for_a_lock_is_taken_up_after_a_cut_wherever_it_was_cut_off() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        lock = asyncio.Lock()

        async def locked(ctx: loom.Context, name: str) -> str:
            async with lock:
                return await ctx.run(work, name)

        async def opener(ctx: loom.Context) -> list[str]:
            await ctx.run(work, "first")
            return await ctx.map(locked, ["inner"])

        return list(await ctx.parallel(opener, lambda c: locked(c, "outer")))

    world.turns = {"outer": 300}
    over = runtime(flow)
    await over.start(flow, id=RUN)
    world.turns.clear()

    for length in range(1, len(await records(over.storage))):
        left = runtime(flow, storage=await cut_off_after(over.storage, length))
        async with asyncio.timeout(5):
            outcome = await left.resume(RUN)
        assert outcome.value == [["inner"], "outer"]
