"""Whatever a saga does, wherever it is cut off: all of it is undone or nothing, in reverse, once each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.coordination.saga_programs import settled, told
from tests.kernel.lives import Way, gone_on, live, replayed
from tests.kernel.test_live_and_replay import operation, ways

Program = list[Any]

pytestmark = pytest.mark.timeout(400)

HOW = st.sampled_from(["well", "well", "flaky", "fails"])
doings = operation("do", HOW, HOW)
others = st.one_of(operation("run", st.integers(0, 3)), operation("gate", None), operation("sleep", st.integers(0, 50)))
leaves = st.one_of(doings, doings, doings, others, operation("raise"))


def nested(inner: st.SearchStrategy[list[Any]]) -> st.SearchStrategy[list[Any]]:
    block = st.lists(inner, min_size=1, max_size=4)
    return st.one_of(operation("saga", block), operation("catch", block), operation("loop", st.integers(1, 2), block))


sagas = operation(
    "catch", st.lists(operation("saga", st.lists(st.recursive(leaves, nested, max_leaves=8), max_size=5)), max_size=2)
)
programs = st.lists(sagas, min_size=1, max_size=2)
well = operation("do", st.just("well"), HOW)
side_by_side = operation("parallel", st.lists(st.lists(well, max_size=3), min_size=1, max_size=3))


@pytest.mark.proves("CMP-14")
@given(program=programs, way=ways())
async def test_all_that_was_done_is_undone_in_reverse_or_nothing_is(program: Program, way: Way) -> None:
    life = await live(program, way)

    for saga in told(life.log).values():
        assert saga.undone in ([], saga.done[::-1])


@pytest.mark.proves("CMP-14")
@given(done=st.lists(st.one_of(well, side_by_side), max_size=4), way=ways())
async def test_what_branches_did_is_undone_as_well(done: Program, way: Way) -> None:
    life = await live([["catch", [["saga", [*done, ["raise"]]]]]], way)

    for saga in told(life.log).values():
        assert sorted(saga.undone) == sorted(saga.done)
        assert len(set(saga.undone)) == len(saga.undone)


@pytest.mark.proves("CMP-14")
@given(program=programs, way=ways(), data=st.data())
async def test_wherever_it_is_cut_off_nothing_is_undone_twice_and_a_replay_sees_the_same(
    program: Program, way: Way, data: st.DataObject
) -> None:
    life = await live(program, way)
    length = data.draw(st.integers(1, len(life.log) - 1))

    rest = await gone_on(life.log[:length], way)
    again = await replayed(rest.log)

    assert settled(life.log[:length]).isdisjoint(rest.effects)
    assert told(rest.log) == told(life.log)
    assert again.saw == rest.saw
    assert again.effects == []


block = st.lists(st.one_of(operation("saga", st.lists(leaves, max_size=4)), others), max_size=3)
blocks = st.lists(block, min_size=2, max_size=3)
races = st.one_of(
    operation("parallel", blocks),
    operation("select", blocks),
    operation("first of", st.integers(1, 2), blocks),
    operation("any", blocks),
    operation("scope", st.integers(0, 60), st.lists(block, max_size=2), block),
)
races_in_races = st.recursive(
    races,
    lambda inner: operation("parallel", st.lists(st.lists(inner, max_size=2), min_size=1, max_size=2)),
    max_leaves=3,
)


@pytest.mark.proves("CMP-14")
@given(raced=st.lists(races_in_races, min_size=1, max_size=2), way=ways(), data=st.data())
async def test_a_saga_whose_branch_is_cut_has_undone_all_or_nothing_too_wherever_it_is_cut_off(
    raced: Program, way: Way, data: st.DataObject
) -> None:
    life = await live([["catch", raced]], way)
    length = data.draw(st.integers(1, len(life.log) - 1))

    rest = await gone_on(life.log[:length], way)
    again = await replayed(rest.log)

    assert settled(life.log[:length]).isdisjoint(rest.effects)
    for saga in (*told(life.log).values(), *told(rest.log).values()):
        # also what was to be done when the scope was closing already, and was not begun any more
        assert not saga.undone or saga.undone[max(0, len(saga.undone) - len(saga.done)) :] == saga.done[::-1]
    assert again.saw == rest.saw
    assert again.effects == []
