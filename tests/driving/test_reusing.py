"""A fork that is served from its source: one thing is another, nothing else is done again, and the log stands for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import loom
from loom.core.envelope import SERVED
from loom.core.errors import InvalidDeclaration
from loom.core.ids import ExecutionId
from loom.driving.edits import Edit
from loom.driving.errors import ForkRefused
from loom.driving.replaying import Replayer
from loom.driving.reusing import NotRecorded
from loom.driving.runtime import WorkflowRuntime
from loom.driving.stored_log import StoredLog, stored_records
from loom.lenses.comparing import compare
from loom.spi.clock import VirtualClock
from loom.spi.memory import MemoryStorage
from tests.driving.races import RACES
from tests.kernel.lives import RUN as LIFE
from tests.kernel.lives import Driver, Way
from tests.kernel.programs import CODE, WORLD, World, interpreted
from tests.kernel.running import RUN, cut_off_after, runtime
from tests.kernel.test_live_and_replay import Program, programs, ways, wild

ran: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


@loom.step
async def look_up(order: str) -> str:
    ran.append(("look_up", order))
    return f"two pots for {order}"


@loom.step
async def ask_model(prompt: str, model: str = "small") -> str:
    ran.append(("ask_model", prompt, model))
    return "yes" if model == "small" else "no"


@loom.step(idempotent=False)
async def pay(order: str, key: str, at: str) -> str:
    ran.append(("pay", order))
    return f"paid {order}"


def by_van() -> str:
    ran.append("decided")
    return "by van"


@loom.flow
async def desk(ctx: loom.Context, order: str) -> Any:
    found = await ctx.run(look_up, order)
    verdict = await ctx.run(ask_model, f"is it fine? {found}")
    way = await ctx.decide("way", by_van)
    note = await ctx.suspend("approve", show=found, expects=str)
    await ctx.sleep(timedelta(days=30))
    news = await ctx.receive("news", expects=str)
    paid = await ctx.run(pay, order, str(ctx.uuid()), ctx.now().isoformat())
    return [verdict, way, note, news, paid]


@pytest.fixture
async def over() -> WorkflowRuntime:
    """A runtime with a run that slept for a month, was answered and told, and has ended."""
    clock = VirtualClock(1_000_000)
    over = runtime(desk, race, clock=clock)
    await over.start(desk, "A-1", id=RUN)
    await over.resume(RUN, answer="by all means", principal="eve", linger_s=0)
    clock.advance(31 * 86_400_000)
    await over.resume(RUN)
    outcome = await over.send(RUN, "news", "rain")
    assert outcome.status == "completed"
    clock.advance(7 * 86_400_000)
    ran.clear()
    return over


def memory(over: WorkflowRuntime) -> MemoryStorage:
    storage = over.surroundings.storage
    assert isinstance(storage, MemoryStorage)
    return storage


async def differences(over: WorkflowRuntime, *runs: str) -> list[str]:
    """Return the calls in which the runs differ."""
    logs = [StoredLog(ExecutionId(run), await over.events(run)) for run in runs]
    return [each.id for each in compare(logs).differences]


async def result(over: WorkflowRuntime, run: str) -> Any:
    return (await over.load_state(run)).facts.result


@pytest.mark.proves("BEY-20")
async def test_one_prompt_is_replaced_one_live_call_is_made_and_all_else_is_served(over: WorkflowRuntime) -> None:
    edit = Edit("ask_model", "input", {"prompt": "is it really fine?", "model": "large"})
    await over.fork(RUN, edit=edit, id="swap", reuse="only")

    outcome = await over.resume("swap")

    assert ran == [("ask_model", "is it really fine?", "large")]
    assert outcome.value == ["no", *(await result(over, RUN))[1:]]
    assert await differences(over, RUN, "swap") == ["ask_model"]
    own = [e for e in await over.events("swap") if e.sequence > outcome.length - 30 and e.type == "STEP_COMPLETED"]
    assert sum(SERVED not in event.metadata for event in own[1:]) == 1


@pytest.mark.proves("BEY-20")
async def test_one_result_is_replaced_and_no_call_is_made(over: WorkflowRuntime) -> None:
    await over.fork(RUN, edit=Edit("ask_model", "output", "perhaps"), id="swap", reuse="only")

    await over.resume("swap")

    assert (ran, (await result(over, "swap"))[0]) == ([], "perhaps")
    assert await differences(over, RUN, "swap") == ["ask_model"]


async def test_who_answered_is_kept_and_each_outcome_says_which_one_it_was(over: WorkflowRuntime) -> None:
    await over.fork(RUN, edit=Edit("ask_model", "output", "perhaps"), id="swap", reuse="only")
    await over.resume("swap")

    there = {event.sequence: event for event in await over.events(RUN)}
    served = [event for event in await over.events("swap") if SERVED in event.metadata]
    assert {event.type for event in served} >= {"GATE_ANSWERED", "TIMER_FIRED", "MESSAGE_RECEIVED", "DECISION_RECORDED"}
    assert all(there[event.metadata[SERVED]].type == event.type for event in served)
    [answer] = [event for event in served if event.type == "GATE_ANSWERED"]
    assert answer.metadata["principal"] == "eve"


async def test_what_follows_from_the_swap_and_asks_something_else_stops_it_and_is_not_done(
    over: WorkflowRuntime,
) -> None:
    await over.fork(RUN, edit=Edit("look_up", "output", "nothing at all"), id="swap", reuse="only")

    with pytest.raises(NotRecorded, match="asks for ask_model, with other arguments than run-1") as refused:
        await over.resume("swap")

    assert (ran, refused.value.call) == ([], "ask_model")
    assert not (await over.load_state("swap")).is_terminal


async def test_it_is_done_where_that_was_wished_and_what_asks_alike_is_still_served(over: WorkflowRuntime) -> None:
    await over.fork(RUN, edit=Edit("look_up", "output", "nothing at all"), id="swap", reuse="live")

    outcome = await over.resume("swap")

    assert ran == [("ask_model", "is it fine? nothing at all", "small")]
    assert (outcome.status, [gate.gate for gate in outcome.gates]) == ("suspended", ["approve"])


@pytest.mark.proves("BRN-02")
async def test_an_old_answer_is_served_only_to_who_is_shown_the_same(over: WorkflowRuntime) -> None:
    await over.fork(RUN, edit=Edit("look_up", "output", "nothing at all"), id="swap", reuse="live")
    await over.resume("swap")

    await over.resume("swap", answer="not that")

    [gate] = [event for event in await over.events("swap") if event.type == "GATE_ANSWERED"]
    assert (gate.payload.answer, SERVED in gate.metadata) == ("not that", False)
    assert (await over.load_state("swap")).status == "completed"
    assert (await result(over, "swap"))[2:4] == ["not that", "rain"]
    assert (await result(over, RUN))[2] == "by all means"


async def test_a_fork_of_it_without_reuse_asks_everything_anew(over: WorkflowRuntime) -> None:
    await over.fork(RUN, edit=Edit("ask_model", "output", "perhaps"), id="swap", reuse="only")
    await over.resume("swap")
    await over.fork("swap", edit=Edit("ask_model", "output", "surely"), id="plain")

    outcome = await over.resume("plain")

    assert (outcome.status, ran) == ("suspended", ["decided"])


async def test_its_log_stands_for_itself_when_the_source_is_gone(over: WorkflowRuntime) -> None:
    await over.fork(RUN, edit=Edit("ask_model", "output", "perhaps"), id="swap", reuse="only")
    await over.resume("swap")
    records = await stored_records(over.surroundings.storage, ExecutionId("swap"))

    verdict = (await Replayer({desk.id: desk}).replay("swap", records)).verdict

    assert (verdict.kind, verdict.end, ran) == ("same", None, [])


async def test_one_that_was_stopped_in_the_middle_is_served_on(over: WorkflowRuntime) -> None:
    await over.fork(RUN, edit=Edit("ask_model", "output", "perhaps"), id="whole", reuse="only")
    whole = await over.resume("whole")
    first = next(e.sequence for e in await over.events("whole") if e.type == "EXECUTION_FORKED")

    for length in range(first + 2, whole.length):
        left = await cut_off_after(over.surroundings.storage, length, "whole")
        left._logs[ExecutionId(RUN)] = memory(over)._logs[ExecutionId(RUN)]
        again = await runtime(desk, storage=left, clock=VirtualClock(10**11)).resume("whole")
        assert (again.status, again.value, ran) == (whole.status, whole.value, [])


@loom.flow
async def race(ctx: loom.Context) -> Any:
    async def slow(ctx: loom.Context) -> str:
        await ctx.run("slow", turns, 40)
        return str(await ctx.run("slower", turns, 40))

    async def quick(ctx: loom.Context) -> str:
        return str(await ctx.run("quick", turns, 1))

    first = await ctx.first(1, slow, quick)
    both = await ctx.parallel(quick, slow)
    return [first, both]


async def turns(number: int) -> int:
    ran.append(number)
    for _ in range(number):
        await asyncio.sleep(0)
    return number


async def test_who_was_first_there_is_first_here_though_all_is_served_at_once(over: WorkflowRuntime) -> None:
    source = await over.start(race, id="race")
    ran.clear()
    await over.fork("race", at=0, id="again", reuse="only")

    again = await over.resume("again")

    assert source.status == "completed"
    assert (again.value, ran) == (source.value, [])


@loom.flow
async def either(ctx: loom.Context) -> Any:
    async def looking(ctx: loom.Context) -> str:
        found = await ctx.run(look_up, "A-1")
        return found if found.startswith("two") else await ctx.run(ask_model, found)

    return await ctx.first(1, looking, lambda ctx: ctx.suspend("somebody", expects=str))


async def test_what_was_never_asked_in_a_scope_that_was_over_there_is_asked_when_nothing_else_ends_it_here() -> None:
    over = runtime(either)
    await over.start(either, id=RUN)
    ran.clear()
    other = Edit("first/0/look_up", "output", "one pot")
    await over.fork(RUN, edit=other, id="swap", reuse="only")
    await over.fork(RUN, edit=other, id="live", reuse="live")

    with pytest.raises(NotRecorded, match="which run-1 never asked"):
        await over.resume("swap")
    assert ran == []

    outcome = await over.resume("live")
    assert (outcome.value, ran) == (["yes"], [("ask_model", "one pot", "small")])


async def test_a_word_that_is_none_is_refused(over: WorkflowRuntime) -> None:
    with pytest.raises(InvalidDeclaration):
        await over.fork(RUN, at=3, reuse="all")  # type: ignore[arg-type]  # that is the point


async def test_a_source_that_is_gone_stops_it_before_anything_is_done(over: WorkflowRuntime) -> None:
    await over.fork(RUN, edit=Edit("ask_model", "input", {"model": "large"}), id="swap", reuse="only")
    del memory(over)._logs[ExecutionId(RUN)]

    with pytest.raises(ForkRefused, match="is gone"):
        await over.resume("swap")

    assert ran == []


async def serve_again(program: Program, way: Way, at: Callable[[int], int]) -> None:
    """Fork the run that *program* comes to at the event that *at* chooses, of so many, and require that it comes to the same."""
    storage = MemoryStorage()
    driver = Driver(storage, way)
    life = await driver.start(program)
    world = World(0, forbidden=True)
    token = WORLD.set(world)
    try:
        over = WorkflowRuntime(storage, flows={interpreted.id: interpreted}, clock=VirtualClock(10**13))
        over.know_code_as(CODE)
        await over.fork(LIFE, at=at(len(life.log) - 2), id="again", reuse="only")
        again = await over.resume("again", linger_s=10**9)
    finally:
        WORLD.reset(token)

    assert life.outcome is not None
    assert (again.status, again.value, world.effects) == (life.outcome.status, life.outcome.value, [])
    assert world.trace == life.saw


@settings(max_examples=15, phases=[Phase.explicit, Phase.generate])
@given(program=programs(wild), way=ways(), data=st.data())
async def test_of_every_run_a_served_fork_comes_to_the_same_and_does_nothing(
    program: Program, way: Way, data: st.DataObject
) -> None:
    await serve_again(program, way, lambda last: data.draw(st.integers(0, last)))


@pytest.mark.parametrize("race", RACES)
async def test_a_race_of_the_source_ends_in_the_fork_as_it_did_there(race: str) -> None:
    program, way, at = RACES[race]

    await serve_again(program, way, lambda last: at)
