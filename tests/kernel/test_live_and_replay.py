"""What a flow sees is the same live and replayed, whatever the flow is and wherever it was cut off."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.kernel.lives import Way, cancelled, gone_on, live, replayed

Program = list[Any]
Operation = st.SearchStrategy[list[Any]]

pytestmark = pytest.mark.timeout(400)  # a failing program takes its time to become small

SOME: Final = settings(max_examples=settings().max_examples * 2 // 5)
"""Each is a run of several lives."""

RETRIED_ONCE: Final[dict[str, Program]] = {
    "what must not run twice in a late scope": [["scope", 0, [[["run", 0], ["once"], ["sleep", 26]], []], []]],
    "a sleep in a late scope": [["scope", 20, [[["once"], ["sleep", 40]], []], []]],
}
"""The smallest programs that once diverged, or slept for ever, when they were retried."""

BROKEN_ONCE: Final[dict[str, Program]] = {
    "scopes without branches": [["run", 1], ["parallel", []], ["map", 0, 1, []]],
    "a task beside a step": [["task", 1, [["peek"], ["log"]]]],
    "a task that a failure leaves behind": [["task", 2, [["catch", [["fail", "plain"]]], ["fail", "refused"]]]],
    "a task that nobody awaits": [["loose", 1], ["gate", None]],
    "an emit beside a branch": [["parallel", [[["emit"], ["log"], ["peek"]], [["log"], ["peek"]]]]],
    "a scope beside a branch": [["map", 2, 2, [["parallel", [[["yield", 2]], []]], ["peek"]]]],
    "a map below a cut": [["parallel", [[["map", 3, 2, [["gate", None]]]], [["fail", "plain"]]]]],
    "a failure beside a rest": [["parallel", [[["flaky", 3]], [["sleep", 1], ["raise"]]]]],
    "what nobody awaits in a scope that is late": [["scope", 0, [[["run", 0], ["gather", 0, 0], ["loose", 0]]], []]],
    "a failure below two scopes": [["parallel", [[["parallel", [[["run", 1]], [["flaky", 4]]]]], [["gate", None]]]]],
}
"""The smallest programs that once saw something else when they were cut off or replayed."""


def operation(*operands: Any) -> Operation:
    return st.tuples(*(o if isinstance(o, st.SearchStrategy) else st.just(o) for o in operands)).map(list)


numbers = st.integers(0, 3)
failing = operation("fail", st.sampled_from(["declined", "refused", "plain"]))
calm = st.one_of(
    operation("run", numbers),
    operation("flaky", st.integers(1, 3)),
    operation("once"),
    operation("named", numbers),
    operation("keyed", numbers),
    operation("inline", numbers),
    operation("stream", numbers),
    operation("gather", numbers, numbers),
    operation("lock", numbers),
    operation("loose", numbers),
    operation("yield", st.integers(1, 3)),
    operation("decide", st.booleans()),
    operation("emit"),
    operation("patched", numbers),
    operation("now"),
    operation("draw"),
    operation("gate", None),
    operation("receive", "own", None),
    operation("sleep", st.integers(0, 50)),
    operation("log"),
    operation("catch", st.lists(failing, min_size=1, max_size=1)),
)
"""Operations that see the same whatever else comes first."""

wild = st.one_of(
    calm,
    calm,
    failing,
    operation("raise"),
    operation("peek"),
    operation("flaky", 4),
    operation("gate", st.integers(0, 60)),
    operation("receive", st.sampled_from(["a", "b"]), None),
    operation("receive", st.sampled_from(["own", "a", "b"]), st.integers(0, 60)),
    operation("arms", st.sampled_from(["own", "a", "b"]), st.one_of(st.none(), st.integers(0, 60))),
    operation("first", numbers, numbers),
)


def nested(inner: Operation) -> Operation:
    block = st.lists(inner, max_size=3)
    return st.one_of(
        operation("loop", st.integers(1, 3), block),
        operation("parallel", st.lists(block, max_size=3)),
        operation("map", numbers, st.integers(1, 2), block),
        operation("scope", None, st.lists(block, max_size=2), block),
        operation("task", numbers, block),
        operation("both", numbers, block),
        operation("catch", block),
        operation("finally", block),
        operation("clean up", block, block),
        operation("swallow", block),
        operation("shield", block),
    )


def racing(inner: Operation) -> Operation:
    """Operations in which it matters who comes first, beside those in which it does not."""
    block = st.lists(inner, max_size=3)
    blocks = st.lists(block, min_size=1, max_size=3)
    return st.one_of(
        nested(inner),
        operation("select", blocks),
        operation("first of", st.integers(1, 3), blocks),
        operation("any", blocks),
        operation("scope", st.integers(0, 60), st.lists(block, max_size=2), block),
        operation("told", st.one_of(st.none(), st.integers(0, 60)), st.lists(block, min_size=1, max_size=2)),
    )


def programs(leaves: Operation) -> st.SearchStrategy[Program]:
    inner = nested if leaves is calm else racing
    return st.lists(st.recursive(leaves, inner, max_leaves=8), min_size=1, max_size=4)


def ways(*, retries: int = 0) -> st.SearchStrategy[Way]:
    return st.builds(
        Way,
        seed=st.integers(0, 10_000),
        linger_s=st.sampled_from([0.0, 1_000.0]),
        write_behind=st.booleans(),
        early_answers=st.booleans(),
        early_messages=st.booleans(),
        interruptions=st.booleans(),
        retries=st.integers(0, retries),
    )


@pytest.mark.proves("PRN-01", "PRN-11")
@SOME
@given(program=programs(wild), way=ways(retries=2))
async def test_a_replay_sees_what_the_run_saw_in_the_same_order(program: Program, way: Way) -> None:
    life = await live(program, way)

    again = await replayed(life.log)

    assert again.saw == life.saw
    assert again.effects == []
    assert (again.log[-1].type, again.log[-1].payload) == (life.log[-1].type, life.log[-1].payload)


@SOME
@given(program=programs(wild), way=ways())
@example(program=[["scope", None, [], [["both", 0, [["flaky", 4]]]]]], way=Way(seed=0, linger_s=0.0))
async def test_each_drive_sees_first_what_the_drive_before_it_saw(program: Program, way: Way) -> None:
    life = await live(program, way)

    for before, after in pairwise(life.traces):
        seen = min(len(before), len(after)) if way.interruptions else len(before)  # interrupted while it replays
        assert after[:seen] == before[:seen]


@pytest.mark.proves("LIF-01")
@SOME
@given(program=programs(wild), way=ways(retries=2), data=st.data())
async def test_a_run_that_was_cut_off_anywhere_goes_on_and_replays(
    program: Program, way: Way, data: st.DataObject
) -> None:
    life = await live(program, way)
    length = data.draw(st.integers(1, len(life.log) - 1))

    await _cut_and_replay(life.log, length, way)


@pytest.mark.proves("SYS-05")
@SOME
@given(program=programs(calm), first=ways(), second=ways(), data=st.data())
async def test_where_it_was_cut_off_and_how_it_is_driven_changes_nothing(
    program: Program, first: Way, second: Way, data: st.DataObject
) -> None:
    life = await live(program, first)
    length = data.draw(st.integers(1, len(life.log) - 1))

    rest = await gone_on(life.log[:length], second)

    assert rest.by_place() == life.by_place()
    assert rest.asked() == life.asked()


@pytest.mark.proves("RNG-11")
@SOME
@given(program=programs(wild), way=ways(), data=st.data())
async def test_a_run_that_is_cancelled_anywhere_ends_as_cancelled_and_replays(
    program: Program, way: Way, data: st.DataObject
) -> None:
    length = len((await live(program, way)).log)
    grace_s = data.draw(st.sampled_from([0.0, 0.02, 30.0]))
    way = replace(way, cancel_at=data.draw(st.integers(0, length - 1)), grace_s=grace_s)

    life, accepted = await cancelled(program, way)

    assert (life.log[-1].type == "EXECUTION_CANCELLED") is accepted
    again = await replayed(life.log)
    assert again.saw == life.saw
    assert again.effects == []
    assert again.log[-1].type == life.log[-1].type


@pytest.mark.proves("RNG-11", "LIF-01")
@SOME
@given(program=programs(wild), way=ways(), data=st.data())
async def test_a_run_that_was_cut_off_while_it_was_being_cancelled_goes_on_to_its_end_as_cancelled(
    program: Program, way: Way, data: st.DataObject
) -> None:
    length = len((await live(program, way)).log)
    life, accepted = await cancelled(program, replace(way, cancel_at=data.draw(st.integers(0, length - 1))))
    if not accepted:
        return  # it had ended first
    [asked] = [event.sequence for event in life.log if event.type == "EXECUTION_CANCEL_REQUESTED"]
    length = data.draw(st.integers(asked + 1, len(life.log) - 1))

    rest = await gone_on(life.log[:length], way)

    assert rest.log[-1].type == "EXECUTION_CANCELLED"
    again = await replayed(rest.log)
    assert again.saw == rest.saw
    assert again.effects == []


@SOME
@given(program=programs(calm), seed=st.integers(0, 10_000))
async def test_resident_or_run_again_it_is_the_same(program: Program, seed: int) -> None:
    resident = await live(program, Way(seed=seed))
    again = await live(program, Way(seed=seed, linger_s=0.0))

    assert again.by_place() == resident.by_place()
    assert again.asked() == resident.asked()


@SOME
@given(program=programs(wild), way=ways())
async def test_nothing_of_a_run_that_is_over_is_left_running(program: Program, way: Way) -> None:
    before = asyncio.all_tasks()

    await live(program, way)

    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


@pytest.mark.proves("LIF-01")
@pytest.mark.parametrize("program", BROKEN_ONCE.values(), ids=BROKEN_ONCE)
@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("most", [pytest.param(3, id="some"), pytest.param(1_000, id="every", marks=pytest.mark.slow)])
async def test_a_program_that_once_broke_holds_wherever_it_is_cut(
    program: Program, retries: int, most: int, seed: int
) -> None:
    rng = random.Random(seed)
    for number, linger_s in enumerate([1_000.0, 0.0]):
        way = Way(seed=number, linger_s=linger_s, retries=retries)
        life = await live(program, way)

        lengths = range(1, len(life.log))
        for length in rng.sample(lengths, min(most, len(lengths))):
            await _cut_and_replay(life.log, length, way)


@pytest.mark.parametrize("name", RETRIED_ONCE)
@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 10), marks=pytest.mark.slow)], ids=str)
async def test_what_once_could_not_be_retried_can_be_and_is_replayed(name: str, seeds: range) -> None:
    for seed in seeds:
        for linger_s in (0.0, 1_000.0):
            life = await live(RETRIED_ONCE[name], Way(seed=seed, linger_s=linger_s, retries=2))

            again = await replayed(life.log)

            assert (again.saw, again.effects) == (life.saw, [])


async def _cut_and_replay(log: Any, length: int, way: Way) -> None:
    rest = await gone_on(log[:length], way)
    again = await replayed(rest.log)

    assert rest.log[:length] == log[:length]
    assert again.saw == rest.saw
    assert again.effects == []
