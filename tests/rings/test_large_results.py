"""Field fault 30: results of 8 KB, 5 MB and 60 MB go through, and what is larger is an error at the step that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.spi.limits import ENTRY_BYTES_MAX, EntryTooLarge
from loom.spi.memory import MemoryStorage
from loom.values.sizes import VALUE_BYTES_MAX, ValueTooLarge
from tests.rings.contents import app_of, log_bytes, log_of

KB, MB = 1_000, 1_000_000
SIZES = [8 * KB, 5 * MB, 60 * MB]


@loom.step
async def write(size: int) -> str:
    return "x" * size


@loom.step(claim_check=loom.ClaimCheck(digest=len))
async def write_elsewhere(size: int) -> str:
    return "x" * size


@loom.flow
async def writes(ctx: loom.Context, size: int) -> int:
    text = await ctx.run(write, size)
    await ctx.suspend("go on")
    return len(text)


@loom.flow
async def writes_elsewhere(ctx: loom.Context, size: int) -> int:
    text = await ctx.run(write_elsewhere, size)
    await ctx.suspend("go on")
    return text.digest


@loom.step
async def read(text: str) -> int:
    return len(text)


@loom.flow
async def hands_on(ctx: loom.Context, size: int) -> int:
    return await ctx.run(read, "x" * size)


@loom.flow
async def takes_text(ctx: loom.Context, text: str) -> int:
    return len(text)


async def has_a_life(app: loom.LoomApp, flow: str, size: int) -> None:
    """Hold that a run whose step returns *size* bytes parks, is read by the page, replays and ends."""
    run = f"{flow}-{size}"
    assert (await app.runtime.start(flow, size, id=run)).status == "suspended"
    pages = 0
    sequence = 0
    while page := await app.storage.read(ExecutionId(run), start=sequence, limit_bytes=1 << 20):
        pages, sequence = pages + 1, page[-1].sequence + 1
    assert (await app.runtime.resume(run, answer=None)).result() == size
    assert pages >= (2 if flow == "writes" and size > MB else 1)
    if flow == "writes_elsewhere":
        assert await log_bytes(app, run) < 2_000


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("flow", ["writes", "writes_elsewhere"])
async def test_a_large_result_is_kept_read_by_the_page_and_replayed(flow: str, size: int, tmp_path: Path) -> None:
    async with app_of(writes, writes_elsewhere, storage=loom.sqlite_storage(tmp_path / "loom.db")) as app:
        await has_a_life(app, flow, size)


async def test_a_result_that_is_too_large_fails_its_step_and_says_what_to_do() -> None:
    tries: list[int] = []

    @loom.step(retry=loom.Retry(attempts=5))
    async def too_much() -> str:
        tries.append(1)
        return "x" * VALUE_BYTES_MAX

    @loom.flow
    async def catches(ctx: loom.Context) -> str:
        try:
            return await ctx.run(too_much)
        except loom.StepFailed as failed:
            return failed.record.message

    outcome = await app_of(catches).runtime.start(catches)

    assert "takes 67,108,866 bytes on the log, more than 67,108,864" in outcome.result()
    assert "claim_check=loom.ClaimCheck()" in outcome.result()
    assert "stream_result" in outcome.result()
    assert tries == [1]


async def test_an_argument_fails_the_run_and_an_input_is_refused_where_it_is_too_large_and_neither_is_written() -> None:
    storage = MemoryStorage()
    app = app_of(hands_on, takes_text, storage=storage)

    outcome = await app.runtime.start(hands_on, VALUE_BYTES_MAX, id="r1")
    with pytest.raises(ValueTooLarge, match="input of takes_text: takes 67,108,866 bytes") as refused:
        await app.runtime.start(takes_text, "x" * VALUE_BYTES_MAX, id="r2")

    assert "arguments of read: takes 67,108,875 bytes on the log, more than 67,108,864" in str(outcome.failure)
    assert "claim_check=loom.ClaimCheck()" in refused.value.hint
    assert [event.type for event in await log_of(app, "r1")] == ["EXECUTION_STARTED", "EXECUTION_FAILED"]
    assert await storage.head(ExecutionId("r2")) is None


async def test_a_message_that_is_too_large_is_refused() -> None:
    app = app_of(writes)
    await app.runtime.start(writes, 5, id="r1")

    with pytest.raises(EntryTooLarge, match="what is sent to r1: takes"):
        await app.runtime.send("r1", "letters", "x" * ENTRY_BYTES_MAX)
