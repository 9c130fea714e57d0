"""A process that runs a flow of one step and, when told to, halts right before its closing write.

As a script: `closer FOLDER STORE`. It makes the file `closing` there, waits for `go`, and prints how the run ended.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import loom
from loom.spi.event_store import Append, AppendResult, Storage
from tests.crash.places import Place

RUN = "run-1"


@loom.step
async def work() -> str:
    return "done"


@loom.flow
async def one_step(ctx: loom.Context) -> str:
    return await ctx.run(work)


def halting(storage: Storage, folder: Path) -> Storage:
    """Return *storage*, which holds the first closing write back until somebody lets it go."""
    append, closing, go = storage.append, folder / "closing", folder / "go"

    async def halts(batch: Sequence[Append]) -> Sequence[AppendResult]:
        if any(item.index.ended or item.lane_kinds for item in batch) and not closing.exists():
            closing.touch()
            while not go.exists():
                await asyncio.sleep(0.01)
        return await append(batch)

    storage.append = halts  # type: ignore[method-assign]  # whichever store it is
    return storage


async def main(place: Place) -> None:
    app = loom.define_config(flows=[one_step], storage=halting(place.storage(), place.folder))
    async with app:
        outcome = await app.runtime.start(one_step, id=RUN)
    sys.stdout.write(f"{outcome.status} {outcome.value}\n")


if __name__ == "__main__":
    asyncio.run(main(Place(Path(sys.argv[1]), sys.argv[2])))
