"""A process of its own that claims what is due, a few at a time: `claimer.py FILE DRIVER`.

It says `ready`, waits for a line, and prints the id of each execution it is given until there is none.
"""

from __future__ import annotations

import asyncio
import sys

from loom.plugins.sqlite import SqliteStorage


async def main(path: str, driver: str) -> None:
    asyncio.get_running_loop().slow_callback_duration = 10  # a busy machine is no fault of the store
    store = SqliteStorage(path, busy_timeout_s=30)
    await store.open()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    while claims := await store.claim(driver, lease_ms=600_000, limit=5):
        sys.stdout.writelines(f"{claim.row.execution_id}\n" for claim in claims)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
