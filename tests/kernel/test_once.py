"""Kernel rule 8.3: effects that must not happen twice, and what is not known of them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.spi.errors import StoreUnavailable
from loom.values import InvalidPayload
from tests.kernel.running import RUN, AppendsAreCounted, cut_off_after, kinds, payloads, records, runtime


class World:
    """What the steps did."""

    def __init__(self) -> None:
        self.ran: list[Any] = []


world = World()


@pytest.fixture(autouse=True)
def _new_world() -> None:
    world.__init__()  # type: ignore[misc]  # the steps below hold the object


class Busy(Exception):
    """The other side says for sure that it did nothing."""


@loom.step(
    idempotent=False,
    timeout=timedelta(seconds=0.05),
    retry=loom.Retry(attempts=3, delay=timedelta(0), on=(Busy,)),
)
async def pay(step: loom.StepContext, how: str) -> str:
    world.ran.append((how, step.attempt, step.idempotency_key))
    if how == "slow" and len(world.ran) == 1:
        await asyncio.sleep(10)
    if how == "busy" and len(world.ran) < 3:
        raise Busy
    if how == "breaks":
        raise ValueError("for sure")
    return "paid"


@loom.flow
async def pays(ctx: loom.Context, how: str) -> str:
    try:
        return await ctx.run(pay, how)
    except loom.StepFailed as error:
        return f"{error.error_type}: {error.message}"


async def test_an_error_that_is_raised_is_definite_and_is_not_tried_again() -> None:
    outcome = await runtime(pays).start(pays, "breaks", id=RUN)

    assert outcome.value == "ValueError: for sure"
    assert len(world.ran) == 1


async def test_it_is_tried_again_only_after_a_listed_error_each_with_its_own_marker() -> None:
    over = runtime(pays)

    outcome = await over.start(pays, "busy", id=RUN)

    assert outcome.value == "paid"
    assert [attempt for _, attempt, _ in world.ran] == [1, 2, 3]
    assert [marker.attempt for marker in await payloads(over, "STEP_ATTEMPTED")] == [2, 3]


@pytest.mark.proves("EFF-16")
@pytest.mark.parametrize(
    ("verdict", "value", "result"),
    [
        ("done", "by hand", "by hand"),
        ("failed", "no trace of it", "loom.Resolved: no trace of it"),
        ("retry", None, "paid"),
    ],
)
async def test_a_timeout_is_in_doubt_and_a_person_decides(verdict: Any, value: Any, result: str) -> None:
    over = runtime(pays)
    parked = await over.start(pays, "slow", id=RUN)

    outcome = await runtime(pays, storage=over.storage).resolve(RUN, "pay", verdict, value=value, principal="ada")

    assert parked.status == "in_doubt"
    assert [gate.in_doubt for gate in parked.gates] == [True]
    assert outcome.value == result
    assert len({key for *_, key in world.ran}) == 1
    assert len(world.ran) == (2 if verdict == "retry" else 1)
    assert (await kinds(over)).count("EFFECT_INDOUBT") == 1
    [resolved] = [event for event in await over.events(RUN) if event.type == "EFFECT_RESOLVED"]
    assert resolved.metadata["principal"] == "ada"


async def test_a_verdict_of_the_wrong_type_changes_nothing() -> None:
    over = runtime(pays)
    await over.start(pays, "slow", id=RUN)
    before = await records(over.storage)

    with pytest.raises(InvalidPayload):
        await over.resolve(RUN, "pay", "done", value=[1])

    assert await records(over.storage) == before


@pytest.mark.proves("KER-13")
async def test_an_answer_does_not_settle_a_doubt() -> None:
    over = runtime(pays)
    await over.start(pays, "slow", id=RUN)

    with pytest.raises(loom.LoomError) as refused:
        await over.resume(RUN, answer="paid", gate="pay")

    assert refused.value.code == "gate-not-open"


@pytest.mark.proves("RNG-14", "KER-08")
async def test_a_process_lost_in_the_middle_leaves_a_doubt_and_never_a_second_payment() -> None:
    over = runtime(pays)
    await over.start(pays, "ok", id=RUN)
    cut = await cut_off_after(over.storage, 2)
    world.ran.clear()

    parked = await runtime(pays, storage=cut).resume(RUN)
    again = await runtime(pays, storage=cut).resume(RUN)

    assert (parked.status, again.status) == ("in_doubt", "in_doubt")
    assert world.ran == []


async def test_an_effect_that_happened_but_could_not_be_recorded_is_in_doubt_later() -> None:  # field fault 37
    error = StoreUnavailable("gone", store="test")
    storage = AppendsAreCounted(dict.fromkeys(range(3, 100), error))
    over = runtime(pays, storage=storage)
    with pytest.raises(StoreUnavailable):
        await over.start(pays, "ok", id=RUN)
    storage.instead.clear()

    parked = await over.resume(RUN)

    assert parked.status == "in_doubt"
    assert len(world.ran) == 1


async def test_a_failing_sibling_waits_for_an_effect_that_is_not_idempotent() -> None:
    @loom.step(idempotent=False)
    async def slow_payment() -> str:
        for _ in range(100):
            await asyncio.sleep(0)
        world.ran.append("paid")
        return "paid"

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        async def bad(ctx: loom.Context) -> Any:
            raise ValueError("early")

        try:
            await ctx.parallel(lambda c: c.run(slow_payment), bad)
        except ValueError:
            return "caught"
        return "not reached"

    over = runtime(flow)
    outcome = await over.start(flow, id=RUN)

    assert outcome.value == "caught"
    assert "STEP_COMPLETED" in await kinds(over)
    assert world.ran == ["paid"]


@pytest.mark.parametrize("how", ["ok", "slow"])
async def test_a_retry_of_the_run_never_pays_again_without_a_verdict(how: str) -> None:
    broken = [True]

    def breaks() -> str:
        if broken:
            raise ConnectionError
        return "mended"

    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        return list(await asyncio.gather(ctx.run("breaks", breaks), ctx.run(pay, how)))

    over = runtime(flow)
    outcome = await over.start(flow, id=RUN)
    broken.clear()
    if outcome.status == "failed":
        outcome = await over.retry(RUN)

    assert outcome.status == ("completed" if how == "ok" else "in_doubt")
    assert len(world.ran) == 1
