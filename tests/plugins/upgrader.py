"""A process that opens a store, which brings it to the present schema: `python -m tests.plugins.upgrader STORE`.

It says a line before each statement of a migration, or each migration, that it runs, and `open` once it has the store.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

from loom.plugins.postgres import PostgresStorage
from loom.plugins.postgres import schema as postgres
from loom.plugins.postgres.migrating import Migration
from loom.plugins.sqlite import SqliteStorage
from loom.plugins.sqlite import schema as sqlite
from loom.plugins.sqlite.location import is_postgres

split, run = sqlite.statements, postgres._run


def said(what: object) -> None:
    print(what, flush=True)  # noqa: T201


def statements(script: str) -> Iterator[str]:
    for statement in split(script):
        said("statement")
        yield statement


async def announced(raw: Any, migration: Migration) -> None:
    said("statement")
    await run(raw, migration)
    said("statement")


async def main(url: str) -> None:
    sqlite.statements, postgres._run = statements, announced
    store = PostgresStorage(url) if is_postgres(url) else SqliteStorage(url)
    await store.open()
    said("open")
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
