"""Kernel rule 9: before a record is used, what is asked is compared with what was recorded."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import loom
from loom.kernel.errors import ReplayDivergence
from tests.kernel.running import RUN, kinds, payloads, records, runtime

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@loom.step
async def work(name: str, extra: int = 0) -> str:
    ran.append(name)
    return name


@loom.step
async def other(name: str) -> str:
    ran.append(name)
    return name


@loom.step(id="once", idempotent=False)
async def once(name: str) -> str:
    ran.append(name)
    return name


Ask = Callable[[loom.Context], Awaitable[Any]]


def version(ask: Ask, note: str = "") -> loom.Flow[[], Any]:
    """Return a flow with one id whose code is *ask*, and a gate at its end."""

    @loom.flow(id="versioned")
    async def flow(ctx: loom.Context) -> Any:
        value = await ask(ctx)
        return [value, await ctx.suspend("end"), note]

    return flow


async def diverges(before: Ask, after: Ask) -> tuple[ReplayDivergence, Any]:
    over = runtime(version(before))
    await over.start("versioned", id=RUN)
    ran.clear()
    changed = runtime(version(after), storage=over.storage)
    with pytest.raises(ReplayDivergence) as refused:
        await changed.resume(RUN, answer=1)
    return refused.value, changed


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda c: c.sleep(0), lambda c: c.run(work, "a")),
        (lambda c: c.run(work, "a"), lambda c: c.sleep(0)),
        (lambda c: c.run(work, "a"), lambda c: c.run(other, "a")),
        (lambda c: c.run(work, "a"), lambda c: c.decide("work", lambda: 1)),
        (lambda c: c.run(work, "a"), lambda c: c.emit("work")),
        (lambda c: c.map(work, ["a", "b"]), lambda c: c.map(work, ["a"])),
        (lambda c: c.run(once, "a"), lambda c: c.run(once, "b")),
    ],
    ids=["timer-step", "step-timer", "step-step", "step-decision", "step-event", "fewer", "once"],
)
async def test_kind_and_identity_always_decide_and_nothing_runs(before: Ask, after: Ask) -> None:  # field fault 3
    divergence, changed = await diverges(before, after)

    assert ran == []
    assert divergence.recorded is not None
    assert divergence.as_json()["recorded"]["sequence"] > 0
    assert (await changed.load_state(RUN)).status == "diverged"
    assert (await changed.storage.pending(RUN, 1)) == [], "the answer was not taken"


async def test_both_sides_and_the_line_are_told_and_the_log_keeps_them() -> None:
    divergence, changed = await diverges(lambda c: c.run(work, "a"), lambda c: c.run(other, "b"))

    assert divergence.recorded is not None
    assert divergence.asked is not None
    assert (divergence.recorded["id"], divergence.asked["id"]) == ("work", "other")
    assert divergence.recorded["args"] == {"name": "a"}
    assert divergence.asked["args"] == {"name": "b"}
    assert __file__ in divergence.asked["where"]
    [fact] = await payloads(changed, "EXECUTION_DIVERGED")
    assert fact.difference == divergence.as_json()


async def test_a_diverged_run_is_not_written_to_again_and_goes_on_once_the_code_is_back() -> None:  # field fault 2
    def before(c: loom.Context) -> Any:
        return c.run(work, "a")

    _, changed = await diverges(before, lambda c: c.run(other, "a"))
    log = await records(changed.storage)
    for _ in range(3):
        with pytest.raises(ReplayDivergence):
            await changed.resume(RUN, answer=1)
    assert await records(changed.storage) == log

    outcome = await runtime(version(before), storage=changed.storage).resume(RUN, answer=1)

    assert outcome.value == ["a", 1, ""]
    assert ran == []


@pytest.mark.parametrize("how", ["one less", "one more before", "a branch less"])
async def test_a_record_that_nobody_asks_for_is_a_divergence(how: str) -> None:
    async def two(c: loom.Context) -> Any:
        return [await c.run(work, "a"), await c.run(work, "b")]

    async def one(c: loom.Context) -> Any:
        return [await c.run(work, "a")]

    async def more(c: loom.Context) -> Any:
        return [await c.run(other, "new"), *await two(c)]

    async def scoped(c: loom.Context) -> Any:
        return await c.parallel(two)

    async def scoped_less(c: loom.Context) -> Any:
        return await c.parallel(one)

    before, after = {"one less": (two, one), "one more before": (two, more), "a branch less": (scoped, scoped_less)}[
        how
    ]

    await diverges(before, after)

    assert ran == []


async def test_code_that_asks_for_more_after_the_recorded_prefix_goes_on_and_says_that_it_changed() -> None:
    async def before(c: loom.Context) -> Any:
        return await c.run(work, "a")

    async def after(c: loom.Context) -> Any:
        return await c.run(work, "a")

    @loom.flow(id="versioned")
    async def longer(ctx: loom.Context) -> Any:
        value = await after(ctx)
        answer = await ctx.suspend("end")
        return [value, answer, await ctx.run(other, "new")]

    over = runtime(version(before))
    await over.start("versioned", id=RUN)

    outcome = await runtime(longer, storage=over.storage).resume(RUN, answer=1)

    assert outcome.value == ["a", 1, "new"]
    assert (await kinds(over)).count("MIGRATED") == 1


async def test_other_arguments_under_the_same_code_are_a_divergence() -> None:  # field fault 4
    draws = iter([1, 2])

    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        return [await ctx.run(work, str(next(draws))), await ctx.suspend("end")]

    over = runtime(flow)
    await over.start(flow, id=RUN)

    with pytest.raises(ReplayDivergence) as refused:
        await runtime(flow, storage=over.storage).resume(RUN, answer=1)

    assert "randomness" in refused.value.likely


async def test_other_arguments_under_changed_code_are_noted_and_the_record_is_served() -> None:
    over = runtime(version(lambda c: c.run(work, "a")))
    await over.start("versioned", id=RUN)

    outcome = await runtime(version(lambda c: c.run(work, "b")), storage=over.storage).resume(RUN, answer=1)

    assert outcome.value == ["a", 1, ""]
    [migrated] = await payloads(over, "EXECUTION_MIGRATED")
    [difference] = migrated.differences
    assert difference["id"] == "work"
    assert difference["asked"]["args"] == {"name": "b"}


async def test_arguments_equal_to_their_default_and_the_order_of_sets_make_no_difference() -> None:
    async def before(c: loom.Context) -> Any:
        await c.run("keep", len, {"a": 1, "b": {"x", "y", "z"}})
        return await c.run(work, "a")

    async def after(c: loom.Context) -> Any:
        await c.run("keep", len, {"b": {"z", "y", "x"}, "a": 1})
        return await c.run(work, name="a", extra=0)

    over = runtime(version(before))
    await over.start("versioned", id=RUN)

    outcome = await runtime(version(after), storage=over.storage).resume(RUN, answer=1)

    assert outcome.value == ["a", 1, ""]
    [migrated] = await payloads(over, "EXECUTION_MIGRATED")
    assert migrated.differences == []


async def test_no_effect_runs_before_the_whole_recorded_prefix_has_matched(seed: int) -> None:
    async def before(c: loom.Context) -> Any:
        async def branch(ctx: loom.Context, name: str) -> Any:
            return [await ctx.run(work, name), await ctx.suspend(name)]

        return await c.map(branch, ["a", "b", "c"])

    async def after(c: loom.Context) -> Any:
        async def branch(ctx: loom.Context, name: str) -> Any:
            if name == "a":
                return [await ctx.run(work, name), await ctx.suspend(name), await ctx.run(other, "too early")]
            if name == "c":
                return [await ctx.run(other, name), await ctx.suspend(name)]
            return [await ctx.run(work, name), await ctx.suspend(name)]

        return await c.map(branch, ["a", "b", "c"])

    over = runtime(version(before))
    parked = await over.start("versioned", id=RUN)
    await over.resume(RUN, answer=1, gate=random.Random(seed).choice(parked.gates).gate)
    ran.clear()

    with pytest.raises(ReplayDivergence):
        await runtime(version(after), storage=over.storage).resume(RUN)

    assert ran == []


async def test_the_fingerprint_of_code_that_says_the_same_in_other_lines_is_the_same() -> None:
    @loom.flow(id="plain")
    async def one(ctx: loom.Context) -> Any:
        return [await ctx.run(work, "a"), await ctx.suspend("end")]

    def two() -> loom.Flow[[], Any]:
        @loom.flow(id="plain")
        async def one(ctx: loom.Context) -> Any:
            # the same, with a comment and more lines
            return [
                await ctx.run(work, "a"),
                await ctx.suspend("end"),
            ]

        return one

    over = runtime(one)
    await over.start(one, id=RUN)

    await runtime(two(), storage=over.storage).resume(RUN, answer=1)

    assert "MIGRATED" not in await kinds(over)
