from __future__ import annotations

import asyncio
from typing import Any

import pytest

import loom
from tests.kernel.running import RUN, cut_off_after, kinds, payloads, runtime

asked: list[Any] = []


@pytest.fixture(autouse=True)
def _nobody_was_asked() -> None:
    asked.clear()


def last(candidates: list[str]) -> str:
    asked.append(list(candidates))
    return candidates[-1]


async def thinks(candidates: list[str]) -> loom.Choice:
    asked.append(list(candidates))
    await asyncio.sleep(0)
    return loom.Choice(value=candidates[0], policy={"name": "bandit", "v": 3}, propensity=0.25, context=["cheap"])


@pytest.mark.proves("SYS-03", "PRN-11")
async def test_choice_candidates_policy_propensity_and_context_are_recorded_and_served() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        return [await ctx.decide("model", thinks, ["small", "large"]), await ctx.suspend("end")]

    over = runtime(flow)
    await over.start(flow, id=RUN)
    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=1)

    [fact] = await payloads(over, "DECISION_RECORDED")
    assert (fact.choice, fact.candidates) == ("small", ["small", "large"])
    assert (fact.policy, fact.propensity, fact.context) == ({"name": "bandit", "v": 3}, 0.25, ["cheap"])
    assert outcome.value == ["small", 1]
    assert asked == [["small", "large"]]


async def test_a_chooser_cannot_change_what_it_was_given() -> None:
    def greedy(candidates: list[str]) -> str:
        return candidates.pop()

    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        mine = ["a", "b"]
        return [await ctx.decide("pick", greedy, mine), mine]

    assert (await runtime(flow).start(flow)).value == ["b", ["a", "b"]]


async def test_a_chooser_may_take_nothing_and_each_call_is_a_decision_of_its_own() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        return [await ctx.decide("n", lambda: len(asked)), await ctx.decide("n", lambda: 7)]

    over = runtime(flow)

    assert (await over.start(flow, id=RUN)).value == [0, 7]
    assert [fact.id for fact in await payloads(over, "DECISION_RECORDED")] == ["n", "n#1"]


async def test_a_chooser_that_raises_is_a_recorded_failure_the_same_on_replay() -> None:
    def breaks(candidates: list[str]) -> str:
        asked.append(candidates)
        raise LookupError("no model today")

    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        try:
            await ctx.decide("model", breaks, ["a"])
        except loom.DecisionFailed as error:
            return [error.decision, error.record.type, error.record.message, await ctx.suspend("end")]
        return []

    over = runtime(flow)
    await over.start(flow, id=RUN)
    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=1)

    assert outcome.value == ["model", "LookupError", "no model today", 1]
    assert len(asked) == 1


async def test_a_decision_that_was_not_recorded_is_made_again_after_a_crash() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        return str(await ctx.decide("model", last, ["a", "b"]))

    over = runtime(flow)
    await over.start(flow, id=RUN)
    left = await cut_off_after(over.storage, 1)

    outcome = await runtime(flow, storage=left).resume(RUN)

    assert outcome.value == "b"
    assert len(asked) == 2
    assert (await kinds(runtime(flow, storage=left))).count("DECISION_RECORDED") == 1
