"""A stored log is replayed by the real kernel, which goes no further than the log: every run there is replays as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loom
from loom.core.facts import ExecutionPaused
from loom.core.flow import Flow
from loom.core.ids import ExecutionId
from loom.core.state import empty_state
from loom.driving.replay_drive import PATIENCE_S
from loom.driving.replaying import Replayer, ReplayRefuses, _journal, _Nothing
from loom.driving.run_reader import LogReader
from loom.driving.stored_log import stored_records
from loom.driving.verdicts import Verdict
from loom.kernel.errors import ReplayDivergence
from loom.spi.event_store import EventRecord, ExecutionQuery
from loom.spi.memory import MemoryStorage
from tests.coordination import kin
from tests.golden import flows as golden_flows
from tests.golden import flows_in_flight, logs
from tests.kernel.lives import RUN, Life, Way, cancelled, live
from tests.kernel.programs import WORLD, World, interpreted, replayer
from tests.kernel.test_live_and_replay import BROKEN_ONCE, Program, programs, ways, wild

pytestmark = pytest.mark.timeout(400)

CUTS = 5
"""At so many places at most is a log cut off and replayed again."""


@contextmanager
def forbidden(seed: int = 0) -> Iterator[World]:
    """Set up a world in which no effect may happen."""
    world = World(seed, forbidden=True)
    token = WORLD.set(world)
    try:
        yield world
    finally:
        WORLD.reset(token)


async def verdict_of(log: list[EventRecord], flow: Flow[Any, Any] = interpreted, *, run: str = RUN) -> Verdict:
    judging = replayer() if flow is interpreted else Replayer({flow.id: flow})
    return (await judging.replay(run, log)).verdict


async def holds(life: Life) -> None:
    """Assert that the log of *life*, and all it began with, replays as it was, to its end, and causes nothing."""
    log = list(life.log)
    with forbidden() as world:
        whole = await verdict_of(log)
        saw = list(world.trace)
        lengths = range(1, len(log), len(log) // CUTS + 1)
        parts = [(length, await verdict_of(log[:length])) for length in lengths]

    assert (whole.kind, whole.end, whole.differences) == ("same", None, ()), whole
    assert saw == life.saw
    assert world.effects == []
    assert [(length, part) for length, part in parts if part.kind != "same"] == []


# -- all kinds of runs ------------------------------------------------------------------------------------------------


@pytest.mark.proves("RPL-11")
@settings(max_examples=12)
@given(program=programs(wild), way=ways(retries=2))
async def test_whatever_a_run_was_its_log_replays_to_the_same_end_wherever_it_is_cut_off(
    program: Program, way: Way
) -> None:
    await holds(await live(program, way))


@settings(max_examples=12)
@given(program=programs(wild), way=ways(), data=st.data())
async def test_a_run_that_was_cancelled_anywhere_replays_to_the_same_end(
    program: Program, way: Way, data: st.DataObject
) -> None:
    length = len((await live(program, way)).log)
    grace_s = data.draw(st.sampled_from([0.0, 0.02, 30.0]))
    at = data.draw(st.integers(0, length - 1))

    life, _ = await cancelled(program, replace(way, cancel_at=at, grace_s=grace_s))

    await holds(life)


@pytest.mark.parametrize("program", BROKEN_ONCE.values(), ids=BROKEN_ONCE)
async def test_a_program_that_once_broke_replays(program: Program) -> None:
    await holds(await live(program, Way(seed=1, linger_s=0.0, retries=1)))


@pytest.mark.parametrize("name", logs.names())
async def test_a_golden_log_replays_to_its_end(name: str) -> None:
    golden = logs.read(name)
    flow = getattr(golden_flows, golden.flow, None) or getattr(flows_in_flight, golden.flow)
    tools = {tool.id: tool for tool in vars(golden_flows).values() if isinstance(tool, loom.Step)}
    world = golden_flows.World(forbidden=True)
    golden_flows.OUTSIDE.set(world)

    verdict = (await Replayer({flow.id: flow}, tools).replay(golden.run, golden.log)).verdict

    assert verdict.is_fine, verdict
    assert (verdict.end, verdict.differences) == (None, ())
    assert world.saw == golden.saw


async def test_parents_and_children_replay_each_by_its_own_log_and_start_nobody() -> None:
    storage = MemoryStorage()
    app = loom.define_config(flows=kin.FLOWS, storage=storage)
    await app.runtime.start(kin.top, "a", id="family")
    await app.runtime.start(kin.all_or_none, ["b", "c"], id="all")
    await app.runtime.start(kin.parent_of_asking, id="asks")
    kin.world.broken.add("no")
    await app.runtime.start(kin.each, ["yes", "no"], id="each")
    happened = list(kin.world.happened)
    replayer = Replayer({flow.id: flow for flow in kin.FLOWS})
    rows = await storage.find(ExecutionQuery())

    found = {
        row.execution_id: (
            await replayer.replay(row.execution_id, await stored_records(storage, row.execution_id))
        ).verdict
        for row in rows
    }

    assert {verdict.kind for verdict in found.values()} == {"same"}
    assert len(found) == 3 + 3 + 2 + 3
    assert {verdict.status for verdict in found.values()} == {"completed", "suspended", "failed"}
    assert kin.world.happened == happened
    kin.world.broken.clear()


@loom.step(idempotent=False, timeout=timedelta(seconds=0.01))
async def pays() -> None:
    await asyncio.sleep(1)


@loom.flow
async def doubtful(ctx: loom.Context) -> None:
    await ctx.run(pays)


@loom.flow
async def rolls(ctx: loom.Context, n: int = 0) -> int:
    return n if n == 2 else await ctx.continue_as_new(n + 1)


async def test_a_run_in_doubt_and_each_link_of_a_chain_replay() -> None:
    storage = MemoryStorage()
    app = loom.define_config(flows=[doubtful, rolls], storage=storage)
    await app.runtime.start(doubtful, id="in-doubt")
    await app.runtime.start(rolls, id="chain")

    found = [
        await verdict_of(await stored_records(storage, row.execution_id), flow, run=row.execution_id)
        for row in await storage.find(ExecutionQuery())
        for flow in (doubtful, rolls)
        if flow.id == row.index.flow
    ]

    assert sorted((v.id, v.status, v.kind) for v in found) == [
        ("chain", "continued", "same"),
        ("chain~2", "continued", "same"),
        ("chain~3", "completed", "same"),
        ("in-doubt", "in_doubt", "same"),
    ]


# -- what it cannot do ------------------------------------------------------------------------------------------------


def test_what_a_replay_is_given_of_a_store_can_read_and_nothing_else() -> None:
    assert [name for name in vars(LogReader) if not name.startswith("_")] == ["read"]
    assert get_type_hints(stored_records)["reader"] is LogReader
    assert "storage" not in get_type_hints(Replayer.__init__)


# -- as a flow is --------------------------------------------------------------------------------------------------------


@loom.step
async def note(what: str) -> str:
    return what


@loom.flow
async def talks(ctx: loom.Context) -> None:
    ctx.log.warning("it is said once")
    await ctx.run(note, "a")
    ctx.log.warning("and not again")
    await ctx.suspend("go")


async def test_a_replay_says_nothing_that_the_flow_said_before(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    await loom.define_config(flows=[talks], storage=storage).runtime.start(talks, id="r")
    log = await stored_records(storage, ExecutionId("r"))
    said = [record.getMessage() for record in caplog.records]
    caplog.clear()

    verdict = await verdict_of(log, talks, run="r")

    assert said == ["it is said once", "and not again"]
    assert (verdict.kind, caplog.records) == ("same", [])


def dawdling(steps: int, *, seconds: float) -> Flow[Any, Any]:
    """Return a flow that waits by itself between its steps, which no flow should."""

    @loom.flow(id="dawdling")
    async def flow(ctx: loom.Context) -> str:
        for _ in range(steps):
            await ctx.run(note, "a")
        await asyncio.sleep(seconds)
        return "done"

    return flow


async def test_a_flow_that_waits_by_itself_is_given_time_once_and_not_once_a_run() -> None:
    storage = MemoryStorage()
    app = loom.define_config(flows=[dawdling(2, seconds=0)], storage=storage)
    for n in range(4):
        await app.runtime.start("dawdling", id=f"r-{n}")
    held = [await stored_records(storage, ExecutionId(f"r-{n}")) for n in range(4)]
    patient, never = dawdling(2, seconds=0.05), dawdling(1, seconds=3600)
    begun = asyncio.get_running_loop().time()

    replayer = Replayer({"dawdling": patient})
    assert {(await replayer.replay(f"r-{n}", log)).verdict.kind for n, log in enumerate(held)} <= {"same", "migrates"}
    replayer = Replayer({"dawdling": never})
    assert {(await replayer.replay(f"r-{n}", log)).verdict.kind for n, log in enumerate(held)} == {"breaks"}

    assert asyncio.get_running_loop().time() - begun < 3 * PATIENCE_S


async def test_a_replay_has_nothing_to_write_to_and_nothing_to_act_with() -> None:
    journal = _journal(empty_state(ExecutionId("r")))

    with pytest.raises(ReplayRefuses):
        journal.commit("EXECUTION_PAUSED", ExecutionPaused())
    for name in ("append", "insert", "invoke"):
        with pytest.raises(ReplayRefuses):
            getattr(_Nothing(), name)


async def test_a_run_that_diverged_is_well_again_once_the_code_is_mended() -> None:
    storage = MemoryStorage()
    mended = loom.define_config(flows=[talks], storage=storage)
    await mended.runtime.start(talks, id="r")

    @loom.flow(id="talks")
    async def silent(ctx: loom.Context) -> None:
        await ctx.suspend("go")

    broken = loom.define_config(flows=[silent], storage=storage)
    with pytest.raises(ReplayDivergence):
        await broken.runtime.resume("r", answer=None)
    log = await stored_records(storage, ExecutionId("r"))

    found = [await verdict_of(log, flow, run="r") for flow in (silent, talks)]

    assert [(verdict.status, verdict.kind) for verdict in found] == [("diverged", "breaks"), ("diverged", "same")]
