"""Flow control between processes on one SQLite file, one of which is killed."""

from __future__ import annotations

import asyncio
import random
import select
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

import loom
from loom.plugins.sqlite import SqliteStorage
from tests.driving import shipper
from tests.plugins.sqlite.processes import ROOT, finish

MODULE = shipper.__name__


def shipping(store: Path, name: str, count: int, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", MODULE, str(store), name, str(count), *more],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def effects(store: Path, sign: str) -> list[str]:
    """Return the runs whose step has begun (+), or ended (-), in order; once for each time."""
    lines = Path(f"{store}.effects").read_text(encoding="utf-8").splitlines()
    return [line[2:] for line in lines if line[0] == sign]


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
    assert sorted(effects(store, "-")) == [f"{name}-{number}" for name in ("one", "other") for number in range(5)]


@pytest.mark.parametrize("rounds", [pytest.param(8, id="sample"), pytest.param(60, id="all", marks=pytest.mark.slow)])
@pytest.mark.timeout(300)
def test_what_is_done_again_was_taken_over_in_between(tmp_path: Path, rounds: int, seed: int) -> None:
    """Two processes that stand still for longer than their lease, again and again: each step is done once for each who has its run."""
    rng, store, pause = random.Random(seed), tmp_path / "loom.db", threading.Event()
    both = [shipping(store, name, rounds, "0.3") for name in ("one", "other")]
    while both[0].poll() is None and both[1].poll() is None:
        pause.wait(rng.uniform(0, 0.1))
        stopped = rng.choice(both)
        stopped.send_signal(signal.SIGSTOP)
        pause.wait(rng.uniform(0, 0.6))
        stopped.send_signal(signal.SIGCONT)

    for process in both:
        finish(process)

    done = Counter(effects(store, "+"))
    assert len(done) == 2 * rounds
    again = {name: count for name, count in done.items() if count > 1}
    logs = asyncio.run(events_of(store, again))
    for name, count in again.items():
        assert count <= 1 + logs[name].count("EXECUTION_TAKEN_OVER"), (name, logs[name])


async def events_of(store: Path, names: Iterable[str]) -> dict[str, list[str]]:
    over = runtime(store)
    logs = {name: [event.type for event in await over.events(name)] for name in names}
    await over.close()
    return logs


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
