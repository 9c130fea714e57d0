from __future__ import annotations

import asyncio
import enum
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.kernel.errors import StepIdReused
from loom.spi.clock import VirtualClock
from loom.values import InvalidPayload, NotSerializable
from tests.kernel.running import RUN, kinds, payloads, runtime

QUICK = loom.Retry(attempts=3, delay=timedelta(0))


class World:
    """What the steps did, and what they are to do."""

    def __init__(self) -> None:
        self.ran: list[Any] = []
        self.fail_times = 0


world = World()


@pytest.fixture(autouse=True)
def _new_world() -> None:
    world.__init__()  # type: ignore[misc]  # the steps below hold the object


class Declined(Exception):
    """A declared failure of the author's own, with fields its constructor insists on."""

    def __init__(self, *, code: str) -> None:
        super().__init__(f"declined: {code}")
        self.code = code


class Color(enum.Enum):
    """An enum."""

    RED = "red"


@loom.step(retry=QUICK)
async def flaky(step: loom.StepContext, name: str) -> str:
    world.ran.append((step.step_id, step.attempt, step.idempotency_key))
    if len(world.ran) <= world.fail_times:
        raise ConnectionError(f"try {step.attempt}")
    return name


@loom.flow
async def tries(ctx: loom.Context) -> str:
    try:
        return await ctx.run(flaky, "done")
    except loom.StepFailed as error:
        return f"{error.error_type}: {error.message} after {error.attempts}"


@pytest.mark.proves("EFF-03", "RNG-13")
@pytest.mark.parametrize("failing", [0, 1, 2, 3])
async def test_attempts_are_counted_recorded_and_share_one_key(failing: int) -> None:
    world.fail_times = failing
    over = runtime(tries)

    outcome = await over.start(tries, id=RUN)

    assert outcome.value == ("done" if failing < 3 else "ConnectionError: try 3 after 3")
    assert [attempt for _, attempt, _ in world.ran] == list(range(1, min(failing + 1, 3) + 1))
    assert len({key for *_, key in world.ran}) == 1
    assert (await kinds(over)).count("STEP_ATTEMPT_FAILED") == min(failing, 2)


async def test_a_long_rest_between_attempts_parks_and_the_time_comes() -> None:
    clock = VirtualClock()

    @loom.step(retry=loom.Retry(attempts=2, delay=timedelta(hours=1), delay_max=timedelta(hours=1)))
    async def rests() -> str:
        world.ran.append("x")
        if len(world.ran) == 1:
            raise ConnectionError
        return "rested"

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        return await ctx.run(rests)

    over = runtime(flow, clock=clock)
    parked = await over.start(flow, id=RUN)
    early = await runtime(flow, clock=clock, storage=over.storage).resume(RUN)
    clock.advance(3_600_000)
    outcome = await runtime(flow, clock=clock, storage=over.storage).resume(RUN)

    assert parked.wake_at == early.wake_at == 1_700_000_000_000 + 3_600_000
    assert (outcome.value, len(world.ran)) == ("rested", 2)


@pytest.mark.proves("RPL-04")
async def test_a_typed_failure_is_the_same_live_and_replayed() -> None:
    @loom.step(failures={"drift": dict[str, int]})
    async def drifts() -> None:
        raise loom.fail("drift", {"columns": 3})

    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        try:
            await ctx.run(drifts)
        except loom.TypedFailure as failure:
            world.ran.append((failure.channel, failure.payload, str(failure)))
            await ctx.suspend("end", show=[failure.channel, str(failure)])
        return ["done"]

    over = runtime(flow)
    await over.start(flow, id=RUN)
    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=1)

    assert outcome.value == ["done"]
    assert world.ran == [("drift", {"columns": 3}, world.ran[0][2])] * 2


