"""Slips that newcomers make: each is told where it happened, and nothing is hidden behind another word."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

import loom
from loom.core.errors import StepNotDurable, SyscallNotAwaited
from loom.driving.errors import ExecutionNotFound
from loom.kernel.errors import ReplayDivergence
from loom.values import RecordUnreadable
from tests.kernel.running import RUN, runtime


@loom.step
async def one(x: int) -> int:
    return x


async def test_an_error_of_changed_code_is_named_where_it_keeps_a_record_from_being_asked() -> None:
    def version(is_broken: bool) -> loom.Flow[[int], int]:
        @loom.flow(id="changing")
        async def flow(ctx: loom.Context, n: int) -> int:
            if is_broken:
                raise NameError("name 'undefined' is not defined")
            await ctx.run(one, n)
            return await ctx.suspend("go", expects=int)

        return flow

    over = runtime(version(is_broken=False))
    await over.start("changing", 1, id=RUN)

    with pytest.raises(ReplayDivergence, match=r"The flow raised NameError first: name 'undefined'.*test_slips.py"):
        await runtime(version(is_broken=True), storage=over.storage).resume(RUN, answer=1)


async def test_an_input_that_its_type_no_longer_takes_is_told_as_that() -> None:
    @loom.flow(id="typed")
    async def before(ctx: loom.Context, whole: dict[str, int]) -> int:
        return await ctx.suspend("go", expects=int)

    @loom.flow(id="typed")
    async def after(ctx: loom.Context, whole: loom.Retry) -> int:
        return await ctx.suspend("go", expects=int)

    over = runtime(before)
    await over.start(before, {"a": 1}, id=RUN)

    with pytest.raises(RecordUnreadable):
        await runtime(after, storage=over.storage).resume(RUN, answer=1)


async def test_a_step_called_bare_in_a_flow_is_warned_of_and_nowhere_else() -> None:
    @loom.step
    async def outer() -> int:
        return int(await one(2))

    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        return await one(1), await ctx.run(outer)

    with pytest.warns(StepNotDurable, match="one was called as a plain function in a flow") as warned:
        outcome = await runtime(flow).start(flow, id=RUN)

    assert (outcome.value, len(warned)) == ((1, 2), 1)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
async def test_a_syscall_that_is_never_awaited_is_named() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> int:
        ctx.run(one, 1)  # type: ignore[unused-coroutine]  # the slip itself
        return 1

    with pytest.warns(
        SyscallNotAwaited, match="one of run-1 was called and never awaited, so it did not happen: write await"
    ):
        await runtime(flow).start(flow, id=RUN)


async def test_waiting_for_what_does_not_exist_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loom.driving.waiting.APPEARS_S", 0.01)

    @loom.flow
    async def flow(ctx: loom.Context) -> int:
        return 1

    with pytest.raises(ExecutionNotFound):
        await asyncio.wait_for(runtime(flow).wait("nobody"), 5)


async def test_an_option_that_start_does_not_take_is_refused() -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> int:
        return 1

    with pytest.raises(TypeError, match=r"start\(\) takes no linger"):
        await runtime(flow).start(flow, linger=3)  # type: ignore[call-overload]  # the slip itself


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1, 7), r"^one\(x: int\) takes 1 argument, 2 were given$"),
        ((), r"^one\(x: int\): missing a required argument: 'x'$"),
    ],
)
async def test_arguments_that_do_not_fit_a_step_are_told_by_its_signature_and_not_by_what_binds_them(
    arguments: tuple[Any, ...], words: str
) -> None:
    @loom.flow
    async def flow(ctx: loom.Context) -> int:
        return await ctx.run(one, *arguments)

    failure = (await runtime(flow).start(flow, id=RUN)).failure

    assert failure is not None
    assert re.search(words, failure.message)
    assert "inspect" not in failure.traceback
