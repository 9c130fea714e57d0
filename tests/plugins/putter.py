"""A process of its own that puts contents until it is killed: `putter.py KIND PLACE SEED`.

It says `piece` before each piece of a stream, and `kept REF` once a content is acknowledged. Whoever started it kills it while it is
at work (`killed`), and then all that was acknowledged is there, and all that is there is whole (`faults`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from loom.core.ids import ContentRef, ExecutionId, Incarnation
from loom.plugins.files import FileContent
from loom.plugins.postgres import PostgresContent
from loom.plugins.sqlite import SqliteContent
from loom.spi.content_store import PIECE_BYTES_MAX, Citer, ContentStore, address_of

ROOT: Final = Path(__file__).parents[2]
SAYS_MAX: Final = 40


KINDS: Final[dict[str, Callable[[str], ContentStore]]] = {
    "files": FileContent,
    "sqlite": SqliteContent,
    "postgres": PostgresContent,
}


async def pieces(rng: random.Random) -> AsyncIterator[bytes]:
    for _ in range(rng.randrange(1, 5)):
        say("piece")
        yield rng.randbytes(rng.randrange(1, 2 * PIECE_BYTES_MAX))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def put_for_ever(store: ContentStore, rng: random.Random) -> None:
    citer = Citer(ExecutionId("run-1"), Incarnation(1))
    while True:
        if rng.random() < 0.5:
            ref = (await store.put_stream(pieces(rng))).ref
        else:
            say("piece")
            ref = await store.put(rng.randbytes(rng.randrange(1, 3 * PIECE_BYTES_MAX)))
        await store.cite([(ref, citer)])
        say(f"kept {ref}")


def killed(kind: str, place: str, *, seed: int) -> list[ContentRef]:
    """Start a putter, kill it by SIGKILL at a moment that *seed* decides, and return what it had acknowledged."""
    rng = random.Random(seed)
    command = [sys.executable, __file__, kind, place, str(seed)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = [process.stdout.readline().strip() for _ in range(rng.randrange(1, SAYS_MAX))]
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(rng.random() * 0.004)  # some way into what it says it does
    process.kill()
    said += [line.strip() for line in process.stdout if line.endswith("\n")]
    process.stdout.close()
    assert process.wait(10) == -9, said
    return [ContentRef(line.split()[1]) for line in said if line.startswith("kept")]


async def faults(store: ContentStore, acknowledged: list[ContentRef]) -> list[str]:
    """Return what is wrong with a store whose putters were killed."""
    found = []
    there = [content.ref for content in await store.contents(limit=100_000)]
    cited = {citation.ref for citation in await store.citations(there)}
    for ref in there:
        data = (await store.get_many([ref]))[ref]
        streamed = b"".join([piece async for piece in store.stream(ref)])
        if not address_of(data) == address_of(streamed) == ref:
            found.append(f"{ref} holds {len(data)} and {len(streamed)} bytes, which are not its own")
    found += [f"{ref} was acknowledged and is gone" for ref in acknowledged if ref not in there]
    found += [f"{ref} was cited and is not" for ref in acknowledged if ref not in cited]
    return found


async def main(kind: str, place: str, seed: str) -> None:
    await put_for_ever(KINDS[kind](place), random.Random(int(seed)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
