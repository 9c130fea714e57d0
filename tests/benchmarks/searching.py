"""`loom ps --where` over 100,000 runs: the query itself, by an index and along all runs, on SQLite and on Postgres.

Nine of ten runs have completed. Each has a customer of its thousand, one of three tiers and an amount, and a row of a read model.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import orjson

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import INDEX, first
from loom.plugins.postgres import PostgresStorage
from loom.plugins.sqlite import SqliteStorage
from loom.spi.event_store import Append, Appended, ExecutionQuery, Storage
from loom.spi.read_model_store import ModelRow
from loom.spi.where_text import Columns, parse_where
from tests.benchmarks.postgres import running
from tests.benchmarks.report import Line, Target, plain
from tests.benchmarks.scale import Scale, folder

RUNS: Final = 100_000
BATCH: Final = 1_000
SEED: Final = 7
BEGAN_MS: Final = 1_700_000_000_000
STATUSES: Final = (("completed", 90), ("failed", 5), ("suspended", 3), ("running", 2))
INDEXED: Final = (
    'status=failed and attr.customer="c7"',
    "attr.customer=c7",
    "attr.tier=gold",
    "attr.amount > 9990",
    "status=failed and attr.tier=gold",
    "attr.tier=gold and attr.customer=c7",
    "attr.customer in (c1, c2, c3) and not status=completed",
    "flow=tax and started > 2023-11-15 and attr.tier != silver",
    "attr.customer=nobody",
)
"""What an index serves, by few, many and no runs."""

ALONG: Final = (
    "duration > 1d",
    "id ~ nobody",
    "not attr.tier in (gold, silver, bronze)",
    "status=completed and attr.amount < 0",
    'updated > 2030-01-01 or attr.customer ~ "nobody"',
)
"""What is true of no run, and is asked of every one."""

ROWS: Final = (
    "status=failed and cost > 1",
    "status=failed and cost > 100",
    "attr.customer=c7 and cost > 100",
    "cost = 7",
)
"""What is asked of the rows of a read model: where an index narrows, by many and no runs, and where nearly every run would do."""

_COLUMNS: Final = (Columns("totals", "1", frozenset({"cost"})),)
_ASKED: Final = ExecutionQuery(tips=True, limit=51)
"""As `loom ps` asks, by default."""


def searching(scale: Scale) -> Iterator[Line]:
    """The slowest of each set of conditions, each the median of the repetitions."""
    with folder() as at:
        asyncio.run(_filled(SqliteStorage(at / "runs.db"), scale.of(RUNS)))
        figures = asyncio.run(_slowest(SqliteStorage(at / "runs.db"), scale))
    yield from _lines("", figures)


def postgres_searching(scale: Scale) -> Iterator[Line]:
    with running() as server:
        dsn = asyncio.run(server.database())
        asyncio.run(_filled(PostgresStorage(dsn), scale.of(RUNS)))
        asyncio.run(server.execute("ANALYZE", dsn=dsn))  # as the server does by itself in a minute
        figures = asyncio.run(_slowest(PostgresStorage(dsn), scale))
    yield from _lines("postgres-", figures)


def _lines(prefix: str, figures: Sequence[float]) -> Iterator[Line]:
    target = Target(bound="at most", limit=50)
    for name, figure in zip(("ps-where", "ps-where-all", "ps-where-rows"), figures, strict=True):
        yield plain(f"{prefix}{name}", [figure], unit="ms", target=target)


async def _slowest(store: Storage, scale: Scale) -> Sequence[float]:
    figures = [[await _ms(store, text, scale.repeats) for text in texts] for texts in (INDEXED, ALONG, ROWS)]
    await store.close()
    return [max(each) for each in figures]


async def _ms(store: Storage, text: str, repeats: int) -> float:
    """Return how long one query takes, parsed and answered, in milliseconds."""
    took = []
    for _ in range(repeats):
        begun = time.perf_counter()
        query = replace(_ASKED, where=parse_where(text, now_ms=BEGAN_MS + RUNS * 1_000, columns=_COLUMNS))
        await store.find(query)
        took.append(time.perf_counter() - begun)
    return statistics.median(took) * 1000


async def _filled(store: SqliteStorage | PostgresStorage, count: int) -> None:
    chance = random.Random(SEED)
    for start in range(0, count, BATCH):
        batch = [_run(number, chance) for number in range(start, min(start + BATCH, count))]
        begun = [each.incarnation for each in await store.append(batch) if isinstance(each, Appended)]
        lives = zip(batch, begun, strict=True)
        rows = [ModelRow(item.execution_id, life, 0, b'{"cost":%d}' % (life % 100)) for item, life in lives]
        await store.put_model_rows("totals", "1", rows)
    await store.close()


def _run(number: int, chance: random.Random) -> Append:
    [status] = chance.choices([name for name, _ in STATUSES], [share for _, share in STATUSES])
    tiers = ("gold", "silver", "bronze")
    attributes = {
        "customer": f"c{chance.randrange(1000)}",
        "tier": chance.choice(tiers),
        "amount": chance.randrange(10_000),
    }
    at = BEGAN_MS + number * 1_000
    index = replace(
        INDEX,
        flow=chance.choice(("refund", "notify", "ship", "bill", "tax")),
        status=status,
        started_at=at,
        updated_at=at + chance.randrange(100_000),
        wake_at=at + 10_000 if status == "suspended" else None,
        ended=status in ("completed", "failed"),
        attributes=orjson.dumps(attributes).decode(),
    )
    return first(ExecutionId(f"run-{chance.getrandbits(60):x}"), index=index)
