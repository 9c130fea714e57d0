from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import loom
from tests.kernel.running import RUN, cut_off_after, kinds, payloads, records, runtime


async def words(*given: Any) -> AsyncIterator[Any]:
    for word in given:
        await asyncio.sleep(0)
        yield word


@loom.flow
async def tells(ctx: loom.Context) -> list[Any]:
    await ctx.emit("order.placed", {"n": 1})
    first = await ctx.suspend("one", expects=int)
    await ctx.emit("order.placed", {"n": 1})
    second = await ctx.suspend("two", expects=int)
    return [first, second]


@pytest.mark.proves("SYS-12", "KER-18")
async def test_an_event_is_made_once_however_often_the_flow_runs_again() -> None:
    over = runtime(tells)
    outcome = await over.start(tells, id=RUN)
    for answer in (1, 2):
        await runtime(tells, storage=over.storage).resume(RUN)
        outcome = await runtime(tells, storage=over.storage).resume(RUN, answer=answer)

    assert outcome.value == [1, 2]
    made = await payloads(over, "user.order.placed")
    assert [(event.id, event.data) for event in made] == [("order.placed", {"n": 1}), ("order.placed#1", {"n": 1})]


async def test_cut_off_after_each_event_the_events_are_still_made_once() -> None:
    over = runtime(tells)
    await over.start(tells, id=RUN)
    await over.resume(RUN, answer=1)
    await over.resume(RUN, answer=2)

    for length in range(1, len(await records(over.storage))):
        left = runtime(tells, storage=await cut_off_after(over.storage, length))
        outcome = await left.resume(RUN)
        for answer in (1, 2):
            if outcome.status == "suspended":
                outcome = await left.resume(RUN, answer=answer)
        assert outcome.status == "completed"
        assert (await kinds(left)).count("user.order.placed") == 2


async def test_other_data_for_a_recorded_event_is_a_divergence() -> None:
    draws = iter([1, 2])

    @loom.flow
    async def flow(ctx: loom.Context) -> Any:
        await ctx.emit("drawn", next(draws))
        return await ctx.suspend("end")

    over = runtime(flow)
    await over.start(flow, id=RUN)

    with pytest.raises(loom.LoomError) as refused:
        await runtime(flow, storage=over.storage).resume(RUN, answer=1)

    assert refused.value.code == "replay-divergence"


@pytest.mark.proves("SYS-13")
async def test_pieces_go_out_live_and_are_recorded_once() -> None:
    heard: list[tuple[str, str, Any]] = []

    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        return [await ctx.stream("words", words("a", {"b": 1})), await ctx.suspend("end")]

    def process(storage: Any = None) -> Any:
        return runtime(flow, storage=storage, on_stream=lambda *piece: heard.append(piece))

    over = process()
    await over.start(flow, id=RUN)
    outcome = await process(over.storage).resume(RUN, answer=1)

    assert outcome.value == [["a", {"b": 1}], 1]
    assert heard == [(RUN, "words", "a"), (RUN, "words", {"b": 1})]
    [fact] = await payloads(over, "STREAM_SETTLED")
    assert fact.chunks == ["a", {"b": 1}]


async def test_a_stream_that_breaks_off_is_a_recorded_failure() -> None:
    async def breaks() -> AsyncIterator[str]:
        yield "a"
        raise ConnectionError("gone")

    @loom.flow
    async def flow(ctx: loom.Context) -> list[Any]:
        try:
            await ctx.stream("words", breaks())
        except loom.DecisionFailed as error:
            return [error.record.type, await ctx.suspend("end")]
        return []

    over = runtime(flow)
    await over.start(flow, id=RUN)
    outcome = await runtime(flow, storage=over.storage).resume(RUN, answer=1)

    assert outcome.value == ["ConnectionError", 1]
