"""A process that runs a flow of one step and, when told to, halts right before its closing write.

As a script: `closer STORE`. It makes the file `STORE.closing` there, waits for `STORE.go`, and prints how the run ended.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import loom
from loom.plugins.sqlite import SqliteStorage
from loom.spi.event_store import Append, AppendResult

RUN = "run-1"


@loom.step
async def work() -> str:
    return "done"


@loom.flow
async def one_step(ctx: loom.Context) -> str:
    return await ctx.run(work)


class HaltsAtTheEnd(SqliteStorage):
    """A store that holds the first closing write back until somebody lets it go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._closing, self._go = Path(f"{path}.closing"), Path(f"{path}.go")

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        if any(item.index.ended or item.lane_kinds for item in batch) and not self._closing.exists():
            self._closing.touch()
            while not self._go.exists():
                await asyncio.sleep(0.01)
        return await super().append(batch)


async def main(store: Path) -> None:
    app = loom.define_config(flows=[one_step], storage=HaltsAtTheEnd(store))
    async with app:
        outcome = await app.runtime.start(one_step, id=RUN)
    sys.stdout.write(f"{outcome.status} {outcome.value}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