async def test_except_on_a_declared_exception_of_the_author_works_live_and_replayed() -> None:  # field fault 23
    @loom.step(failures={"declined": Declined})
    async def declines() -> None:
        raise Declined(code="insufficient")

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            await ctx.run(declines)
        except Declined as error:
            await ctx.suspend("end", show=[error.code, str(error)])
            return error.code
        return "no"

    over = runtime(flow)
    await over.start(flow, id=RUN)

    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=1)

    assert outcome.value == "insufficient"


async def test_an_undeclared_failure_is_told_in_the_same_words_on_replay() -> None:  # field fault 9
    @loom.step
    async def falls() -> None:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise Declined(code="x") from error

    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        try:
            await ctx.run(falls)
        except loom.StepFailed as error:
            cause = error.cause.type if error.cause else ""
            told = [error.error_type, error.message, error.traceback, cause, str(error)]
            await ctx.suspend("end", show=told)
            return told
        return []

    over = runtime(flow)
    await over.start(flow, id=RUN)
    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=1)

    kind, message, trace, cause, _ = outcome.result()
    assert kind.endswith("test_steps.Declined")
    assert (message, cause) == ("declined: x", "KeyError")
    assert "falls" in trace
    assert "loom/kernel" not in trace


async def test_a_failure_too_large_or_of_another_type_is_a_plain_failure() -> None:
    @loom.step(failures={"big": str, "typed": int})
    async def fails(channel: str, payload: Any) -> None:
        raise loom.fail(channel, payload)

    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        told = []
        for channel, payload in (("big", "x" * 17_000), ("typed", "no int"), ("unknown", 1)):
            try:
                await ctx.run(fails, channel, payload)
            except loom.StepFailed as error:
                told.append(error.error_type)
        return told

    outcome = await runtime(flow).start(flow, id=RUN)

    assert outcome.value == ["loom.FailureTooLarge", "loom.InvalidPayload", "loom.TypedFailure"]


async def test_what_cannot_be_encoded_is_refused_before_the_effect_or_is_final_after_it() -> None:  # field fault 24
    @loom.step(retry=QUICK)
    async def hands_out() -> Any:
        world.ran.append("ran")
        return threading.Lock()

    @loom.step
    async def takes(thing: Any) -> None:
        world.ran.append("took")

    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        told = []
        try:
            await ctx.run(takes, {"deep": [threading.Lock()]})
        except NotSerializable as error:
            told.append(error.path)
        try:
            await ctx.run(hands_out)
        except loom.StepFailed as error:
            told.append(error.error_type)
        return told

    over = runtime(flow)
    outcome = await over.start(flow, id=RUN)

    assert outcome.value == ["thing['deep'][0]", "loom.NotSerializable"]
    assert world.ran == ["ran"]


# -- named, keyed, executed by id -------------------------------------------------------------------------------------


@loom.step
async def fetch(what: str) -> str:
    world.ran.append(what)
    if what == "bad":
        raise ConnectionError(what)
    return f"{what} {len(world.ran)}"


@pytest.mark.parametrize("how", [lambda: fetch.named("first"), lambda: fetch.keyed("k")])
async def test_a_name_used_again_is_served_the_first_outcome(how: Callable[[], loom.Step[[str], str]]) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        one = await ctx.run(how(), "a")
        two, three = await asyncio.gather(ctx.run(how(), "a"), ctx.run(how(), "a"))
        return [one, two, three, await ctx.suspend("end")]

    over = runtime(flow)
    await over.start(flow, id=RUN)
    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=0)

    assert outcome.value == ["a 1", "a 1", "a 1", 0]
    assert (await kinds(over)).count("STEP_STARTED") == 1


async def test_a_name_whose_first_call_is_still_open_is_served_when_it_settles() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        return list(await asyncio.gather(*(ctx.run(fetch.named("first"), "a") for _ in range(3))))

    outcome = await runtime(flow).start(flow, id=RUN)

    assert outcome.value == ["a 1"] * 3


