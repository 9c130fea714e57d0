"""Kernel rule 6.4: a run that is cancelled ends as cancelled, within bounds, after its clean-up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.core.errors import ExecutionTerminated
from loom.driving.errors import GateNotOpen
from tests.kernel.cancelled import act, asks, begins, cancelled, hangs, nothing_ran, pays, ran, sleeps
from tests.kernel.running import RUN, kinds, payloads, runtime

pytestmark = pytest.mark.usefixtures("asyncio_is_quiet")


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    nothing_ran()


async def works(ctx: loom.Context) -> None:
    await ctx.run(hangs, "work")


async def pays_once(ctx: loom.Context) -> None:
    await ctx.run(pays, "pay")


async def rests(ctx: loom.Context) -> None:
    @loom.step(id="refused", retry=loom.Retry(attempts=9, delay=timedelta(days=1)))
    async def refused() -> None:
        raise ConnectionError

    await ctx.run(refused)


async def decides(ctx: loom.Context) -> None:
    await ctx.decide("which", lambda: hangs("choose"))


async def streams(ctx: loom.Context) -> None:
    async def pieces() -> Any:
        yield 1
        await hangs("piece")

    await ctx.stream("letter", pieces())


WAYS: list[tuple[Callable[[loom.Context], Any], str | None]] = [
    (sleeps, None),
    (asks, None),
    (rests, None),
    (works, "work"),
    (pays_once, "pay"),
    (decides, "choose"),
    (streams, "piece"),
]


@pytest.mark.proves("RNG-11")
@pytest.mark.parametrize(("body", "when"), WAYS, ids=[body.__name__ for body, _ in WAYS])
@pytest.mark.parametrize("inside", ["flow", "parallel", "map"])
async def test_a_run_that_is_cancelled_ends_as_cancelled_after_its_clean_up(
    body: Callable[[loom.Context], Any], when: str | None, inside: str
) -> None:
    seen: list[loom.Cancelled] = []

    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            if inside == "parallel":
                await ctx.parallel(body, body)
            elif inside == "map":
                await ctx.map(lambda ctx, _: body(ctx), [1, 2, 3], limit=2)
            else:
                await body(ctx)
        except loom.Cancelled as signal:
            seen.append(signal)
            raise
        finally:
            await ctx.run(act, "clean up")
        return "not reached"

    over = runtime(flow)

    outcome = await cancelled(flow, when, over=over, reason="not wanted any more", principal="ada")

    assert (outcome.status, outcome.reason) == ("cancelled", "not wanted any more")
    assert [(signal.cause, signal.reason) for signal in seen] == [("request", "not wanted any more")]
    assert ran[-1] == "clean up"
    events = await over.events(RUN)
    [asked] = [event for event in events if event.type == "EXECUTION_CANCEL_REQUESTED"]
    assert asked.metadata["principal"] == "ada"
    assert events[-1].type == "EXECUTION_CANCELLED"
    assert events[-1].payload == ("request", "not wanted any more", None)
    with pytest.raises(ExecutionTerminated, match="not wanted any more"):
        outcome.result()


async def test_cancelled_is_no_exception_that_a_flow_catches_by_accident() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            await ctx.suspend("approve")
        except Exception:  # noqa: BLE001  # what authors write
            ran.append("caught")
        return "went on"

    assert (await cancelled(flow)).status == "cancelled"
    assert ran == []


async def test_what_is_swallowed_is_raised_again_at_the_next_syscall() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            await ctx.suspend("approve")
        except loom.Cancelled:
            ran.append("swallowed")
        try:
            await ctx.run(act, "not begun")
        except loom.Cancelled:
            await ctx.run(act, "clean up")
        await ctx.run(act, "not begun either")
        return "not reached"

    outcome = await cancelled(flow)

    assert outcome.status == "cancelled"
    assert ran == ["swallowed", "clean up"]


async def test_a_value_that_is_returned_all_the_same_is_no_success() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> str:
        try:
            await ctx.suspend("approve")
        except loom.Cancelled:
            return "a value"
        return "not reached"

    outcome = await cancelled(flow)

    assert (outcome.status, outcome.value) == ("cancelled", None)


async def test_an_error_of_the_clean_up_is_told_beside_the_cancellation() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        try:
            await ctx.suspend("approve")
        except loom.Cancelled:
            raise ValueError("could not clean up")  # noqa: B904  # what authors write

    outcome = await cancelled(flow, reason="stop")

    assert outcome.status == "cancelled"
    assert outcome.failure is not None
    assert outcome.why == "stop; ValueError: could not clean up"


async def test_a_body_that_never_stops_is_abandoned() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        while True:
            try:
                await ctx.suspend("approve")
            except loom.Cancelled:
                ran.append("on and on")

    outcome = await cancelled(flow, grace_s=0.1)

    assert outcome.status == "cancelled"
    assert len(ran) < 300


# shields


async def test_what_is_shielded_goes_on_and_the_next_syscall_is_refused() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        async with ctx.shield():
            await ctx.run(pays, "pay")
            await ctx.sleep(0.01)
            await ctx.map(act, ["a", "b"])
        await ctx.run(act, "not begun")

    @loom.step(id="pays", idempotent=False)
    async def pays(what: str) -> None:
        begins(what).set()
        await asyncio.sleep(0.3)
        ran.append(what)

    over = runtime(flow)

    outcome = await cancelled(flow, "pay", over=over)

    assert outcome.status == "cancelled"
    assert ran == ["pay", "a", "b"]
    assert (await kinds(over)).index("CANCEL_REQUESTED") < (await kinds(over)).index("STEP_COMPLETED")


async def test_an_answer_reaches_a_gate_that_is_shielded_and_no_other() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        async def guarded(ctx: loom.Context) -> Any:
            async with ctx.shield():
                ran.append(await ctx.suspend("guarded", expects=str))

        await ctx.parallel({"a": guarded, "b": asks})

    over = runtime(flow)

    outcome = await cancelled(flow, over=over, grace_s=3600)

    assert outcome.status == "suspended"
    assert [gate.gate for gate in outcome.gates] == ["parallel/a/guarded"]
    assert [asked.closed for asked in await payloads(over, "EXECUTION_CANCEL_REQUESTED")] == [[3]]
    with pytest.raises(GateNotOpen):
        await over.resume(RUN, gate="approve", answer="late")
    again = runtime(flow, storage=over.storage)
    assert (await again.resume(RUN, gate="guarded", answer="yes")).status == "cancelled"
    assert ran == ["yes"]


async def test_a_shield_may_be_entered_after_the_signal() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        with contextlib.suppress(loom.Cancelled):
            await ctx.suspend("approve")
        async with ctx.shield():
            await ctx.run(act, "undo")

    assert (await cancelled(flow)).status == "cancelled"
    assert ran == ["undo"]


@pytest.mark.parametrize("grace_s", [0, 0.2])
async def test_when_the_grace_is_over_no_shield_holds(grace_s: float) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        async def guarded(ctx: loom.Context) -> None:
            async with ctx.shield():
                await ctx.run(hangs, "guarded")

        try:
            await ctx.parallel(guarded, asks)
        finally:
            await ctx.run(act, "not begun")

    over = runtime(flow)

    outcome = await cancelled(flow, "guarded", over=over, grace_s=grace_s)

    assert outcome.status == "cancelled"
    assert ran == ["guarded", "guarded was cancelled"]
    assert (await kinds(over))[-3:] == ["CANCEL_REQUESTED", "GRACE_ENDED", "CANCELLED"]


async def test_clean_up_that_waits_for_no_syscall_ends_with_the_grace() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        try:
            await ctx.suspend("approve")
        except loom.Cancelled:
            await asyncio.Event().wait()

    assert (await cancelled(flow, grace_s=0.1)).status == "cancelled"
