"""Chains: a run that goes on in a fresh log is one run to everybody (kernel rule 11.2)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.core.errors import ExecutionTerminated, InvalidId
from loom.core.ids import ExecutionId
from loom.driving.errors import DecisionNotFound, ExecutionNotFound
from loom.kernel.errors import CannotContinue
from loom.spi.event_store import Append, ExecutionQuery, Storage
from loom.spi.memory import MemoryStorage
from loom.values import InvalidPayload
from tests.kernel.running import RUN, kinds, payloads, runtime

seen: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


@loom.step
async def note(what: int) -> int:
    seen.append(what)
    return what


@loom.flow
async def counts(ctx: loom.Context, n: int = 0) -> int:
    await ctx.run(note, n)
    return n if n == 3 else await ctx.continue_as_new(n + 1)


@loom.flow
async def asks_then_goes_on(ctx: loom.Context, n: int = 0) -> str:
    answer = await ctx.suspend("more", expects=str)
    return answer if answer == "done" else await ctx.continue_as_new(n + 1)


@loom.flow
async def collects(ctx: loom.Context, n: int = 0) -> int:
    for _ in range(3):
        message: int = await ctx.receive("number", expects=int)
        await ctx.run(note, message)
        if message < 0:
            return n
    return await ctx.continue_as_new(n + 1)


@pytest.mark.proves("SYS-11")
async def test_each_link_is_a_log_of_its_own_and_the_outcome_is_the_last_one_s() -> None:
    over = runtime(counts)

    outcome = await over.start(counts, id=RUN, principal="ada", attributes={"team": "a"})

    assert (outcome.status, outcome.value, outcome.execution_id) == ("completed", 3, f"{RUN}~4")
    assert seen == [0, 1, 2, 3]
    assert await kinds(over) == ["STARTED", "STEP_STARTED", "STEP_COMPLETED", "CONTINUED"]
    assert await kinds(over, f"{RUN}~4") == ["STARTED", "STEP_STARTED", "STEP_COMPLETED", "COMPLETED"]
    assert [each.next for each in await payloads(over, "EXECUTION_CONTINUED")] == [f"{RUN}~2"]
    [begun] = await payloads(over, "EXECUTION_STARTED", f"{RUN}~3")
    assert (begun.link, begun.chain[0], begun.input, begun.attributes) == (3, RUN, 2, {"team": "a"})


async def test_each_link_has_a_seed_of_its_own() -> None:
    over = runtime(counts)

    await over.start(counts, id=RUN)

    begun = [each for id in await over.storage.ids() for each in await payloads(over, "EXECUTION_STARTED", id)]
    seeds = [each.seed for each in begun]
    assert len(set(seeds)) == len(seeds) == 4


@pytest.mark.proves("SYS-11")
async def test_a_long_loop_keeps_every_link_short() -> None:
    @loom.flow
    async def loops(ctx: loom.Context, n: int = 0) -> int:
        for _ in range(100):
            n = await ctx.run("add", lambda value: value + 1, n)
        return n if n >= 2_000 else await ctx.continue_as_new(n)

    over = runtime(loops, write_behind=True)

    outcome = await over.start(loops, id=RUN)

    rows = await over.find(ExecutionQuery(chain=RUN, limit=1000))
    assert outcome.value == 2_000
    assert (len(rows), max(row.length for row in rows)) == (20, 202)


async def test_who_waits_for_the_first_link_gets_the_end_of_the_chain() -> None:
    over = runtime(counts)

    _, outcome = await asyncio.gather(over.start(counts, id=RUN), over.wait(RUN))

    assert (outcome.status, outcome.value) == ("completed", 3)


@pytest.mark.parametrize("address", [RUN, f"{RUN}~2"])
async def test_every_verb_means_the_last_link_whichever_is_named(address: str) -> None:
    over = runtime(asks_then_goes_on)
    parked = await over.start(asks_then_goes_on, id=RUN)
    on = await over.resume(RUN, answer="go")

    state = await runtime(asks_then_goes_on, storage=over.storage).load_state(address)
    outcome = await over.resume(address, answer="done")

    assert (parked.execution_id, on.execution_id, on.status) == (RUN, f"{RUN}~2", "suspended")
    assert state.execution_id == f"{RUN}~2"
    assert outcome.value == "done"


@loom.flow
async def picks(ctx: loom.Context, n: int = 0) -> int:
    await ctx.decide("pick" if n < 2 else "choose", lambda: n)
    return n if n == 2 else await ctx.continue_as_new(n + 1)


@pytest.mark.proves("SUS-13")
async def test_what_came_of_a_decision_is_attached_in_the_link_that_made_it() -> None:
    over = runtime(picks)
    await over.start(picks, id=RUN)

    await over.attach(f"{RUN}~1", "pick", "first")
    await over.attach(f"{RUN}~2", "pick", "second")
    await over.attach(RUN, "choose", "last")
    with pytest.raises(DecisionNotFound, match=rf"no decision of {RUN}~3 is called 'pick'") as refused:
        await over.attach(RUN, "pick", "guessed")
    with pytest.raises(ExecutionNotFound):
        await over.attach(f"{RUN}~4", "pick", "none")

    links = [await over.events(id) for id in (RUN, f"{RUN}~2", f"{RUN}~3")]
    assert [events[-1].payload.value for events in links] == ["first", "second", "last"]
    assert [event.type for events in links for event in events].count("OUTCOME_ATTACHED") == 3
    assert f"{RUN}~1 to {RUN}~2" in refused.value.hint
    assert (await over.load_state(RUN)).status == "completed"


async def test_the_gates_of_two_links_have_answers_of_their_own() -> None:
    over = runtime(asks_then_goes_on)
    await over.start(asks_then_goes_on, id=RUN)

    for n in range(2, 6):
        assert (await over.resume(RUN, answer=str(n))).execution_id == f"{RUN}~{n}"

    assert (await over.resume(RUN, answer="done")).status == "completed"


@pytest.mark.proves("SUS-04")
async def test_every_message_is_received_once_by_the_old_link_or_the_new_while_it_rolls_over() -> None:
    """Field fault 16: a sender in a tight loop while the flow rolls over every few messages."""
    over = runtime(collects)
    running = asyncio.create_task(over.start(collects, id=RUN, linger_s=60))
    while not await over.storage.row(ExecutionId(RUN)):
        await asyncio.sleep(0)

    for n in range(100):
        await over.send(RUN, "number", n)
    await over.send(RUN, "number", -1)
    while (outcome := await over.wait(RUN)).status != "completed":
        await over.resume(RUN)
    await running

    assert seen == [*range(100), -1]
    assert outcome.value == 33
    with pytest.raises(ExecutionTerminated):
        await over.send(RUN, "number", 5)


async def test_a_message_sent_before_the_roll_over_and_not_received_belongs_to_the_next_link() -> None:
    @loom.flow
    async def takes_one(ctx: loom.Context, n: int = 0) -> int:
        taken: int = await ctx.receive("number", expects=int)
        await ctx.run(note, taken)
        return taken if n else await ctx.continue_as_new(1)

    over = runtime(takes_one)
    await over.start(takes_one, id=RUN)
    await over.send(RUN, "number", 1, drive=False)
    await over.send(RUN, "number", 2, drive=False)

    outcome = await over.resume(RUN)

    assert (outcome.value, seen) == (2, [1, 2])


async def test_a_process_lost_right_after_the_roll_over_loses_nothing() -> None:
    over = runtime(counts)
    await over.start(counts, id=RUN)
    left = MemoryStorage()
    await left.append([await _item(over.storage, RUN, follows=await _item(over.storage, f"{RUN}~2", length=1))])
    seen.clear()

    outcome = await runtime(counts, storage=left).resume(RUN)

    assert (outcome.execution_id, outcome.value, seen) == (f"{RUN}~4", 3, [1, 2, 3])


async def _item(storage: Storage, id: str, *, length: int | None = None, follows: Append | None = None) -> Append:
    """Return the write by which the first *length* events of a link come into another store."""
    row = await storage.row(ExecutionId(id))
    assert row is not None
    log = await storage.read(ExecutionId(id))
    index = row.index if length is None else replace(row.index, status="running", ended=False)
    return Append(
        execution_id=ExecutionId(id),
        incarnation=None,
        expected=0,
        append_id="left",
        events=log[:length],
        index=index,
        follows=follows,
    )


@pytest.mark.parametrize("where", ["branch", "gate"])
async def test_it_is_refused_in_a_branch_and_with_open_work(where: str) -> None:
    @loom.flow
    async def misplaced(ctx: loom.Context, n: int = 0) -> None:
        if where == "branch":
            await ctx.parallel(lambda c: c.continue_as_new(1), lambda c: c.sleep(1))
        elif where == "scope":
            async with ctx.scope():
                await ctx.continue_as_new(1)
        else:
            asking = asyncio.ensure_future(ctx.suspend("left open"))
            await asyncio.sleep(0)
            assert not asking.done()
            await ctx.continue_as_new(1)

    over = runtime(misplaced)

    with pytest.raises(CannotContinue) as refused:
        await over.start(misplaced, id=RUN)

    assert "continue" in str(refused.value)
    assert "CONTINUED" not in await kinds(over)


async def test_an_input_that_the_flow_does_not_take_is_refused_where_it_is_given() -> None:
    caught: list[str] = []

    @loom.flow
    async def wrong(ctx: loom.Context, n: int = 0) -> str:
        try:
            return await ctx.continue_as_new("not a number")
        except InvalidPayload as error:
            caught.append(str(error))
            return "stayed"

    over = runtime(wrong)

    assert (await over.start(wrong, id=RUN)).value == "stayed"
    assert len(caught) == 1


async def test_a_chain_is_cancelled_in_whichever_link_it_is() -> None:
    over = runtime(asks_then_goes_on)
    await over.start(asks_then_goes_on, id=RUN)
    await over.resume(RUN, answer="go")

    outcome = await over.cancel(RUN, reason="enough")

    assert (outcome.status, outcome.execution_id) == ("cancelled", f"{RUN}~2")
    assert (await over.wait(RUN)).status == "cancelled"


async def test_a_chain_keeps_its_deadline() -> None:
    over = runtime(asks_then_goes_on)
    await over.start(asks_then_goes_on, id=RUN, deadline=timedelta(hours=1))
    first = (await over.load_state(RUN)).facts.due_at

    await over.resume(RUN, answer="go")

    assert first is not None
    assert (await over.load_state(RUN)).facts.due_at == first


async def test_an_id_that_reads_like_a_link_is_refused() -> None:
    with pytest.raises(InvalidId):
        await runtime(counts).start(counts, id="mine~2")


async def test_a_chain_lists_its_links_and_its_tip() -> None:
    over = runtime(counts)
    await over.start(counts, id=RUN)

    links = await over.find(ExecutionQuery(chain=RUN))
    tips = await over.find(ExecutionQuery(tips=True))

    assert sorted(row.index.link for row in links) == [1, 2, 3, 4]
    assert [row.execution_id for row in tips] == [f"{RUN}~4"]


class Overtaken(MemoryStorage):
    """A store in which another process drives the second link to its end before the first is told that it is written."""

    def __init__(self) -> None:
        super().__init__()
        self.between: Any = None

    async def append(self, batch: Any) -> Any:
        results = await super().append(batch)
        if self.between is not None and any(item.follows is not None for item in batch):
            between, self.between = self.between, None
            await between()
        return results


async def test_who_wrote_a_link_leaves_it_to_who_has_taken_it_up_meanwhile() -> None:
    storage = Overtaken()
    over, other = runtime(counts, storage=storage), runtime(counts, storage=storage)

    async def overtake() -> None:
        link = ExecutionId(f"{RUN}~2")
        row = await storage.row(link)
        assert row is not None
        await storage.release(row.driver, [link])
        await other.resume(link)

    storage.between = overtake
    outcome = await over.start(counts, 0, id=RUN)

    assert outcome.status in {"accepted", "completed"}
    assert seen == [0, 1, 2, 3]
    assert (await kinds(other, f"{RUN}~2"))[-1] == "CONTINUED"
