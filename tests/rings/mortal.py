"""A process that drives a run whose results are claimed, until it is killed: `mortal.py FOLDER RUN`.

It says a word at each of its steps and at each put and citation, so that whoever started it can kill it there.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Final

import loom
from loom.core.ids import ContentRef, ExecutionId
from loom.plugins.files import FileContent
from loom.spi.content_store import Citer

PAGES: Final = 6


def page(number: int) -> bytes:
    return random.Random(number).randbytes(20_000)


@loom.step(claim_check=loom.ClaimCheck(digest=len))
async def fetch(number: int) -> bytes:
    say("fetch")
    return page(number)


@loom.step
async def export(step: loom.StepContext, pages: list[loom.Claimed[bytes, int]]) -> loom.Claimed[bytes]:
    async def pieces() -> AsyncIterator[bytes]:
        for each in pages:
            say("piece")
            yield await step.content.get(each)

    return await step.content.stream_result(pieces())


@loom.step
async def check(step: loom.StepContext, exported: loom.Claimed[bytes]) -> bool:
    say("check")
    return await step.content.get(exported) == b"".join(map(page, range(PAGES)))


@loom.flow
async def exports(ctx: loom.Context) -> bool:
    pages = await ctx.map(fetch, range(PAGES), limit=2)
    return await ctx.run(check, await ctx.run(export, pages))


class Telling(FileContent):
    """Contents in files that say what they are about to do, and what they have done."""

    async def put(self, data: bytes) -> ContentRef:
        say("put")
        ref = await super().put(data)
        say("was put")
        return ref

    async def cite(self, cited: Collection[tuple[ContentRef, Citer]]) -> None:
        say("cite")
        await super().cite(cited)
        say("cited")


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def app_in(folder: Path, content: FileContent) -> loom.LoomApp:
    return loom.define_config(flows=[exports], storage=loom.sqlite_storage(folder / "loom.db"), content=content)


async def main(folder: str, run: str) -> None:
    async with app_in(Path(folder), Telling(Path(folder) / "contents")) as app:
        row = await app.storage.row(ExecutionId(run))
        if row is None:
            await app.runtime.start(exports, id=run)
        elif not row.index.ended:
            await app.runtime.resume(run)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
