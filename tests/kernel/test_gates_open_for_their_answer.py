"""A gate opens for an answer that is addressed to it, and for nothing else that happens to its run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loom
from loom.core.views import open_gates
from loom.driving.errors import Denied
from loom.driving.runtime import WorkflowRuntime
from loom.spi.clock import VirtualClock
from loom.spi.event_store import RequestKind
from tests.kernel.running import RUN, incarnation_of, kinds, payloads, runtime

Cause = Callable[[WorkflowRuntime], Awaitable[Any]]


@loom.step(idempotent=False, timeout=timedelta(milliseconds=1))
async def wire() -> str:
    await asyncio.Event().wait()
    return "never"


def flow_of(version: int) -> loom.Flow[Any, Any]:
    """Return the flow under test, as its code was in one version: everything in it is called `approve`."""

    @loom.flow(id="everything")
    async def everything(ctx: loom.Context) -> Any:
        async def gate(ctx: loom.Context) -> Any:
            return await ctx.suspend("approve", key="k-1")

        async def another(ctx: loom.Context) -> Any:
            return [await ctx.suspend("approve", key="k-2"), await ctx.suspend("approve", key="k-3")]

        async def message(ctx: loom.Context) -> Any:
            received = await ctx.receive("approve")
            await ctx.emit("approve", {"approved": True})
            return received

        async def timer(ctx: loom.Context) -> Any:
            await ctx.sleep(3_600, name="approve")

        async def doubt(ctx: loom.Context) -> Any:
            try:
                return await ctx.run(wire)
            except loom.StepFailed as failed:
                return str(failed.message)

        branches = {"gate": gate, "another": another, "message": message, "timer": timer, "doubt": doubt}
        await ctx.decide("approve", lambda: "approved")
        return (await ctx.parallel(branches))["gate"]

    return everything if version == 1 else changed(everything)


def changed(before: loom.Flow[Any, Any]) -> loom.Flow[Any, Any]:
    """Return a flow that does the same by other code."""

    @loom.flow(id=before.id)
    async def everything(ctx: loom.Context) -> Any:
        return [await before.fn(ctx)][0]

    return everything


GATE = "parallel/gate/approve"


def raw(kind: RequestKind, body: dict[str, Any]) -> Cause:
    """Return a cause that puts a request into the lane as it is, and has the run driven."""

    async def put(over: WorkflowRuntime) -> None:
        [gate] = [gate for gate in open_gates(await over.load_state(RUN)) if gate.gate == GATE]
        about = orjson.dumps({"start": gate.start, "principal": "eve", **body})
        life = incarnation_of(over.storage)  # type: ignore[arg-type]  # the store of these tests
        run_id = (await over.load_state(RUN)).execution_id
        await over.storage.insert(run_id, life, kind=kind, key="", at=0, body=about)
        await over.resume(RUN)

    return put


async def denied(over: WorkflowRuntime) -> None:
    class Nobody:
        async def authorize(self, *_: Any) -> str:
            return "nobody may"

    with pytest.raises(Denied):
        await runtime(flow_of(1), storage=over.storage, authorizer=Nobody()).resume(RUN, gate="k-1", answer=True)


async def held(over: WorkflowRuntime) -> None:
    await over.hold(RUN, "approve")
    await over.send(RUN, "approve", True)
    await over.release(RUN, "approve")


async def timer_fires(over: WorkflowRuntime) -> None:
    clock: Any = over._surroundings.clock
    clock.advance(3_600_000)
    await over.resume(RUN)


CAUSES: dict[str, Cause] = {
    "driven again": lambda over: over.resume(RUN),
    "driven by another process": lambda over: runtime(flow_of(1), storage=over.storage).resume(RUN),
    "driven by other code": lambda over: runtime(flow_of(2), storage=over.storage).send(RUN, "approve", True),
    "a doubt resolved as done": lambda over: over.resolve(RUN, "wire", "done", value="approve"),
    "a doubt resolved as failed": lambda over: over.resolve(RUN, "wire", "failed", value="approve"),
    "a doubt to be tried again": lambda over: over.resolve(RUN, "wire", "retry"),
    "a message of its name, and an event of its name": lambda over: over.send(RUN, "approve", True),
    "a topic of its name held and released": held,
    "a timer of its name": timer_fires,
    "an answer to another gate of its name": lambda over: over.resume(RUN, gate="k-2", answer=True),
    "an outcome of a decision of its name": lambda over: over.attach(RUN, "approve", True),
    "an answer that was refused": denied,
    "a verdict in its name": raw("verdict", {"verdict": "done", "value": True}),
    "a message in its name": raw("message", {"topic": "approve", "message": True}),
    "an outcome in its name": raw("outcome", {"value": True}),
    "a denial in its name": raw("denial", {"action": "answer", "reason": "no"}),
}


@pytest.mark.proves("KER-13")
@pytest.mark.parametrize("cause", CAUSES)
async def test_nothing_but_its_answer_opens_a_gate(cause: str) -> None:
    over = runtime(flow_of(1), clock=VirtualClock())
    await over.start("everything", id=RUN, linger_s=0)
    before = await over.events(RUN)

    await CAUSES[cause](over)

    state = await over.load_state(RUN)
    [gate] = [gate for gate in open_gates(state) if gate.gate == GATE]
    assert state.length > len(before) or cause.startswith("driven")
    assert [fact for fact in await payloads(over, "GATE_ANSWERED") if fact.start == gate.start] == []

    await over.resume(RUN, gate=GATE, answer="mine")

    assert [fact.answer for fact in await payloads(over, "GATE_ANSWERED") if fact.start == gate.start] == ["mine"]
    assert GATE not in [gate.gate for gate in open_gates(await over.load_state(RUN))]


@loom.flow
async def fails_beside(ctx: loom.Context, fails: bool = True) -> Any:
    async def gate(ctx: loom.Context) -> Any:
        return await ctx.suspend("approve")

    async def other(ctx: loom.Context) -> Any:
        if await ctx.suspend("other") == "fail":
            raise ValueError("as asked")

    return (await ctx.parallel({"gate": gate, "other": other}))["gate"]


@pytest.mark.proves("KER-13")
async def test_a_retry_of_the_run_opens_no_gate() -> None:
    over = runtime(fails_beside)
    await over.start(fails_beside, id=RUN)
    failed = await over.resume(RUN, gate="other", answer="fail")

    again = await over.retry(RUN)

    assert (failed.status, again.status) == ("failed", "failed")  # the same answer fails it again
    assert "GATE_ANSWERED" in await kinds(over)
    assert [fact.answer for fact in await payloads(over, "GATE_ANSWERED")] == ["fail"]


# Several gates are independent


@loom.flow
async def many(ctx: loom.Context, gates: int) -> list[Any]:
    async def branch(ctx: loom.Context, item: int) -> Any:
        first = await ctx.suspend("ask", show=item)
        return [first, await ctx.suspend("ask", show=item)] if item % 2 else [first]

    return await ctx.map(branch, range(gates))


def told(over_state: Any) -> Any:
    """Return what a state says of the run, without when and in which order it came about."""
    settled = {
        each.start.payload.id: each.outcome.payload._replace(start=0) for each in over_state.settled if _is_gate(each)
    }
    return settled, sorted(start.payload.id for start in over_state.open.values()), over_state.facts.result


def _is_gate(settled: Any) -> bool:
    return bool(settled.start.type == "GATE_OPENED")


@pytest.mark.proves("SUS-03")
@given(gates=st.integers(1, 4), random=st.randoms(use_true_random=False), data=st.data())
async def test_in_whatever_order_gates_are_answered_the_run_comes_to_the_same(
    gates: int, random: Any, data: st.DataObject
) -> None:
    states = []
    for shuffled in (False, True):
        over = runtime(many)
        await over.start(many, gates, id=RUN)
        while waiting := open_gates(await over.load_state(RUN)):
            gate = random.choice(waiting) if shuffled else waiting[0]
            each = runtime(many, storage=over.storage) if shuffled and random.random() < 0.5 else over
            await each.resume(RUN, gate=gate.gate, answer=f"to {gate.gate}")
        states.append(told(await over.load_state(RUN)))

    assert states[0] == states[1]
