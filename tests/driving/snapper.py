"""A process that climbs stairs with a snapshot every ten events, and dies by SIGKILL at one of them.

As a script: `snapper STORE MOMENT NUMBER`, the moment being before the snapshot is put, inside its transaction, or after it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from pathlib import Path

from loom.plugins.sqlite import SqliteStorage, snapshots
from loom.spi.snapshot_store import Snapshot
from tests.driving.long_runs import RUN, climber, stairs

STAIRS = 120
EVERY = 10


class Dying(SqliteStorage):
    """A store whose process dies at the *number*-th snapshot that it is given."""

    def __init__(self, path: Path, moment: str, number: int) -> None:
        super().__init__(path)
        self._moment, self._number, self._puts = moment, number, 0

    async def put_snapshot(self, snapshot: Snapshot) -> bool:
        self._puts += 1
        self._meet("before")
        kept = await self._transact(self._put, snapshot)
        self._meet("after")
        return kept

    def _put(self, raw: sqlite3.Connection, snapshot: Snapshot) -> bool:
        kept = snapshots.put(raw, snapshot)
        self._meet("inside")
        return kept

    def _meet(self, moment: str) -> None:
        if (moment, self._puts) == (self._moment, self._number):
            os.kill(os.getpid(), signal.SIGKILL)


async def main(store: Path, moment: str, number: int) -> None:
    over = climber(Dying(store, moment, number), snapshot_every=EVERY)
    await over.start(stairs, STAIRS, id=RUN)
    for answer in "abc":
        await over.resume(RUN, answer=answer)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
