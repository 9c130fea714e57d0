"""A retention pass that is killed, at any moment, leaves every run whole or gone (field fault 38)."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from loom.core.ids import ExecutionId
from loom.devtools.conformance.logs import appended, first, payloads
from loom.plugins.sqlite import SqliteStorage
from loom.services.retention import Retention
from tests.plugins.sqlite.processes import ROOT
from tests.retained import fill_families, whole
from tests.services import retainer

FAMILIES = 210
TRANSACTIONS = FAMILIES // retainer.FAMILIES_AT_ONCE


def killed(url: str, seed: int) -> int:
    """Have a pass made by a process that is killed at a moment of the *seed*'s; return how many families it said were gone."""
    chance = random.Random(seed)
    process = subprocess.Popen(
        [sys.executable, "-m", retainer.__name__, url],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(chance.randint(1, TRANSACTIONS))]
    time.sleep(chance.uniform(0, 0.01))  # somewhere in the transaction, or between two
    process.kill()
    rest, errors = process.communicate()
    assert not errors, errors
    return int([*said, *rest.splitlines()][-1].replace("open", "0"))


@pytest.mark.proves("CLI-17", "KER-15")
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 50))])
async def test_whatever_the_moment_every_run_is_whole_or_gone(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "loom.db"
    store = SqliteStorage(path)
    families = await fill_families(store, FAMILIES, seed)

    said = killed(str(path), seed)

    left = await whole(store, families)
    assert FAMILIES - len(left) >= said, f"seed {seed}"
    assert counts(path) == (
        sum(sum(families[name].values()) for name in left),
        sum(len(families[name]) for name in left),
    )
    tally = await Retention(store, ttl_ms=60_000).run()
    assert tally.families == len(left)
    assert counts(path) == (0, 0)
    again = await appended(store, first(ExecutionId("f-0000"), b"new"))
    assert again.incarnation > sum(len(family) for family in families.values())
    assert await payloads(store, ExecutionId("f-0000")) == [b"new"]
    await store.close()


def counts(path: Path) -> tuple[int, int]:
    """Return how many rows there are of events, and of runs."""
    with closing(sqlite3.connect(path)) as raw:
        [(events,)], [(runs,)] = (raw.execute(f"SELECT count(*) FROM {table}") for table in ("events", "executions"))
    return events, runs
