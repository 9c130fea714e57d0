"""A step writes a result that is larger than memory while it runs, and the envelope is what it returns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import loom
from loom.spi.content_memory import MemoryContent
from loom.spi.content_store import address_of
from tests.rings.contents import all_refs, app_of

STREAMER = Path(__file__).with_name("streamer.py")
ROOT = Path(__file__).parents[2]


def streamed(folder: Path, megabytes: int) -> dict[str, Any]:
    """Return what a process says that has streamed so much."""
    command = [sys.executable, str(STREAMER), str(folder), str(megabytes)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.proves("EFF-11")
def test_64_megabytes_are_streamed_and_the_process_grows_by_less_than_40(tmp_path: Path) -> None:
    done = streamed(tmp_path, 64)

    assert (done["size"], done["same"]) == (64 << 20, True)
    assert done["grown_kb"] < 40 * 1024, done


@pytest.mark.slow
@pytest.mark.proves("EFF-11")
@pytest.mark.timeout(600)
def test_two_gigabytes_are_streamed_by_a_process_of_less_than_200_megabytes(tmp_path: Path) -> None:
    done = streamed(tmp_path, 2048)

    assert (done["size"], done["same"]) == (2 << 30, True)
    assert done["peak_kb"] < 200 * 1024, done


@loom.step
async def export(step: loom.StepContext, lines: int) -> loom.Claimed[bytes, dict[str, int]]:
    count = 0

    async def text() -> AsyncIterator[bytes]:
        nonlocal count
        for number in range(lines):
            count += 1
            yield b"line %d\n" % number

    return (await step.content.stream_result(text())).with_digest({"lines": count})


@loom.flow
async def exports(ctx: loom.Context, lines: int) -> str:
    exported = await ctx.run(export, lines)
    return f"{exported.digest['lines']} lines in {exported.ref}"


@pytest.mark.proves("EFF-11")
async def test_what_was_counted_while_streaming_is_the_digest() -> None:
    outcome = await app_of(exports).runtime.start(exports, 3)

    whole = b"line 0\nline 1\nline 2\n"
    assert outcome.result() == f"3 lines in {address_of(whole)}"


async def test_a_stream_that_breaks_fails_the_step_and_keeps_nothing() -> None:
    @loom.step
    async def breaks(step: loom.StepContext) -> loom.Claimed[bytes]:
        async def half() -> AsyncIterator[bytes]:
            yield b"half"
            raise ConnectionError("the source is gone")

        return await step.content.stream_result(half())

    @loom.flow
    async def tries(ctx: loom.Context) -> str:
        try:
            await ctx.run(breaks)
        except loom.StepFailed as failed:
            return failed.record.message
        return "kept"

    content = MemoryContent()
    outcome = await app_of(tries, content=content).runtime.start(tries)

    assert outcome.result() == "the source is gone"
    assert await all_refs(content) == []
