from __future__ import annotations

import asyncio
from typing import Any

import pytest

import loom
from tests.kernel.running import RUN, cut_off_after, kinds, payloads, records, runtime

ran: list[str] = []


class World:
    """What holds the slow step up."""

    may_end: asyncio.Event


world = World()


@pytest.fixture(autouse=True)
def _new_world() -> None:

    ran.clear()
    world.may_end = asyncio.Event()


@loom.step
async def work(name: str) -> str:
    ran.append(name)
    return name


@loom.step
async def fails(name: str) -> str:
    ran.append(name)
    world.may_end.set()
    raise ConnectionError(name)


@loom.step
async def slow(name: str) -> str:
    await world.may_end.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    ran.append(name)
    return name


async def test_results_come_in_the_order_given_and_names_make_a_dict() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        async def late(ctx: loom.Context) -> str:
            await ctx.sleep(0.01)
            return await ctx.run(work, "late")

        pair = await ctx.parallel(late, lambda c: c.run(work, "early"))
        named = await ctx.parallel({"b": late, "a": lambda c: c.run(work, "x")})
        return [*pair, list(named.items()), await ctx.map(work, []), list(await ctx.parallel())]

    over = runtime(flow)

    outcome = await over.start(flow, id=RUN)

    assert outcome.value == ["late", "early", [("b", "late"), ("a", "x")], [], []]


@pytest.mark.parametrize("limit", [1, 2, 5, None])
async def test_a_limit_bounds_how_many_branches_are_open_at_once(limit: int | None) -> None:
    now, most = 0, 0

    @loom.flow
    async def flow(ctx: loom.Context) -> list[int]:
        async def branch(ctx: loom.Context, item: int) -> int:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await ctx.run(work, str(item))
            now -= 1
            return item

        return await ctx.map(branch, range(5), limit=limit)

    over = runtime(flow)

    outcome = await over.start(flow, id=RUN)

    assert outcome.value == [0, 1, 2, 3, 4]
    assert most == (limit or 5)


@pytest.mark.parametrize("wrong", [0, -1])
async def test_a_limit_below_one_is_refused_before_anything_is_recorded(wrong: int) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        return await ctx.map(work, ["a"], limit=wrong)

    over = runtime(flow)

    outcome = await over.start(flow, id=RUN)

    assert outcome.status == "failed"
    assert await kinds(over) == ["STARTED", "FAILED"]


@loom.flow
async def one_fails(ctx: loom.Context) -> str:
    async def good(ctx: loom.Context) -> str:
        first = await ctx.run(slow, "in flight")
        await ctx.run(work, "never")
        return first

    async def asks(ctx: loom.Context) -> Any:
        return await ctx.suspend("never")

    async def bad(ctx: loom.Context) -> str:
        return await ctx.run(fails, "bad")

    try:
        await ctx.parallel(good, asks, bad)
    except loom.StepFailed as error:
        return await ctx.suspend("after", expects=str, show=error.message)
    return "not reached"


async def test_what_is_in_flight_beside_a_failure_ends_and_is_recorded_before_the_cut() -> None:
    over = runtime(one_fails)

    outcome = await over.start(one_fails, id=RUN)

    assert [gate.show for gate in outcome.gates] == ["bad"]
    assert [gate.gate for gate in outcome.gates] == ["after"]
    assert ran == ["bad", "in flight"]
    tail = (await kinds(over))[-5:]
    assert tail == ["STEP_FAILED", "STEP_COMPLETED", "SCOPE_CUT", "GATE_OPENED", "SUSPENDED"]


async def test_a_replay_cuts_at_the_same_place_and_pays_nothing_twice() -> None:
    over = runtime(one_fails)
    await over.start(one_fails, id=RUN)

    outcome = await runtime(one_fails, storage=over.storage).resume(RUN, answer="ok")

    assert outcome.value == "ok"
    assert ran == ["bad", "in flight"]
    assert (await kinds(over)).count("SCOPE_CUT") == 1


async def test_cut_off_anywhere_around_a_cut_the_run_ends_the_same_way() -> None:
    over = runtime(one_fails)
    await over.start(one_fails, id=RUN)
    await over.resume(RUN, answer="ok")
    whole = len(await records(over.storage))

    for length in range(1, whole):
        ran.clear()
        world.may_end.set()
        left = runtime(one_fails, storage=await cut_off_after(over.storage, length))

        outcome = await left.resume(RUN)
        if outcome.status == "suspended":
            outcome = await left.resume(RUN, answer="ok", gate="after")

        assert outcome.value == "ok", f"after {length} events"
        assert "never" not in ran
        assert len(ran) == len(set(ran)) <= 2


async def test_a_gate_in_a_branch_that_was_cut_is_not_open_any_more() -> None:
    over = runtime(one_fails)
    await over.start(one_fails, id=RUN)

    with pytest.raises(loom.LoomError) as refused:
        await over.resume(RUN, answer=1, gate="parallel/1/never")

    assert refused.value.code == "gate-not-open"


async def test_the_first_failure_is_the_one_that_is_raised_and_others_are_cut() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        async def own_error(ctx: loom.Context) -> str:
            raise KeyError("mine")

        async def other(ctx: loom.Context) -> str:
            return await ctx.run(fails, "theirs")

        try:
            await ctx.parallel(other, own_error)
        except KeyError as error:
            return f"own {error}"
        except loom.StepFailed as error:
            return f"step {error.message}"
        return "not reached"

    over = runtime(flow)

    outcome = await over.start(flow, id=RUN)

    assert outcome.value == "own 'mine'"


