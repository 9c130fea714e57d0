"""A process that folds the rows of a read model until it is killed: `python -m tests.services.modeller STORE`.

It says a line for each pass in which a row went forward.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import loom
from loom.plugins.sqlite.location import is_postgres
from tests.services.labourer import job


@loom.read_model
def heard(row: list[int] | None, event: loom.EventEnvelope[Any]) -> list[int]:
    """Every event of the run, by its number, in the order in which it was folded."""
    return [*(row or ()), event.sequence]


def app_on(url: str) -> loom.LoomApp:
    storage = loom.postgres_storage(url, connections=4) if is_postgres(url) else loom.sqlite_storage(url)
    return loom.define_config(flows=[job], read_models=[heard], storage=storage)


async def main(url: str) -> None:
    async with app_on(url) as app:
        while True:
            if (await app.read_models.catch_up()).advanced:
                print("folded", flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
