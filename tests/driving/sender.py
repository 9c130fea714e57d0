"""A process of its own that sends messages: `sender.py FILE ID NAME COUNT`. It knows no flow, and prints `done`."""

from __future__ import annotations

import asyncio
import sys

import loom
from loom.driving.runtime import WorkflowRuntime


async def main(path: str, execution_id: str, name: str, count: str) -> None:
    runtime = WorkflowRuntime(loom.sqlite_storage(path), flows={})
    for number in range(int(count)):
        await runtime.send(execution_id, "news", [name, number], key=f"{name}-{number}", drive=False)
        await runtime.send(execution_id, "news", [name, number], key=f"{name}-{number}", drive=False)
    await runtime.close()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
