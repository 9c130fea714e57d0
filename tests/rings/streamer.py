"""A process of its own whose step streams a large result: `streamer.py FOLDER MEGABYTES`.

It prints, as one line of JSON, how large the result is, whether reading it back gives the same, and by how many kilobytes the
process had grown at most since the flow began.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import resource
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import loom

MB: Final = 1 << 20


async def rows(megabytes: int) -> AsyncIterator[bytes]:
    for number in range(4 * megabytes):
        yield number.to_bytes(8, "big") * (MB // 4 // 8)


@loom.step
async def export(step: loom.StepContext, megabytes: int) -> loom.Claimed[bytes, int]:
    kept = await step.content.stream_result(rows(megabytes))
    return kept.with_digest(megabytes)


@loom.step
async def check(step: loom.StepContext, exported: loom.Claimed[bytes, int]) -> bool:
    wanted, found = hashlib.sha256(), hashlib.sha256()
    async for piece in rows(exported.digest):
        wanted.update(piece)
    async for piece in step.content.stream(exported):
        found.update(piece)
    return wanted.digest() == found.digest()


@loom.flow
async def exports(ctx: loom.Context, megabytes: int) -> list[int]:
    exported = await ctx.run(export, megabytes)
    return [exported.size, await ctx.run(check, exported)]


def peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def main(folder: str, megabytes: str) -> None:
    async with loom.define_config(flows=[exports], storage=loom.sqlite_storage(Path(folder) / "loom.db")) as app:
        await app.runtime.start(exports, 1)
        before = peak_kb()
        size, same = (await app.runtime.start(exports, int(megabytes))).result()
    sys.stdout.write(json.dumps({"size": size, "same": same, "grown_kb": peak_kb() - before, "peak_kb": peak_kb()}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
