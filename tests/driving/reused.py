"""What must hold of an id that is used again after its run was deleted, on any store (kernel rule 2.1, field fault 38)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.driving.errors import ExecutionNotFound
from loom.driving.reading import read_log
from loom.spi.clock import VirtualClock
from loom.spi.conflicts import SequenceConflict
from loom.spi.event_store import ExecutionQuery
from loom.spi.event_trim import Deleted

PAID: list[str] = []


@contextmanager
def nothing_paid() -> Iterator[list[str]]:
    PAID.clear()
    yield PAID
    PAID.clear()


@loom.step
async def pay(step: loom.StepContext, order: str) -> str:
    PAID.append(step.idempotency_key)
    return f"{order} paid by payment {len(PAID)}"


@loom.flow(starts=loom.Starts(dedupe="order"))
async def once(ctx: loom.Context, order: dict[str, str]) -> str:
    return await ctx.run(pay, order["order"])


@loom.flow
async def plain(ctx: loom.Context, order: str) -> str:
    return await ctx.run(pay, order)


@loom.flow
async def parent(ctx: loom.Context, order: str) -> str:
    child = await loom.spawn(ctx, plain, order)
    return await loom.await_child(ctx, child)


@loom.flow
async def asked(ctx: loom.Context) -> Any:
    return await ctx.suspend("approval", expects=str)


@loom.flow
async def told(ctx: loom.Context) -> Any:
    return await ctx.receive("news", expects=str)


STEP: ContextVar[tuple[asyncio.Event, asyncio.Event]] = ContextVar("step")
"""Set when the slow step is entered, and waited for before it is left."""


@loom.step
async def wait() -> str:
    entered, may_leave = STEP.get()
    entered.set()
    await may_leave.wait()
    return "late"


@loom.flow
async def slow(ctx: loom.Context) -> str:
    return await ctx.run(wait)


FLOWS: dict[str, Any] = {flow.id: flow for flow in (once, plain, parent, asked, told, slow)}


async def deleted(store: Any, *names: str) -> None:
    """Delete a family, whose logs are *names*, whatever its age."""
    heads = [await store.head(ExecutionId(name)) for name in names]
    [result] = await store.delete([heads])
    assert isinstance(result, Deleted), result


class ReusedIds:
    """Inherit it and give *store*, on which *clock* is."""

    @pytest.fixture
    def runtime(self, store: Any, clock: VirtualClock) -> loom.WorkflowRuntime:
        return loom.WorkflowRuntime(store, flows=FLOWS, clock=clock)

    async def test_a_start_that_did_nothing_while_the_run_was_there_runs_anew(
        self, store: Any, runtime: loom.WorkflowRuntime
    ) -> None:
        with nothing_paid() as paid:
            first = await runtime.start("once", {"order": "A"})
            again = await runtime.start("once", {"order": "A"})
            await deleted(store, first.execution_id)

            anew = await runtime.start("once", {"order": "A"})

            assert (first.result(), again.result(), anew.result()) == (
                "A paid by payment 1",
                "A paid by payment 1",
                "A paid by payment 2",
            )
            assert anew.execution_id == first.execution_id
            assert len(set(paid)) == 2  # nor does anybody outside take the second for a repetition of the first

    async def test_a_chosen_id_runs_anew_in_the_same_process(self, store: Any, runtime: loom.WorkflowRuntime) -> None:
        with nothing_paid():
            await runtime.start("plain", "A", id="x-1")
            await deleted(store, "x-1")

            again = await runtime.start("plain", "B", id="x-1")

            assert again.result() == "B paid by payment 2"
            assert (await runtime.load_state("x-1")).facts.input == "B"

    async def test_a_parent_finds_no_child_of_the_past(self, store: Any, runtime: loom.WorkflowRuntime) -> None:
        with nothing_paid():
            await runtime.start("parent", "A", id="p-1")
            await deleted(store, "p-1", "p-1:plain")

            again = await runtime.start("parent", "B", id="p-1")

            assert again.result() == "B paid by payment 2"

    async def test_an_answer_of_the_past_opens_no_gate_of_the_present(
        self, store: Any, runtime: loom.WorkflowRuntime
    ) -> None:
        await runtime.start("asked", id="g-1")
        past = await store.head(ExecutionId("g-1"))
        await runtime.resume("g-1", answer="first")
        await deleted(store, "g-1")
        await runtime.start("asked", id="g-1")

        late = await store.insert(
            ExecutionId("g-1"), past.incarnation, kind="answer", key="gate:1", at=1, body=b'{"start":1,"answer":"old"}'
        )

        assert late is None
        assert (await runtime.resume("g-1", answer="second")).result() == "second"

    async def test_a_message_that_was_not_read_is_not_read_by_the_next(
        self, store: Any, runtime: loom.WorkflowRuntime
    ) -> None:
        await runtime.start("told", id="m-1")
        await runtime.send("m-1", "other", "unread")
        await runtime.send("m-1", "news", "old")
        await deleted(store, "m-1")
        with pytest.raises(ExecutionNotFound):
            await runtime.send("m-1", "news", "to nobody")

        again = await runtime.start("told", id="m-1")

        assert again.status == "suspended"
        assert (await runtime.send("m-1", "news", "new")).result() == "new"

    async def test_who_still_drives_what_was_deleted_writes_nothing_into_the_next(
        self, store: Any, clock: VirtualClock, runtime: loom.WorkflowRuntime
    ) -> None:
        doors = STEP.set((asyncio.Event(), asyncio.Event()))
        entered, may_leave = STEP.get()
        other = loom.WorkflowRuntime(store, flows=FLOWS, clock=clock)
        driving = asyncio.create_task(runtime.start("slow", id="s-1"))
        await entered.wait()
        await other.cancel("s-1", force=True)
        await deleted(store, "s-1")
        await other.start("asked", id="s-1")
        before = await read_log(store, ExecutionId("s-1"))

        may_leave.set()
        with pytest.raises(SequenceConflict):
            await driving

        assert await read_log(store, ExecutionId("s-1")) == before
        assert (await other.resume("s-1", answer="yes")).result() == "yes"
        STEP.reset(doors)

    async def test_nothing_of_the_past_is_listed(self, store: Any, runtime: loom.WorkflowRuntime) -> None:
        with nothing_paid():
            await runtime.start("parent", "A", id="p-1")
            await deleted(store, "p-1", "p-1:plain")
            await runtime.start("plain", "B", id="p-1")

            assert [row.execution_id for row in await store.find(ExecutionQuery())] == ["p-1"]
            assert list(await store.find(ExecutionQuery(parent="p-1"))) == []

    async def test_a_run_that_is_deleted_while_a_start_looks_for_it_is_not_there(
        self, store: Any, clock: VirtualClock
    ) -> None:
        meddled = Meddled(store)
        runtime = loom.WorkflowRuntime(meddled, flows=FLOWS, clock=clock)
        with nothing_paid():
            first = await runtime.start("once", {"order": "A"})
            meddled.when_found = first.execution_id

            anew = await runtime.start("once", {"order": "A"})

            assert anew.result() == "A paid by payment 2"


class Over:
    """A store like another, but for what a class of it says."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Meddled(Over):
    """A store in which a run is deleted right after it was found."""

    when_found = ""

    async def find(self, query: ExecutionQuery) -> Sequence[Any]:
        rows: Sequence[Any] = await self._store.find(query)
        if self.when_found and [row.execution_id for row in rows] == [self.when_found]:
            name, self.when_found = self.when_found, ""
            await deleted(self._store, name)
        return rows
