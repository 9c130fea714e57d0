"""A proof holds for every log that Loom wrote, and for none that differs from it, if only in one byte."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loom
from loom.core.flow import Flow
from loom.driving.replaying import Replayed, Replayer
from loom.lenses.folding import fold_at, log_chain
from loom.lenses.proving import Proof, differing, proof_of
from loom.spi.clock import VirtualClock
from loom.spi.event_store import EventRecord
from loom_cli.proving import proof_json
from tests.golden import flows as golden_flows
from tests.golden import flows_in_flight, logs
from tests.kernel.lives import RUN, cancelled, live
from tests.kernel.programs import WORLD, World, replayer
from tests.kernel.test_live_and_replay import Program, programs, ways, wild

pytestmark = pytest.mark.timeout(400)

NAMES: Final = logs.names()
TOLD_ONLY: Final[dict[str, set[str]]] = {
    "EXECUTION_STARTED": {
        "seed",
        "input",
        "attributes",
        "chain",
        "link",
        "parent",
        "due_at",
        "version",
        "rules",
        "flow",
    },
    "EXECUTION_SUSPENDED": {"wake_at", "why"},
    "EXECUTION_TAKEN_OVER": {"driver", "found"},
    "EXECUTION_PAUSED": {"reason"},
    "EXECUTION_CANCEL_REQUESTED": {"cause", "due_at", "reason", "closed"},
    "EXECUTION_CANCELLED": {"cause", "reason"},
    "SCOPE_CLOSED": {"shielded"},
    "SCOPE_CUT": {"branch"},
    "EXECUTION_CONTINUED": {"next"},
    "EXECUTION_DENIED": {"action", "reason", "principal"},
    "EXECUTION_FAILED": {"failure"},
    "EXECUTION_FORKED": {"source", "seed", "reason"},
    "EXECUTION_DIVERGED": {"difference"},
    "EXECUTION_MIGRATED": {"after", "differences", "unpatched", "reason"},
    "OUTCOME_ATTACHED": {"value", "note"},
    "STEP_ATTEMPTED": {"attempt"},
    "STEP_ATTEMPT_FAILED": {"attempt", "failure", "due_at"},
    "STEP_COMPLETED": {"result"},
    "STEP_FAILED": {"failure", "attempts"},
    "EFFECT_INDOUBT": {"reason"},
    "EFFECT_RESOLVED": {"verdict", "result", "failure"},
    "GATE_ANSWERED": {"answer"},
    "MESSAGE_RECEIVED": {"number", "sent_at", "message"},
    "TOPIC_HELD": {"topic", "reason"},
    "TOPIC_RELEASED": {"topic"},
    "PATCH_APPLIED": {"name"},
    "DECISION_RECORDED": {"choice", "policy", "propensity", "context", "failure"},
    "STREAM_SETTLED": {"chunks", "failure"},
    "REQUEST_DROPPED": {"kind", "key", "reason"},
}
"""What stands on the log because somebody said so then, by type: the code cannot say it again."""


def flow_of(golden: logs.Golden) -> Flow[Any, Any]:
    flow: Flow[Any, Any] = getattr(golden_flows, golden.flow, None) or getattr(flows_in_flight, golden.flow)
    return flow


async def replayed(golden: logs.Golden, log: Sequence[EventRecord]) -> Replayed:
    golden_flows.OUTSIDE.set(golden_flows.World(forbidden=True))
    flow = flow_of(golden)
    tools = {tool.id: tool for tool in vars(golden_flows).values() if isinstance(tool, loom.Step)}
    return await Replayer({flow.id: flow}, tools).replay(golden.run, log, length=len(log))


async def proved(golden: logs.Golden, log: Sequence[EventRecord]) -> Proof:
    return proof_of(log, await replayed(golden, log))


def flipped(log: Sequence[EventRecord], at: int, part: str, place: int, bit: int) -> list[EventRecord]:
    """Return *log* with one bit of one byte of one record changed."""
    record = log[at]
    text = getattr(record, part)
    raw = bytearray(text.encode() if isinstance(text, str) else text)
    raw[place] ^= 1 << bit
    changed: Any = raw.decode("latin-1") if isinstance(text, str) else bytes(raw)
    return [*log[:at], record._replace(**{part: changed}), *log[at + 1 :]]


def chosen_flips(log: Sequence[EventRecord], seed: int, count: int) -> Iterator[tuple[int, str, int, int]]:
    """Yield bits to change all over *log*, *count* in each record."""
    chance = random.Random(seed)
    for at, record in enumerate(log):
        parts = {"type": len(record.type), "payload": len(record.payload), "metadata": len(record.metadata)}
        for part in chance.choices(list(parts), weights=list(parts.values()), k=count):
            yield at, part, chance.randrange(parts[part]), chance.randrange(8)


# -- it holds ---------------------------------------------------------------------------------------------------------


@pytest.mark.proves("BEY-19")
@pytest.mark.parametrize("name", NAMES)
async def test_a_golden_log_is_proved_and_equals_its_earlier_proof(name: str) -> None:
    golden = logs.read(name)

    proof, again = await proved(golden, golden.log), await proved(golden, golden.log)

    assert proof.problems == ()
    assert again == proof
    assert differing(again, proof_json(proof, (), proved=True)) == []
    assert differing(again, proof.digest) == differing(again, log_chain(golden.events)) == []
    assert [line.state for line in proof.lines] == golden.digests
    assert proof.chain == log_chain(golden.events)


@settings(max_examples=6)
@given(program=programs(wild), way=ways(retries=2), cancel=st.none() | st.integers(0, 20))
async def test_whatever_a_run_was_its_log_is_proved(program: Program, way: Any, cancel: int | None) -> None:
    life = await live(program, way) if cancel is None else (await cancelled(program, replace(way, cancel_at=cancel)))[0]
    log = list(life.log)
    token = WORLD.set(World(0, forbidden=True))
    try:
        whole, part = [await replayer().replay(RUN, log[:length]) for length in (len(log), len(log) // 2 + 1)]
    finally:
        WORLD.reset(token)

    assert proof_of(log, whole).problems == ()
    assert proof_of(log[: len(log) // 2 + 1], part).problems == ()


@loom.flow
async def hurried(ctx: loom.Context) -> str:
    async with ctx.scope(timeout=timedelta(seconds=10)):
        return await ctx.run("answer", _answer)


async def _answer() -> str:
    if not answers:
        CLOCK.advance(60_000)
        await asyncio.Event().wait()
    return answers.pop()


answers: list[str] = []
CLOCK: Final = VirtualClock()


async def test_the_log_of_a_scope_that_a_retry_gave_its_time_anew_is_proved() -> None:
    runtime = loom.define_config(flows=[hurried], clock=CLOCK).runtime
    assert (await runtime.start(hurried, id=RUN)).status == "failed"
    answers.append("in time")
    assert (await runtime.retry(RUN)).value == "in time"
    log = list(await runtime.storage.read(RUN))

    whole = await Replayer({hurried.id: hurried}).replay(RUN, log)

    assert [record.type for record in log if record.type == "EXECUTION_RETRIED"] == ["EXECUTION_RETRIED"]
    assert proof_of(log, whole).problems == ()


# -- and does not ------------------------------------------------------------------------------------------------------


@pytest.mark.proves("BEY-19")
@pytest.mark.parametrize("flips", [1, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
async def test_one_changed_byte_fails_it_and_the_event_is_named(name: str, flips: int, seed: int) -> None:
    golden = logs.read(name)
    whole, noted = await proved(golden, golden.log), fold_at(golden.events).facts.noted
    void = {each for event in golden.events if event.type == "EXECUTION_FORKED" for each in event.payload.void}
    earlier = orjson.loads(orjson.dumps(proof_json(whole, (), proved=True)))

    for flip in chosen_flips(golden.log, seed, flips):
        changed = flipped(golden.log, *flip)
        proof = await proved(golden, changed)

        assert flip[0] in {problem.sequence for problem in differing(proof, earlier)}, flip
        assert differing(proof, earlier["digest"]), flip
        is_only_said = flip[1] == "metadata" or _is_only_said(golden.log[flip[0]], changed[flip[0]], noted)
        is_only_said = is_only_said or flip[0] in void  # a fork asks anew what stood open, and compares it with nothing
        assert is_only_said or proof.problems, (flip, changed[flip[0]])


def _is_only_said(was: EventRecord, changed: EventRecord, noted: Mapping[int, str]) -> bool:
    """Whether the records differ in nothing but a value that nobody can compute again."""
    if was.type != changed.type or was.type.startswith("user."):
        return False
    try:
        before, after = orjson.loads(was.payload), orjson.loads(changed.payload)
    except ValueError:
        return False
    if not isinstance(after, dict) or before.keys() != after.keys():
        return False
    others = {name for name in before if before[name] != after[name]}
    if was.sequence in noted:  # it is asked with other arguments by now
        return others == {"args"}
    return bool(others) and others <= TOLD_ONLY.get(was.type, set())
