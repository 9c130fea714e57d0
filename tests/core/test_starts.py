from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import loom
from loom.core.errors import InvalidDeclaration

MINUTE = timedelta(minutes=1)


def test_a_flow_says_how_its_runs_begin() -> None:
    starts = loom.Starts(
        concurrency=loom.Limit(2, key="customer.id"),
        rate=loom.Rate(10, per=MINUTE),
        debounce=loom.Debounce(MINUTE, key="customer.id"),
        dedupe="order.id",
    )

    @loom.flow(starts=starts)
    async def ship(ctx: loom.Context, order: dict[str, Any]) -> None: ...

    assert ship.starts == starts
    assert starts.is_counted
    assert starts.paths == ("customer.id", "customer.id", "order.id")


def test_a_flow_says_nothing_of_it_by_default() -> None:
    @loom.flow
    async def ship(ctx: loom.Context) -> None: ...

    assert ship.starts is None


@pytest.mark.parametrize(
    ("declare", "told"),
    [
        (lambda: loom.Limit(0), r"Limit\(0\): a number of runs, from 1 to 10,000"),
        (lambda: loom.Limit(True), "a number of runs"),
        (lambda: loom.Limit(10_001), "from 1 to 10,000"),
        (lambda: loom.Limit(1, key="customer..id"), "'customer..id' is no path into an input"),
        (lambda: loom.Limit(1, key=""), "'' is no path"),
        (lambda: loom.Limit(1, key="$.id"), "is no path"),
        (lambda: loom.Rate(0, per=MINUTE), r"Rate\(0\)"),
        (lambda: loom.Rate(1, per=timedelta(0)), "no time that a run can be kept waiting for"),
        (lambda: loom.Rate(1, per=timedelta(days=400)), "no time that a run"),
        (lambda: loom.Debounce(timedelta(seconds=-1)), "no time that a run"),
        (loom.Starts, "declares nothing"),
        (lambda: loom.Starts(concurrency=2), r"concurrency=2\) is no loom.Limit"),  # type: ignore[arg-type]
        (lambda: loom.Starts(dedupe="an order"), "is no path"),
    ],
)
def test_what_cannot_be_kept_is_refused_where_it_is_declared(declare: Any, told: str) -> None:
    with pytest.raises(InvalidDeclaration, match=told):
        declare()


def test_a_flow_without_input_has_no_keys() -> None:
    async def sweep(ctx: loom.Context) -> None: ...

    with pytest.raises(InvalidDeclaration, match=r"the flow .*sweep takes no input, so it has no 'customer.id'"):
        loom.flow(starts=loom.Starts(concurrency=loom.Limit(1, key="customer.id")))(sweep)
    with pytest.raises(InvalidDeclaration, match=r"starts=2 is no loom.Starts"):
        loom.flow(starts=2)(sweep)  # type: ignore[call-overload]
    assert loom.flow(starts=loom.Starts(concurrency=loom.Limit(1)))(sweep).starts is not None
