"""Who drives a family, and what becomes of it when a process ends, a run is retried, or somebody dies in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.core.state import ExecutionState
from loom.driving.runtime import WorkflowRuntime
from loom.plugins.sqlite import SqliteStorage
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Append, AppendResult, ExecutionQuery
from tests.coordination.kin import (
    TOP,
    asking,
    each,
    family_of,
    parent_of_asking,
    runtime,
    top,
    work,
    world,
)
from tests.kernel.running import kinds, payloads


@pytest.fixture(autouse=True)
def _new_world() -> None:
    world.__init__()  # type: ignore[misc]  # the steps hold the object


async def test_a_parent_stays_while_its_child_is_driven_here_and_parks_when_that_parks() -> None:
    over = runtime()

    outcome = await over.start(parent_of_asking, id=TOP)

    assert outcome.status == "suspended"
    assert (await over.load_state("top:asking")).status == "suspended"
    assert (await kinds(over, TOP)).count("SUSPENDED") == 1


@pytest.mark.proves("CMP-13")
async def test_whoever_ends_a_child_drives_its_parked_parent() -> None:
    over = runtime()
    await over.start(parent_of_asking, id=TOP)

    child = await over.resume("top:asking", answer=3)
    await over.settled()

    assert child.value == "how many: 3"
    assert (await over.load_state(TOP)).status == "completed"
    assert (await over.wait(TOP)).value == "HOW MANY: 3"


@pytest.mark.proves("CMP-13")
async def test_a_child_that_ends_in_another_process_wakes_its_parent_there(tmp_path: Path) -> None:
    here, there = (
        runtime(storage=SqliteStorage(tmp_path / "loom.db")),
        runtime(storage=SqliteStorage(tmp_path / "loom.db")),
    )
    await here.start(parent_of_asking, id=TOP)

    await there.resume("top:asking", answer=3)
    await there.settled()

    assert (await here.wait(TOP)).value == "HOW MANY: 3"
    await here.close()
    await there.close()


async def test_where_the_flow_of_the_parent_is_not_known_the_message_waits_for_it(tmp_path: Path) -> None:
    here = runtime(storage=SqliteStorage(tmp_path / "loom.db"))
    there = loom.define_config(flows=[asking], storage=SqliteStorage(tmp_path / "loom.db")).runtime
    await here.start(parent_of_asking, id=TOP)

    await there.resume("top:asking", answer=3)
    await there.settled()

    assert (await here.resume(TOP)).value == "HOW MANY: 3"
    await here.close()
    await there.close()


async def test_closing_the_runtime_stops_the_children_and_resuming_the_parent_takes_them_up() -> None:
    gate = asyncio.Event()

    @loom.step
    async def hold(what: str) -> str:
        await gate.wait()
        return what

    @loom.flow
    async def holding(ctx: loom.Context, what: str) -> str:
        return await ctx.run(hold, what)

    @loom.flow
    async def parent(ctx: loom.Context) -> list[str]:
        return await loom.await_all(ctx, [await loom.spawn(ctx, holding, what) for what in ("a", "b")])

    over = runtime(holding, parent, grace_s=0.01)
    before = asyncio.all_tasks()
    driving = asyncio.ensure_future(over.start(parent, id=TOP))
    while len(await family_of(over)) < 2:
        await asyncio.sleep(0)
    await over.close()
    with pytest.raises(loom.LoomError, match="interrupted"):
        await driving
    gate.set()

    assert asyncio.all_tasks() == before
    assert (await runtime(holding, parent, storage=over.storage).resume(TOP)).value == ["a", "b"]


async def test_children_see_the_context_variables_of_whoever_started_the_parent_and_not_those_of_its_flow() -> None:
    from contextvars import ContextVar

    who: ContextVar[str] = ContextVar("who", default="nobody")

    @loom.flow
    async def child(ctx: loom.Context) -> str:
        return who.get()

    @loom.flow
    async def parent(ctx: loom.Context) -> str:
        who.set("the flow")
        return await loom.await_child(ctx, await loom.spawn(ctx, child))

    who.set("the caller")

    assert (await runtime(child, parent).start(parent)).value == "the caller"


# -- retries ---------------------------------------------------------------------------------------------------------


async def test_a_retry_of_the_parent_tries_the_failed_child_again() -> None:
    world.broken = {"word"}
    over = runtime()
    await over.start(top, "word", id=TOP)
    world.broken = set()

    outcome = await runtime(storage=over.storage).retry(TOP)

    assert outcome.value == Decimal(15)
    assert world.happened == ["top:middle:leaf word"] * 2
    assert (await kinds(over, "top:middle:leaf")).count("RETRIED") == 1


@loom.flow
async def hasty(ctx: loom.Context) -> str:
    child = await loom.spawn(ctx, asking, "how many")
    await ctx.run(work, "hasty")
    return await loom.await_child(ctx, child)


async def test_a_retried_parent_hears_of_a_child_that_ended_while_it_had_failed() -> None:
    world.broken = {"hasty"}
    over = runtime(hasty)
    await over.start(hasty, id=TOP)
    await over.settled()
    await over.resume("top:asking", answer=3)
    world.broken = set()

    outcome = await over.retry(TOP)

    assert outcome.value == "how many: 3"


# -- crashes ---------------------------------------------------------------------------------------------------------


class Mortal(loom.MemoryStorage):
    """A store that is out of reach after so many transactions: what a process leaves that dies then."""

    def __init__(self, life: int) -> None:
        super().__init__()
        self.life = life

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        if self.life <= 0:
            raise StoreUnavailable("the process is dead", store=self.url)
        self.life -= 1
        return await super().append(batch)


@pytest.mark.proves("CMP-13")
@pytest.mark.parametrize("how", [(top, "word", Decimal(15)), (each, ["a", "bb"], [Decimal(1), Decimal(2)])])
async def test_a_process_that_dies_after_any_transaction_leaves_a_family_that_goes_on(how: Any) -> None:
    flow, given, expected = how
    lived = Mortal(10_000)
    await runtime(storage=lived).start(flow, given, id=TOP)
    families = sorted(row.execution_id for row in await lived.find(ExecutionQuery()))

    for life in range(1, 1_000):
        storage = Mortal(life)
        first = runtime(storage=storage, grace_s=0.01)
        try:
            await first.start(flow, given, id=TOP)
        except StoreUnavailable:
            await first.settled()
        else:
            assert life > 1
            break
        storage.life = 10_000

        outcome = await runtime(storage=storage).resume(TOP)

        assert outcome.value == expected
        assert sorted(row.execution_id for row in await storage.find(ExecutionQuery())) == families
        for run in families:
            assert (await runtime(storage=storage).load_state(run)).status == "completed"
        messages = await payloads(runtime(storage=storage), "MESSAGE_RECEIVED", TOP)
        assert len(messages) == len(await family_of(runtime(storage=storage)))


@pytest.mark.proves("PRN-01")
async def test_a_replay_of_the_parent_starts_nothing_and_sees_the_same() -> None:
    over = runtime()
    await over.start(each, ["a", "bb"], id=TOP)
    before = {row.execution_id: row.length for row in await over.find(ExecutionQuery())}
    whole = (await over.load_state(TOP)).facts.result

    again = await _replayed(over)

    assert again.facts.result == whole
    after = {row.execution_id: row.length for row in await over.find(ExecutionQuery())}
    assert after.keys() == before.keys()
    assert world.happened == ["top:map/0/leaf a", "top:map/1/leaf bb"]


async def _replayed(over: WorkflowRuntime) -> ExecutionState:
    """Drive a copy of the parent's log without its last event, beside its children."""
    storage = loom.MemoryStorage()
    for row in sorted(await over.find(ExecutionQuery()), key=lambda row: row.index.parent):
        events = list(await over.storage.read(ExecutionId(row.execution_id)))
        kept = events[:-1] if row.execution_id == TOP else events
        item = Append(
            execution_id=row.execution_id,
            incarnation=None,
            expected=0,
            append_id="copy",
            events=kept,
            index=row.index,
        )
        await storage.append([item])
    again = runtime(storage=storage)
    await again.resume(TOP)
    return await again.load_state(TOP)


async def test_a_thousand_children_of_one_parent() -> None:
    began = time.monotonic()

    outcome = await runtime().start(each, ["a"] * 1_000, id=TOP)

    assert outcome.value == [Decimal(1)] * 1_000
    assert time.monotonic() - began < 60, "it is meant to take a few seconds"
