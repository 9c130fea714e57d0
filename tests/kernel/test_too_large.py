"""What is larger than a log takes is an error where it is handed over, alike live and replayed, and never a run that is stuck."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Any, Literal

import pytest

import loom
from loom.kernel import journal
from loom.spi.memory import MemoryStorage
from loom.values import sizes
from tests.kernel.running import RUN, kinds, payloads, runtime

VALUE_MAX, ENTRY_MAX = 10_000, 11_000
LARGE = "x" * VALUE_MAX
MOST = "x" * (VALUE_MAX - 1_000)
asked: list[Callable[[Any], Any]] = []
refused: list[str] = []


@pytest.fixture(autouse=True)
def _small_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    refused.clear()
    monkeypatch.setattr(sizes, "VALUE_BYTES_MAX", VALUE_MAX)
    monkeypatch.setattr(journal, "ENTRY_BYTES_MAX", ENTRY_MAX)


@loom.step
async def take(text: Any) -> int:
    return len(text)


@loom.tool
async def named(text: str) -> int:
    return len(text)


@loom.flow
async def takes(ctx: loom.Context, text: str) -> int:
    return len(text)


@loom.flow
async def asks(ctx: Any, text: str = "") -> str:
    try:
        await asked[0](ctx)
    except Exception as error:  # noqa: BLE001  # whatever it raises, it has to be the same at each replay
        refused.append(f"{type(error).__name__}: {error}")
    how: str = await ctx.run("goes on", str, "on")
    await ctx.suspend("stop")
    return how


Wide = Literal[tuple(f"{n:0>20}" for n in range(100))]  # type: ignore[valid-type]  # a type whose schema is large


async def nothing(ctx: Any) -> None: ...


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "an argument": (lambda ctx: ctx.run(take, LARGE), "arguments of take"),
    "parts of an argument": (lambda ctx: ctx.run(take, [LARGE[:9], {"a": [LARGE]}]), "arguments of take"),
    "characters that are escaped": (lambda ctx: ctx.run(take, "\x01" * (VALUE_MAX // 6)), "arguments of take"),
    "an argument of a function": (lambda ctx: ctx.run("f", take.fn, LARGE), "arguments of f"),
    "an argument of a tool": (lambda ctx: ctx.execute("named", {"text": LARGE}), "arguments of named"),
    "an argument under a key": (lambda ctx: ctx.run(take.keyed("k"), LARGE), "arguments of take"),
    "what is shown": (lambda ctx: ctx.suspend("g", show=LARGE), "show of g"),
    "what is shown and the type": (lambda ctx: ctx.suspend("g", show=MOST, expects=Wide), "show of g"),
    "what is emitted": (lambda ctx: ctx.emit("e", [LARGE]), "data of e"),
    "candidates": (lambda ctx: ctx.decide("d", len, [LARGE]), "candidates of d"),
    "names of branches": (lambda ctx: ctx.parallel({f"{n:0>199}": nothing for n in range(60)}), "branches of parallel"),
    "the next input": (lambda ctx: ctx.continue_as_new(LARGE), "input of asks"),
    "the input of a child": (lambda ctx: loom.spawn(ctx, takes, LARGE), "input of takes"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_is_too_large_is_caught_by_the_flow_alike_live_and_replayed(case: str) -> None:
    asked[:], storage = [REFUSED[case][0]], MemoryStorage()

    first = await runtime(asks, takes, storage=storage, steps=[named]).start(asks, id=RUN)
    second = await runtime(asks, takes, storage=storage, steps=[named]).resume(RUN, answer=1, gate="stop")

    assert (first.status, second.value) == ("suspended", "on")
    assert len(refused) == 2
    assert refused[0] == refused[1]
    assert refused[0].startswith(f"ValueTooLarge: {REFUSED[case][1]}: takes 1"), refused[0][:200]


@pytest.mark.parametrize(
    "text", ["x" * (VALUE_MAX // 6 - 100), "x" * (VALUE_MAX - 20), "\u20ac" * (VALUE_MAX // 3 - 20)]
)
async def test_what_is_not_too_large_is_taken_however_close(text: str) -> None:
    asked[:] = [lambda ctx: ctx.run(take, text)]

    await runtime(asks).start(asks, id=RUN)

    assert refused == []


@loom.flow
async def returns(ctx: loom.Context) -> Any:
    return [await ctx.run(take, "four"), LARGE]


async def test_a_flow_whose_result_is_too_large_fails_in_words() -> None:
    over = runtime(returns)

    outcome = await over.start(returns, id=RUN)

    assert outcome.status == "failed"
    assert "result of returns: takes 10,006 bytes on the log, more than 10,000. Hand on an envelope" in str(
        outcome.failure
    )


async def pieces() -> AsyncIterator[str]:
    for _ in range(3):
        yield MOST


@loom.flow
async def records(ctx: loom.Context, which: str) -> str:
    try:
        if which == "stream":
            await ctx.stream("s", pieces())
        else:
            await ctx.decide("d", lambda _: MOST, [MOST])
    except loom.DecisionFailed as failed:
        return failed.record.message
    return ""


@pytest.mark.parametrize("which", ["stream", "decision"])
async def test_an_outcome_that_is_too_large_as_a_whole_is_recorded_as_a_failure(which: str) -> None:
    over = runtime(records)

    outcome = await over.start(records, which, id=RUN)

    assert "that one entry of a log may" in outcome.result()
    assert (await kinds(over))[0::2] == ["STARTED", "COMPLETED"]


@loom.flow
async def waits(ctx: loom.Context) -> list[int]:
    answer = await ctx.suspend("g", expects=list[Decimal])
    message = await ctx.receive("t", expects=list[Decimal])
    return [len(answer), len(message)]


async def test_an_answer_that_takes_too_much_once_it_is_read_is_refused_and_such_a_message_dropped() -> None:
    over = runtime(waits)
    await over.start(waits, id=RUN)
    grows: Any = ["1.50"] * 1_000

    with pytest.raises(sizes.ValueTooLarge, match="answer of g: takes"):
        await over.resume(RUN, answer=grows)
    await over.resume(RUN, answer=["1.50"])
    await over.send(RUN, "t", grows)
    outcome = await over.send(RUN, "t", ["1.50"] * 2)

    assert outcome.value == [1, 2]
    dropped = await payloads(over, "REQUEST_DROPPED")
    assert [each.kind for each in dropped] == ["message"]
    assert "that one entry of a log may" in dropped[0].reason
