"""What is no ordinary exception: an effect or a flow that exits, is cancelled from inside, or raises a signal of its own."""

from __future__ import annotations

import asyncio
import sys

import pytest

import loom
from tests.kernel.running import RUN, runtime


class Panic(BaseException):
    """As native extensions raise it."""


@loom.step
async def gives_up(how: str) -> int:
    if how == "panic":
        raise Panic("native code gave up")
    if how == "exit":
        sys.exit(5)
    if how == "cancelled":
        inner = asyncio.ensure_future(asyncio.sleep(9))
        inner.cancel()
        await inner
    error = ExceptionGroup("several", [ValueError("first"), KeyError("second")])
    error.add_note("seen at noon")
    raise error


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("panic", "test_exits.Panic: native code gave up"),
        ("exit", "SystemExit: 5"),
        ("cancelled", "loom.CancelledInside: something that it awaited was cancelled"),
        ("group", "ValueError: first; KeyError: 'second'\nseen at noon"),
    ],
)
async def test_whatever_a_step_raises_is_its_failure_and_is_told(how: str, told: str) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> int:
        return await ctx.run(gives_up, how)

    outcome = await runtime(flow).start(flow, id=RUN)

    assert outcome.status == "failed"
    assert told in str(outcome.failure)


async def test_a_flow_that_exits_has_failed_and_the_process_goes_on() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> int:
        async def branch(ctx: loom.Context) -> int:
            sys.exit("enough")

        await ctx.parallel(branch)
        return 1

    outcome = await runtime(flow).start(flow, id=RUN)

    assert outcome.status == "failed"
    assert "sys.exit('enough') was called in the flow" in str(outcome.failure)


async def test_a_cause_that_cannot_be_read_is_left_out() -> None:
    class Broken(Exception):
        @property
        def __cause__(self) -> BaseException | None:  # type: ignore[override]  # as some libraries have it
            raise RuntimeError("not to be looked at")

    @loom.step
    async def breaks() -> None:
        raise Broken("told all the same")

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.run(breaks)

    outcome = await runtime(flow).start(flow, id=RUN)

    assert "told all the same" in str(outcome.failure)
