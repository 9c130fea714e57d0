"""Kernel rule 11.3, tried on any program: runs of code without patches that go on under code with them, from any event on."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom.spi.event_store import EventRecord
from tests.kernel.lives import Life, gone_on, live, replayed
from tests.kernel.test_live_and_replay import Program, calm, nested, numbers, operation, racing, ways, wild

pytestmark = pytest.mark.timeout(400)  # a failing program takes its time to become small

EXAMPLES: Final = settings.default.max_examples // 4 if settings.default is not None else 12
"""Each is a run of three lives or more."""

patch = operation("patched", numbers)


def patched_programs(leaves: st.SearchStrategy[list[Any]], inner: Any) -> st.SearchStrategy[Program]:
    return st.lists(st.recursive(st.one_of(patch, leaves), inner, max_leaves=8), min_size=1, max_size=4)


def of_other_code(log: Sequence[EventRecord]) -> list[EventRecord]:
    """Return *log* as code with another fingerprint would have written it."""
    begun = orjson.loads(log[0].payload) | {"fingerprint": "1:before-the-patches"}
    return [log[0]._replace(payload=orjson.dumps(begun)), *log[1:]]


def answers(life: Life) -> set[tuple[int, bool]]:
    """Return what the last drive was answered, by the patch."""
    return {ast.literal_eval(sight.value) for sight in life.saw if sight.what == "patched"}  # our own repr


@pytest.mark.proves("BEY-11")
@settings(max_examples=EXAMPLES)
@given(program=patched_programs(wild, racing), before=ways(), after=ways(retries=1), data=st.data())
async def test_a_run_goes_on_under_patched_code_from_any_event_and_is_answered_once(
    program: Program, before: Any, after: Any, data: st.DataObject
) -> None:
    old = await live(program, replace(before, is_unpatched=True))
    length = data.draw(st.integers(1, len(old.log) - 1))

    life = await gone_on(of_other_code(old.log[:length]), after)
    again = await replayed(life.log)

    assert life.log[-1].type != "EXECUTION_DIVERGED"
    assert again.saw == life.saw
    assert again.effects == []
    assert len({name for name, _ in answers(life)}) == len(answers(life)), "a patch has one answer in a run"


@pytest.mark.proves("BEY-11")
@settings(max_examples=EXAMPLES)
@given(program=patched_programs(calm, nested), before=ways(), after=ways(), data=st.data())
async def test_what_a_run_was_answered_holds_wherever_it_is_cut_off_after_it_went_on(
    program: Program, before: Any, after: Any, data: st.DataObject
) -> None:
    old = await live(program, replace(before, is_unpatched=True))
    life = await gone_on(of_other_code(old.log[: data.draw(st.integers(1, len(old.log) - 1))]), after)
    types = [event.type for event in life.log]
    if "EXECUTION_MIGRATED" not in types:
        return  # it had nothing left to do
    length = data.draw(st.integers(types.index("EXECUTION_MIGRATED") + 1, len(life.log) - 1))

    rest = await gone_on(life.log[:length], after)

    assert rest.by_place() == life.by_place()
    assert answers(rest) == answers(life)


@pytest.mark.proves("BEY-11")
@settings(max_examples=EXAMPLES)
@given(program=patched_programs(calm, nested), first=ways(), second=ways(), data=st.data())
async def test_a_run_that_began_under_patched_code_is_answered_yes_wherever_it_is_cut_off(
    program: Program, first: Any, second: Any, data: st.DataObject
) -> None:
    life = await live(program, first)

    rest = await gone_on(life.log[: data.draw(st.integers(1, len(life.log) - 1))], second)

    assert all(applied for _, applied in answers(rest))
    assert answers(rest) == answers(life)
