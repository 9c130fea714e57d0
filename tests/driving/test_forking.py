"""Kernel rule 11.1 and field fault 45: a fork keeps what was done, and asks the rest anew, once."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.core.missing import MISSING
from loom.driving.edits import Edit
from loom.driving.errors import ExecutionAlreadyExists, ForkRefused
from loom.driving.runtime import WorkflowRuntime
from loom.spi import ExecutionId, ExecutionQuery
from loom.spi.clock import VirtualClock
from tests.kernel.running import RUN, kinds, records, runtime

ran: list[Any] = []
keys: dict[Any, list[str]] = {}


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()
    keys.clear()


@loom.step
async def work(step: loom.StepContext, what: Any) -> Any:
    ran.append(what)
    keys.setdefault(what, []).append(step.idempotency_key)
    return what


@loom.step(idempotent=False)
async def pay(amount: int) -> int:
    ran.append(("pay", amount))
    return amount


@loom.flow
async def desk(ctx: loom.Context) -> list[Any]:
    first = await ctx.run(work, 1)
    answer = await ctx.suspend("approve", expects=int)
    return [first, answer, await ctx.run(pay, first + answer)]


async def forked(over: WorkflowRuntime, at: int | None = None, **options: Any) -> str:
    return (await over.fork(RUN, at=at, **options)).execution_id


async def resumed(over: WorkflowRuntime, run: str, *, answer: Any = MISSING) -> Any:
    outcome = await over.resume(run, answer=answer)
    return outcome.value if outcome.status == "completed" else outcome.status


# -- what is kept, and what is asked anew ---------------------------------------------------------------------------------


@pytest.mark.proves("BRN-01")
async def test_a_fork_begins_with_the_events_of_its_source_and_leaves_it_as_it_is() -> None:
    over = runtime(desk)
    await over.start(desk, id=RUN)
    before = await records(over.storage)

    outcome = await over.fork(RUN, at=2, id="other", principal="ann", reason="what if")

    copied = await records(over.storage, "other")
    assert (outcome.execution_id, outcome.status) == ("other", "forked")
    assert copied[:3] == before[:3]
    assert [record.type for record in copied[3:]] == ["EXECUTION_FORKED"]
    assert await records(over.storage) == before
    [event] = [event for event in await over.events("other") if event.type == "EXECUTION_FORKED"]
    assert event.payload.source == {"execution_id": RUN, "incarnation": 1, "sequence": 2}
    assert (event.payload.reason, event.metadata["principal"]) == ("what if", "ann")


async def test_two_forks_and_their_source_have_an_answer_each() -> None:
    """Field fault 45: no fork is served the answer of another, and none answers the source."""
    over = runtime(desk)
    await over.start(desk, id=RUN)
    one, two = await forked(over, 3), await forked(over, 3)
    for each in (one, two):
        assert await resumed(over, each) == "suspended"

    answers = [await resumed(over, run, answer=n) for n, run in enumerate((one, two, RUN))]

    assert answers == [[1, 0, 1], [1, 1, 2], [1, 2, 3]]
    assert ran == [1, ("pay", 1), ("pay", 2), ("pay", 3)]


async def test_a_fork_is_answered_without_being_driven_before() -> None:
    over = runtime(desk)
    await over.start(desk, id=RUN)

    assert await resumed(over, await forked(over, 3), answer=2) == [1, 2, 3]


async def test_a_fork_after_the_answer_keeps_it() -> None:
    over = runtime(desk)
    await over.start(desk, id=RUN)
    await over.resume(RUN, answer=5)
    events = await over.events(RUN)
    [answered] = [event.sequence for event in events if event.type == "GATE_ANSWERED"]

    assert await resumed(over, await forked(over, answered)) == [1, 5, 6]
    assert ran == [1, ("pay", 6), ("pay", 6)], "what came after the fork is done once more, for the fork"


async def test_nobody_drives_a_fork_until_it_is_resumed() -> None:
    over = runtime(desk)
    await over.start(desk, id=RUN)
    fork = await forked(over, 1)

    [row] = await over.storage.find(ExecutionQuery(statuses=["forked"]))
    claimed = await over.storage.claim("worker", lease_ms=1000, limit=10)

    assert row.execution_id == fork
    assert [claim.row.execution_id for claim in claimed] == []


async def test_a_step_that_was_under_way_is_asked_anew_with_a_key_of_its_own() -> None:
    over = runtime(desk)
    await over.start(desk, id=RUN)

    fork = await forked(over, 1)  # the step has begun there, and has not ended

    assert await resumed(over, fork) == "suspended"
    assert ran == [1, 1]
    assert len(set(keys[1])) == 2


async def test_an_effect_that_must_not_run_twice_is_done_again_by_a_fork_and_is_not_in_doubt() -> None:
    over = runtime(desk)
    await over.start(desk, id=RUN)
    await over.resume(RUN, answer=5)
    [begun] = [e.sequence for e in await over.events(RUN) if e.type == "STEP_STARTED" and e.payload.id == "pay"]

    assert await resumed(over, await forked(over, begun)) == [1, 5, 6]
    assert ran.count(("pay", 6)) == 2


@loom.flow
async def side_by_side(ctx: loom.Context) -> list[Any]:
    done = await ctx.map(work, ["a", "b", "c"])
    await ctx.suspend("then")
    return done


async def test_a_fork_in_the_middle_of_a_parallel_block_runs_what_was_open_once() -> None:
    over = runtime(side_by_side)
    await over.start(side_by_side, id=RUN)
    [first, *_] = [e.sequence for e in await over.events(RUN) if e.type == "STEP_COMPLETED"]
    ran.clear()

    fork = await forked(over, first)

    assert await resumed(over, fork) == "suspended"
    assert sorted(ran) == ["b", "c"]
    assert await resumed(over, fork, answer=None) == ["a", "b", "c"]


@loom.flow
async def sleeper(ctx: loom.Context) -> Any:
    await ctx.sleep(timedelta(hours=5))
    return ctx.now().timestamp()


async def test_a_sleep_keeps_its_due_time() -> None:
    clock = VirtualClock(1_000)
    over = runtime(sleeper, clock=clock)
    await over.start(sleeper, id=RUN)
    clock.advance(3_600_000)

    fork = await forked(over, 1)
    outcome = await over.resume(fork)

    [due] = [e.payload.due_at for e in await over.events(RUN) if e.type == "TIMER_SET"]
    assert (outcome.status, outcome.wake_at) == ("suspended", due)


@loom.flow
async def drawing(ctx: loom.Context) -> list[uuid.UUID]:
    before = ctx.uuid()
    await ctx.run(work, "x")
    between = ctx.uuid()
    await ctx.suspend("then")
    return [before, between, ctx.uuid()]


async def test_what_is_derived_before_the_fork_stays_and_after_it_is_another() -> None:
    over = runtime(drawing)
    await over.start(drawing, id=RUN)
    one, two = await forked(over, 2), await forked(over, 2)
    for each in (one, two):
        await over.resume(each)

    first, second, third = [await resumed(over, run, answer=None) for run in (RUN, one, two)]

    assert first[:2] == second[:2] == third[:2]
    assert len({first[2], second[2], third[2]}) == 3


async def test_a_fork_of_a_fork_replays_all_that_came_before_it() -> None:
    over = runtime(drawing)
    await over.start(drawing, id=RUN)
    one = await forked(over, 2)
    await over.resume(one)

    length = len(await over.events(one))
    two = (await over.fork(one, at=length - 2)).execution_id
    await over.resume(two)

    first, second = await resumed(over, one, answer=None), await resumed(over, two, answer=None)
    assert first[:2] == second[:2]
    assert first[2] != second[2]


@pytest.mark.parametrize("write_behind", [False, True])
async def test_every_fork_of_a_run_ends_as_its_source_does(write_behind: bool) -> None:
    over = runtime(desk, write_behind=write_behind)
    await over.start(desk, id=RUN)
    await over.resume(RUN, answer=5)
    events = await over.events(RUN)

    ends = []
    for at in range(len(events) - 1):
        fork = await forked(over, at)
        end = await resumed(over, fork)
        ends.append(await resumed(over, fork, answer=5) if end == "suspended" else end)

    assert ends == [[1, 5, 6]] * len(ends)


# -- edits -----------------------------------------------------------------------------------------------------------------


@loom.flow
async def chosen(ctx: loom.Context) -> list[Any]:
    a = await ctx.run(work, 1)
    b = await ctx.run(work, a + 1)
    c = await ctx.decide("pick", lambda _: b * 10, [1, 2])
    d = await ctx.suspend("approve", expects=int)
    e = await ctx.receive("news", expects=int)
    await ctx.run(pay, d)
    return [a, b, c, d, e]


@pytest.mark.proves("BEY-05")
@pytest.mark.parametrize(
    ("edit", "value"),
    [
        (Edit("work", "output", 7), [7, 8, 80, 4, 5]),
        (Edit("work#1", "output", 7), [1, 7, 70, 4, 5]),
        (Edit("work#1", "input", {"what": 9}), [1, 9, 90, 4, 5]),
        (Edit("pick", "output", 0), [1, 2, 0, 4, 5]),
        (Edit("approve", "output", 9), [1, 2, 20, 9, 5]),
        (Edit("news", "output", 9), [1, 2, 20, 4, 9]),
        (Edit("pay", "input", {"amount": 99}), [1, 2, 20, 4, 5]),
    ],
    ids=lambda each: f"{each.what} of {each.id}" if isinstance(each, Edit) else "",
)
async def test_a_fork_with_an_edit_goes_on_as_if_it_had_been_so(edit: Edit, value: list[Any]) -> None:
    over = runtime(chosen)
    await over.start(chosen, id=RUN)
    await over.resume(RUN, answer=4)
    await over.send(RUN, "news", 5)
    before = await records(over.storage)

    fork = await forked(over, edit=edit)
    if (outcome := await over.resume(fork)).gates:
        outcome = await over.resume(fork, answer=4)
    if outcome.status == "suspended":
        outcome = await over.send(fork, "news", 5)

    assert outcome.value == value
    assert await records(over.storage) == before
    assert [each for each in ran if isinstance(each, tuple)][1:] == [("pay", 99 if edit.id == "pay" else value[3])]


async def test_an_edit_is_an_event() -> None:
    over = runtime(desk)
    await over.start(desk, id=RUN)
    await over.resume(RUN, answer=4)

    fork = await forked(over, edit=Edit("approve", "output", 9), principal="ann")

    *_, edited = await over.events(fork)
    assert (edited.type, edited.payload.answer) == ("GATE_ANSWERED", 9)
    assert edited.metadata == {"principal": "ann", "edited": edited.sequence - 1}
    assert await resumed(over, fork) == [1, 9, 10]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (Edit("wrok", "output", 1), "it never asked wrok"),
        (Edit("approve", "input", {}), "only a step has one"),
        (Edit("work", "input", [1]), "an object of arguments by name"),
        (Edit("approve", "output", 1), "has no output"),
    ],
)
async def test_what_cannot_be_edited_is_refused_and_nothing_is_written(edit: Edit, why: str) -> None:
    over = runtime(desk)
    await over.start(desk, id=RUN)

    with pytest.raises(ForkRefused, match=why):
        await over.fork(RUN, edit=edit)

    assert await over.storage.ids() == [RUN]


# -- refusals ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "why"), [(-1, "no event -1"), (10, "numbered 0 to 9"), (9, "completed")])
async def test_where_there_is_nothing_to_go_on_with_it_is_refused(at: int, why: str) -> None:
    over = runtime(desk)
    await over.start(desk, id=RUN)
    await over.resume(RUN, answer=5)

    with pytest.raises(ForkRefused, match=why):
        await over.fork(RUN, at=at)

    assert await over.storage.ids() == [RUN]


async def test_an_id_that_is_taken_is_refused() -> None:
    over = runtime(desk)
    await over.start(desk, id=RUN)

    with pytest.raises(ExecutionAlreadyExists):
        await over.fork(RUN, at=1, id=RUN)


# -- children ---------------------------------------------------------------------------------------------------------------


@loom.flow
async def child(ctx: loom.Context, n: int) -> int:
    return n + await ctx.suspend("kid", expects=int)


@loom.flow
async def parent(ctx: loom.Context) -> list[int]:
    kids = [await loom.spawn(ctx, child, n) for n in (10, 20)]
    await ctx.suspend("meanwhile")
    return [await loom.await_child(ctx, kid) for kid in kids]


async def test_children_that_are_waited_for_are_forked_with_their_parent() -> None:
    over = runtime(parent, child)
    await over.start(parent, id=RUN)
    await over.settled()
    length = len(await kinds(over))

    fork = await forked(over, length - 1)
    await over.resume(fork)
    await over.settled()
    for run, answer in ((f"{fork}:child", 1), (f"{fork}:child#1", 2), (f"{RUN}:child", 3), (f"{RUN}:child#1", 4)):
        await over.resume(run, answer=answer)
    await over.settled()

    assert await resumed(over, fork, answer=None) == [11, 22]
    assert await resumed(over, RUN, answer=None) == [13, 24]


async def test_the_end_of_a_child_that_had_ended_reaches_the_fork() -> None:
    over = runtime(parent, child)
    await over.start(parent, id=RUN)
    await over.settled()
    await over.resume(f"{RUN}:child", answer=1)
    await over.settled()
    await over.resume(f"{RUN}:child#1", answer=2)
    await over.settled()
    assert await resumed(over, RUN, answer=None) == [11, 22]
    events = await over.events(RUN)
    [answered] = [event.sequence for event in events if event.type == "GATE_ANSWERED"]

    fork = await forked(over, answered)

    assert await resumed(over, fork) == [11, 22]
    assert sorted(await over.storage.ids()) == sorted([RUN, f"{RUN}:child", f"{RUN}:child#1", fork])


async def test_cancelling_a_fork_leaves_the_children_of_its_source_alone() -> None:
    over = runtime(parent, child)
    await over.start(parent, id=RUN)
    await over.settled()
    fork = await forked(over, len(await kinds(over)) - 1)
    await over.resume(fork)
    await over.settled()

    await over.cancel(fork)
    await over.settled()

    states = {run: (await over.load_state(run)).status for run in (RUN, f"{RUN}:child", f"{fork}:child")}
    assert states == {RUN: "suspended", f"{RUN}:child": "suspended", f"{fork}:child": "cancelled"}


async def test_a_fork_of_a_child_tells_nobody() -> None:
    over = runtime(parent, child)
    await over.start(parent, id=RUN)
    await over.settled()

    fork = (await over.fork(f"{RUN}:child", at=1)).execution_id
    assert await resumed(over, fork) == "suspended"
    assert await resumed(over, fork, answer=5) == 15

    head = await over.storage.head(ExecutionId(RUN))
    assert head is not None
    assert list(await over.storage.pending(ExecutionId(RUN), head.incarnation)) == []
    assert (await over.load_state(f"{RUN}:child")).status == "suspended"