async def test_a_named_failure_is_served_again_too() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[str]:
        told = []
        for _ in range(2):
            try:
                await ctx.run(fetch.named("first"), "bad")
            except loom.StepFailed as error:
                told.append(error.message)
        return told

    outcome = await runtime(flow).start(flow, id=RUN)

    assert (outcome.value, world.ran) == (["bad", "bad"], ["bad"])


async def test_a_name_used_again_with_other_arguments_stops_the_drive() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        await ctx.run(fetch.named("first"), "a")
        try:
            return await ctx.run(fetch.named("first"), "b")
        except Exception:  # noqa: BLE001  # the body must not see it
            return "swallowed"

    over = runtime(flow)

    with pytest.raises(StepIdReused) as stopped:
        await over.start(flow, id=RUN)

    assert stopped.value.step_id == "first"
    assert world.ran == ["a"]
    assert (await over.load_state(RUN)).status == "running"


@loom.tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    world.ran.append((a, b))
    return a + b


@pytest.mark.proves("SYS-02", "AUT-04")
async def test_a_tool_is_reached_by_id_and_its_arguments_are_validated_first() -> None:
    @loom.flow
    async def flow(ctx: loom.Context, wrong: bool) -> list[Any]:
        if wrong:
            return [await ctx.execute("add", {"a": "many", "c": 1})]
        return [await ctx.execute("add", {"a": 1}), await ctx.execute("add", {"a": 1, "b": 5}, id="sum")]

    over = runtime(flow, steps=[add])

    right = await over.start(flow, False, id="right")
    wrong = await over.start(flow, True, id="wrong")
    unknown = runtime(flow)

    assert right.value == [3, 6]
    assert [start.id for start in await payloads(over, "STEP_STARTED", "right")] == ["add", "sum"]
    assert wrong.failure is not None
    assert wrong.failure.type == f"loom.{InvalidPayload.__name__}"
    assert "STEP_STARTED" not in await kinds(over, "wrong")
    assert (await unknown.start(flow, False)).status == "failed"


def pair_of(a: int, *, b: int) -> list[int]:
    return [a, b]


@pytest.mark.proves("BEY-17")
async def test_a_small_function_needs_no_decorator() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        total = await ctx.run("total", sum, [1, 2, 3])
        lines = await ctx.run("total", pair_of, 1, b=2)
        again = await ctx.run("relabelled", fetch, "x")
        return [total, lines, again, await ctx.suspend("end")]

    over = runtime(flow)
    await over.start(flow, id=RUN)
    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=0)

    assert outcome.value == [6, [1, 2], "x 1", 0]
    assert [start.id for start in await payloads(over, "STEP_STARTED")] == ["total", "total#1", "relabelled"]


async def test_a_step_is_still_a_plain_function() -> None:
    assert await fetch("a") == "a 1"
    assert await flaky("b") == "b"
    with_context: Any = flaky
    assert await with_context(loom.StepContext.detached(attempt=7), "c") == "c"
    assert [attempt for _, attempt, _ in world.ran[1:]] == [1, 7]


async def test_results_of_odd_types_are_equal_and_of_the_same_type_after_a_resume() -> None:  # faults 25, 26, 28, 29
    from collections import Counter, deque
    from decimal import Decimal
    from uuid import UUID

    odd: dict[Any, Any] = {
        "decimal": Decimal("1.10"),
        "uuid": UUID(int=7),
        "tuple": (1, [2], {3}),
        "bytes": b"\x00\xff",
        "text": "a\x00b\ud800\\u0000",
        "numbers": [2**53 + 1, 2**64, 10**500, -0.0, float("inf")],
        "deque": deque([1, 2], maxlen=3),
        "counter": Counter("aab"),
        "enum": Color.RED,
        7: "int key",
    }

    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        got = await ctx.run("odd", lambda: odd)
        return [got, await ctx.suspend("end")]

    over = runtime(flow)
    await over.start(flow, id=RUN)
    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=0)

    got = outcome.result()[0]
    assert got == odd
    assert {key: type(value) for key, value in got.items()} == {key: type(value) for key, value in odd.items()}
    assert got["deque"].maxlen == 3
