"""Runs side by side: aligned by identity, with the first difference."""

from __future__ import annotations

from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.driving.edits import Edit
from loom.driving.runtime import WorkflowRuntime
from loom.driving.stored_log import StoredLog
from loom.lenses import comparing
from loom.lenses.comparing import Comparison, compare, comparison_json
from tests.golden import logs
from tests.kernel.running import RUN, runtime


@loom.step
async def fetch(n: int) -> int:
    return n * 10


@loom.flow
async def desk(ctx: loom.Context) -> Any:
    pages = await ctx.map(fetch, [1, 2, 3])
    answer = await ctx.suspend("approve", expects=bool)
    return [pages, answer, await ctx.run(fetch, 9) if answer else None]


async def compared(over: WorkflowRuntime, *runs: str) -> Comparison:
    return compare([StoredLog(ExecutionId(run), await over.events(run)) for run in runs])


@pytest.fixture
async def over() -> WorkflowRuntime:
    over = runtime(desk)
    await over.start(desk, id=RUN)
    await over.resume(RUN, answer=True)
    return over


@pytest.mark.proves("BEY-04")
async def test_a_fork_and_its_source_part_where_the_fork_was_edited(over: WorkflowRuntime) -> None:
    await over.fork(RUN, edit=Edit("approve", "output", False), id="no")
    await over.resume("no")

    comparison = await compared(over, RUN, "no")

    first, second = comparison.differences
    assert (first.id, first.what) == ("approve", "outcome")
    assert [side.outcome if side else None for side in first.sides] == [{"answer": True}, {"answer": False}]
    assert (second.id, second.what, second.sides[1]) == ("fetch", "missing", None)
    assert comparison.alike == 4
    assert comparison.runs[1].source is not None
    assert comparison.runs[1].shared == comparison.runs[1].source["sequence"] + 1


async def test_a_run_beside_itself_is_the_same(over: WorkflowRuntime) -> None:
    comparison = await compared(over, RUN, RUN)

    assert comparison.is_same
    assert comparison.differences == ()
    assert comparison.alike == 6


async def test_other_arguments_are_told_before_the_outcome(over: WorkflowRuntime) -> None:
    await over.fork(RUN, edit=Edit("map/1/fetch", "input", {"n": 7}), id="seven")
    await over.resume("seven")
    await over.resume("seven", answer=True)

    comparison = await compared(over, RUN, "seven")

    [difference] = comparison.differences
    assert (difference.id, difference.what) == ("map/1/fetch", "asked")
    assert [side.asked["args"] if side else None for side in difference.sides] == [{"n": 2}, {"n": 7}]


async def test_more_than_two_are_set_side_by_side(over: WorkflowRuntime) -> None:
    for name, value in (("a", 1), ("b", 2)):
        await over.fork(RUN, edit=Edit("fetch", "output", value), id=name)
        await over.resume(name)

    comparison = await compared(over, RUN, "a", "b")

    [difference] = comparison.differences
    assert [side.outcome["result"] if side else None for side in difference.sides] == [90, 1, 2]
    assert [run.result[-1] for run in comparison.runs if isinstance(run.result, list)] == [90, 1, 2]


@pytest.mark.parametrize("name", logs.names())
def test_every_golden_log_is_the_same_as_itself(name: str) -> None:
    golden = logs.read(name)
    one = StoredLog(golden.events[0].execution_id, golden.events)

    comparison = compare([one, one])

    assert comparison.is_same
    assert comparison.runs[1].shared == len(golden.events)
    assert comparison_json(comparison)["same"] is True


@pytest.mark.parametrize("name", logs.names())
def test_calls_that_are_alike_at_a_glance_are_those_that_are_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = [StoredLog(each.events[0].execution_id, each.events) for each in map(logs.read, logs.names())]
    one = told[logs.names().index(name)]
    glanced = [compare([one, other]) for other in told]

    monkeypatch.setattr(comparing, "_is_alike", lambda one, other: False)

    assert glanced == [compare([one, other]) for other in told]
