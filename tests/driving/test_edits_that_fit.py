"""What is put into a fork fits the call that it is for, or is refused; where nobody could tell, the fork says what was wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import loom
from loom.core.json import Json
from loom.driving.edits import Edit
from loom.driving.replaying import Replayer
from loom.driving.runtime import WorkflowRuntime
from loom.driving.verdicts import Verdict
from loom.spi import ExecutionId
from loom.values import InvalidPayload, RecordUnreadable
from tests.kernel.running import RUN, kinds, records, runtime


@dataclass(frozen=True)
class Quote:
    sku: str
    cents: int


asked: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_was_asked() -> None:
    asked.clear()


@loom.step
async def price(sku: str, count: int = 1) -> Quote:
    asked.append((sku, count))
    return Quote(sku, 100 * count)


@loom.step
async def call_off() -> None:
    asked.append("called off")


@loom.flow
async def shop(ctx: loom.Context) -> Any:
    quote = await ctx.run(price, "a")
    try:
        answer = await ctx.suspend("approve", expects=Quote)
        sent = await ctx.receive("news", expects=int)
        choice = await ctx.decide("pick", lambda given: given[0], ["x", "y"])
    except loom.Cancelled:
        await ctx.run(call_off)
        raise
    return [quote.cents, answer.cents, sent, choice]


async def done() -> WorkflowRuntime:
    over = runtime(shop)
    await over.start(shop, id=RUN)
    await over.send(RUN, "news", 7)
    await over.resume(RUN, answer={"sku": "b", "cents": 2})
    return over


def without_code(over: WorkflowRuntime) -> WorkflowRuntime:
    return runtime(storage=over.storage)


async def verdict(over: WorkflowRuntime, run: str) -> Verdict:
    return (await Replayer({"shop": shop}).replay(run, await records(over.storage, run))).verdict


@pytest.mark.parametrize(
    ("edit", "paths"),
    [
        (Edit("price", "output", {"sku": 1}), ["sku", "cents"]),
        (Edit("approve", "output", {"sku": "x"}), ["cents"]),
        (Edit("news", "output", "many"), ["value"]),
        (Edit("pick", "output", {"$type": "no.such:Thing", "fields": {}}), ["value"]),
        (Edit("price", "input", {"sku": 5, "colour": "red"}), ["colour", "sku"]),
    ],
    ids=["result", "answer", "message", "choice", "arguments"],
)
async def test_what_does_not_fit_is_refused_field_by_field_and_nothing_is_written(edit: Edit, paths: list[str]) -> None:
    over = await done()

    with pytest.raises(InvalidPayload) as refused:
        await over.fork(RUN, edit=edit, id="fork")

    assert [problem.path for problem in refused.value.problems] == paths
    assert await over.storage.row(ExecutionId("fork")) is None
    assert asked == [("a", 1)]


@pytest.mark.parametrize(
    ("edit", "result"),
    [
        (Edit("price", "output", {"sku": "a", "cents": 5}), [5, 2, 7, "x"]),
        (Edit("price", "input", {"count": 3}), [300, 2, 7, "x"]),
        (Edit("approve", "output", {"sku": "a", "cents": 5}), [100, 5, 7, "x"]),
        (Edit("news", "output", 9), [100, 2, 9, "x"]),
        (Edit("pick", "output", "y"), [100, 2, 7, "y"]),
    ],
    ids=["result", "arguments", "answer", "message", "choice"],
)
async def test_what_fits_is_what_the_fork_goes_on_with(edit: Edit, result: Json) -> None:
    over = await done()

    await over.fork(RUN, edit=edit, id="fork", reuse="live")

    assert (await over.resume("fork")).value == result


async def test_where_no_code_is_at_hand_the_fork_says_whose_value_does_not_fit() -> None:
    over = await done()
    await without_code(over).fork(RUN, edit=Edit("price", "output", {"sku": "x"}), id="fork")

    with pytest.raises(RecordUnreadable, match="given to price of the fork fork does not fit") as refused:
        await over.resume("fork")

    assert f"loom fork {RUN} --output price --value" in refused.value.hint


async def test_a_fork_that_nobody_has_driven_is_cancelled_without_its_code_whatever_it_was_given() -> None:
    over = await done()
    await without_code(over).fork(RUN, edit=Edit("price", "output", {"sku": "x"}), id="unfit")
    await over.fork(RUN, at=3, id="fit")

    cancelled = [await over.cancel(each, reason="no use") for each in ("unfit", "fit")]

    assert [outcome.status for outcome in cancelled] == ["cancelled", "cancelled"]
    assert (await kinds(over, "fit"))[-2:] == ["FORKED", "CANCELLED"]
    assert asked == [("a", 1)]  # a fork has done nothing yet that its flow could call off
    assert (await verdict(over, "fit")).is_fine