async def test_after_a_cut_was_caught_the_flow_may_wait_for_plain_things() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> int:
        async def asks(ctx: loom.Context) -> Any:
            return await ctx.suspend("never")

        async def bad(ctx: loom.Context) -> Any:
            raise ValueError

        try:
            await ctx.parallel(asks, bad)
        except ValueError:
            await asyncio.sleep(0.01)
        return 1

    outcome = await runtime(flow).start(flow, id=RUN)

    assert outcome.value == 1


@pytest.mark.parametrize("inner_fails", [True, False])
async def test_a_failure_in_a_nested_scope_cuts_as_far_as_nobody_catches_it(inner_fails: bool) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        async def inner(ctx: loom.Context, item: str) -> Any:
            if item == "bad":
                return await ctx.run(fails, item) if inner_fails else await ctx.run(work, item)
            return await ctx.suspend(item, expects=str)

        async def outer(ctx: loom.Context) -> list[Any]:
            try:
                return await ctx.map(inner, ["g1", "bad"])
            except loom.StepFailed:
                return ["caught"]

        async def sibling(ctx: loom.Context) -> str:
            return await ctx.suspend("g2", expects=str)

        return list(await ctx.parallel(outer, sibling))

    over = runtime(flow)
    parked = await over.start(flow, id=RUN)
    open_now = sorted(gate.label for gate in parked.gates)

    outcome = parked
    for gate in parked.gates:
        outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=gate.label, gate=gate.gate)

    assert open_now == (["g2"] if inner_fails else ["g1", "g2"])
    assert outcome.value == ([["caught"], "g2"] if inner_fails else [["g1", "bad"], "g2"])


async def test_a_recorded_cut_whose_branch_no_longer_fails_is_a_divergence_and_no_result() -> None:
    def version(is_broken: bool) -> loom.Flow[[], list[Any]]:
        @loom.flow(id="mended")
        async def flow(ctx: loom.Context) -> list[Any]:
            async def asks(ctx: loom.Context) -> Any:
                return await ctx.suspend("never")

            async def bad(ctx: loom.Context) -> int:
                if is_broken:
                    raise ValueError
                return 1

            try:
                return list(await ctx.parallel(asks, bad))
            except ValueError:
                return [await ctx.suspend("after", expects=int)]

        return flow

    broken = version(True)
    over = runtime(broken)
    await over.start(broken, id=RUN)
    mended = runtime(version(False), storage=over.storage)

    with pytest.raises(loom.LoomError) as refused:
        await mended.resume(RUN, answer=1)

    assert refused.value.code == "replay-divergence"
    assert (await mended.load_state(RUN)).status == "diverged"


async def test_context_variables_are_those_of_where_the_branches_were_opened() -> None:
    from contextvars import ContextVar

    who = ContextVar("who", default="nobody")

    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        async def branch(ctx: loom.Context, item: str) -> str:
            seen = who.get()
            who.set(item)
            return f"{seen}, {await ctx.run('inside', who.get)}"

        who.set("opener")
        return [*await ctx.map(branch, ["a", "b"]), who.get()]

    outcome = await runtime(flow).start(flow, id=RUN)

    assert outcome.value == ["opener, a", "opener, b", "opener"]


@pytest.mark.proves("SYS-05")
async def test_the_shape_of_the_log_does_not_depend_on_which_branch_is_quick(seed: int) -> None:
    import random

    dice = random.Random(seed)

    async def takes_its_time(item: int) -> int:
        for _ in range(dice.randrange(5)):
            await asyncio.sleep(0)
        return item

    @loom.flow
    async def flow(ctx: loom.Context) -> list[int]:
        async def branch(ctx: loom.Context, item: int) -> int:
            return await ctx.run("a", takes_its_time, item) + await ctx.run("b", takes_its_time, item)

        return await ctx.map(branch, range(4))

    shapes = set()
    for i in range(50):
        over = runtime(flow)
        outcome = await over.start(flow, id=f"run-{i}")
        assert outcome.value == [0, 2, 4, 6]
        shapes.add(tuple(sorted(start.id for start in await payloads(over, "STEP_STARTED", f"run-{i}"))))
    assert len(shapes) == 1


@loom.step(idempotent=False)
async def slow_once(name: str) -> str:
    await world.may_end.wait()
    ran.append(name)
    return name


@pytest.mark.proves("EFF-16")
@pytest.mark.parametrize("how", ["fails", "first"])
@pytest.mark.parametrize("verdict", ["done", "failed", "retry"])
async def test_an_effect_that_was_lost_in_a_branch_that_is_then_cut_is_still_asked_about(
    how: str, verdict: Any
) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        async def pays(ctx: loom.Context) -> str:
            return await ctx.run(slow_once, "paid")

        async def other(ctx: loom.Context) -> str:
            await ctx.emit("asked")
            if how == "fails":
                raise ValueError
            return "told"

        try:
            return str(await ctx.any(other, pays) if how == "first" else await ctx.parallel(other, pays))
        except ValueError:
            return "failed"

    over = runtime(flow)
    driving = asyncio.ensure_future(over.start(flow, id=RUN))
    while "user.asked" not in await kinds(over):
        await asyncio.sleep(0)
    left = await cut_off_after(over.storage, 4)
    world.may_end.set()
    await driving

    parked = await runtime(flow, storage=left).resume(RUN)
    outcome = await runtime(flow, storage=left).resolve(RUN, parked.gates[0].gate, verdict, value="paid")

    assert parked.status == "in_doubt"
    assert outcome.value == ("told" if how == "first" else "failed")
    assert ran == ["paid", *(["paid"] if verdict == "retry" else [])]
    written = await kinds(runtime(flow, storage=left))
    assert written.count("EFFECT_INDOUBT") == written.count("EFFECT_RESOLVED") == 1
