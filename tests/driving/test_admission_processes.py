"""Flow control between processes on one SQLite file, one of which is killed."""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
from pathlib import Path

import pytest

import loom
from loom.plugins.sqlite import SqliteStorage
from tests.driving import shipper
from tests.plugins.sqlite.processes import ROOT, finish

MODULE = shipper.__name__


def shipping(store: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", MODULE, str(store), name, str(count)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def most_at_once(store: Path) -> int:
    """Return how many steps were under way at once at most, by what they have done to the world."""
    under_way: set[str] = set()
    most = 0
    for line in Path(f"{store}.effects").read_text(encoding="utf-8").splitlines():
        sign, name = line.split()
        under_way.add(name) if sign == "+" else under_way.discard(name)
        most = max(most, len(under_way))
    return most


@pytest.mark.proves("BEY-15")
def test_two_processes_run_two_of_a_customer_at_once_and_all_in_the_end(tmp_path: Path) -> None:
    store = tmp_path / "loom.db"
    one, other = shipping(store, "one", 5), shipping(store, "other", 5)

    finish(one)
    finish(other)

    assert most_at_once(store) == 2
    lines = Path(f"{store}.effects").read_text(encoding="utf-8").splitlines()
    done = {
        line for line in lines if line[0] == "-"
    }  # a process that ends may leave a step of another's run to be done again
    assert done == {f"- {name}-{number}" for name in ("one", "other") for number in range(5)}


@pytest.mark.proves("BEY-15")
def test_a_killed_holder_keeps_its_place_until_it_was_recovered_and_has_ended(tmp_path: Path) -> None:
    store, held = tmp_path / "loom.db", tmp_path / "loom.db.held"
    held.touch()
    holder = shipping(store, "holder", 2)
    while not (effects := Path(f"{store}.effects")).exists() or effects.read_text(encoding="utf-8").count("+") < 2:
        assert holder.poll() is None, holder.communicate()
        select.select([], [], [], 0.02)
    holder.kill()
    holder.communicate()

    waits = asyncio.run(started(store, "late"))
    again = asyncio.run(resumed(store, "late"))
    held.unlink()
    first = asyncio.run(resumed(store, "holder-0"))
    after = asyncio.run(resumed(store, "late"))

    assert (waits.status, again.status) == ("suspended", "suspended")
    assert waits.reason == again.reason == "a place among 2 runs of customer c-1"
    assert (first.status, after.status) == ("completed", "completed")


def runtime(store: Path) -> loom.WorkflowRuntime:
    shipper.STORE = store
    return loom.define_config(flows=[shipper.ship], storage=SqliteStorage(store)).runtime


async def started(store: Path, name: str) -> loom.Outcome[None]:
    over = runtime(store)
    outcome = await over.start(shipper.ship, {"id": name, "customer": "c-1"}, id=name)
    await over.close()
    return outcome


async def resumed(store: Path, name: str) -> loom.Outcome[None]:
    over = runtime(store)
    outcome = await over.resume(name)
    await over.close()
    return outcome
