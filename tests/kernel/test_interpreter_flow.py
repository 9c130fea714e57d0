"""A flow may interpret a plan that it loads while it runs, in loops whose bounds are data, and be cut off anywhere (spec 4.3.1)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import loom
from loom.driving.runtime import WorkflowRuntime
from loom.lenses.folding import state_digest
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, cut_off_after, records

PLANS: dict[str, list[dict[str, Any]]] = {
    "onboarding": [
        {"do": "note", "with": {"text": "begin"}},
        {"each": ["ada", "bob", "cyd"], "do": "invite"},
        {"repeat": 3, "do": "note", "with": {"text": "again"}},
        {"ask": "agreed", "then": [{"do": "invite", "with": {"name": "dora"}}]},
        {"pause_s": 0.001},
    ]
}
DID: Counter[str] = Counter()


@loom.step(reads=True)
async def load_plan(name: str) -> list[dict[str, Any]]:
    return PLANS[name]


@loom.tool
async def note(step: loom.StepContext, text: str) -> str:
    DID[step.idempotency_key] += 1
    return f"{step.step_id}: {text}"


@loom.tool
async def invite(step: loom.StepContext, name: str) -> str:
    DID[step.idempotency_key] += 1
    return f"{name} by {step.step_id}"


@loom.flow
async def interpreter(ctx: loom.Context, plan: str) -> list[Any]:
    return await carried_out(ctx, await ctx.run(load_plan, plan))


async def carried_out(ctx: loom.Context, nodes: list[dict[str, Any]]) -> list[Any]:
    """Carry out each node of a plan in its turn; what it comes to is what the tools said."""
    said: list[Any] = []
    for node in nodes:
        if "each" in node:
            said += [await ctx.execute(node["do"], {"name": name}) for name in node["each"]]
        elif "repeat" in node:
            said += [await ctx.execute(node["do"], node["with"]) for _ in range(node["repeat"])]
        elif "ask" in node:
            said += await carried_out(ctx, node["then"]) if await ctx.suspend(node["ask"], expects=bool) else []
        elif "pause_s" in node:
            await ctx.sleep(node["pause_s"])
        else:
            said.append(await ctx.execute(node["do"], node["with"]))
    return said


def over(storage: MemoryStorage) -> WorkflowRuntime:
    return loom.define_config(flows=[interpreter], steps=[load_plan, note, invite], storage=storage).runtime


async def driven(runtime: WorkflowRuntime) -> loom.Outcome[Any]:
    """Go on with the run, and agree where it asks."""
    outcome = await runtime.resume(RUN)
    return await runtime.resume(RUN, answer=True) if outcome.status == "suspended" else outcome


@pytest.mark.proves("RPL-03")
async def test_it_ends_the_same_wherever_it_is_cut_off_and_each_tool_is_called_once_a_turn() -> None:
    DID.clear()
    whole = MemoryStorage()
    await over(whole).start(interpreter, "onboarding", id=RUN)
    ended = await over(whole).resume(RUN, answer=True)
    log, once = await records(whole), Counter(DID)

    assert ended.value == [
        "note: begin",
        *("ada by invite", "bob by invite#1", "cyd by invite#2"),
        *("note#1: again", "note#2: again", "note#3: again"),
        "dora by invite#3",
    ]
    assert set(once.values()) == {1}
    for length in range(1, len(log)):
        left = await cut_off_after(whole, length)
        runtime = over(left)

        again = await driven(runtime)

        assert (again.status, again.value) == ("completed", ended.value), f"cut off after {length} events"
        assert (await records(left))[:length] == log[:length]


@pytest.mark.proves("RPL-03")
async def test_a_plan_that_changes_afterwards_changes_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    await over(storage).start(interpreter, "onboarding", id=RUN)
    before = state_digest(await over(storage).load_state(RUN))
    monkeypatch.setitem(PLANS, "onboarding", [{"do": "note", "with": {"text": "another plan"}}])

    assert state_digest(await over(storage).load_state(RUN)) == before
    assert len((await driven(over(storage))).result()) == 8
