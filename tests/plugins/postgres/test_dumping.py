"""A dump that is taken under load, by the commands of the guide: it is of one moment, and goes on from there."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

import pytest

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import appended, first
from loom.plugins.postgres import PostgresStorage
from loom.spi.event_store import ExecutionQuery
from tests.copies import Logs, is_earlier, logs_of
from tests.plugins.postgres.server import Server
from tests.services import labourer
from tests.services.test_retention_beside_workers import Jobs, workers

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "backups.md"


def commands(**variables: str) -> list[list[str]]:
    """Return the commands of the guide for Postgres, as words, with *variables* in the place of their names."""
    lines = re.findall(r"^pg_\w+ .*$", GUIDE.read_text("utf-8"), re.MULTILINE)
    words = [shlex.split(line) for line in lines]
    return [
        [re.sub(r"\$(\w+)|^--file=", lambda found: _value(found, variables), word) for word in line] for line in words
    ]


def _value(found: re.Match[str], variables: dict[str, str]) -> str:
    return variables[found[1]] if found[1] else found[0]


async def logs_at(dsn: str) -> Logs:
    store = PostgresStorage(dsn)
    try:
        return await logs_of(store)
    finally:
        await store.close()


async def test_what_is_dumped_under_load_is_of_one_moment_and_goes_on_from_there(server: Server, bare: str) -> None:
    dsn = await server.emptied()
    [dump, restore] = commands(LOOM_STORE=dsn, RESTORED=bare)
    store = PostgresStorage(dsn)
    work = Jobs(store, dsn, at_hand=60)
    feeding = asyncio.create_task(work.feed())
    with workers(dsn) as complaints:
        await work.until(30)
        await asyncio.to_thread(server.run, *dump)
        await work.finish(feeding)

    await asyncio.to_thread(server.run, *restore)

    original, copy = await logs_at(dsn), await logs_at(bare)
    assert complaints == []
    assert 0 < sum(map(len, copy.values())) < sum(map(len, original.values()))
    assert is_earlier(copy, original)
    async with labourer.app_on(bare) as app:
        await app.worker(until_idle=True).run()
        while any(not row.index.ended for row in await app.storage.find(ExecutionQuery(limit=10_000))):
            await app.worker(until_idle=True, poll_s=0.05).run()  # what another held, once its lease is over
        gone_on = await logs_of(app.storage)
        lives = [row.incarnation for row in await app.storage.find(ExecutionQuery(limit=10_000))]
        again = await appended(app.storage, first(ExecutionId("new")))
    assert is_earlier(copy, gone_on)
    assert {log[-1].type for log in gone_on.values()} == {"EXECUTION_COMPLETED"}
    assert again.incarnation > max(lives)
    await store.close()


def test_the_guide_has_the_two_commands() -> None:
    assert [line[0] for line in commands(LOOM_STORE="a", RESTORED="b")] == ["pg_dump", "pg_restore"]


pytestmark = pytest.mark.timeout(120)
