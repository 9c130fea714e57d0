"""Many processes on one store, stopped, continued and killed: each run ends once, and no effect that must not is done twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from loom.core.errors import ExecutionTerminated
from loom.driving.errors import AlreadyAnswered, NotInDoubt
from loom.spi.event_store import ExecutionQuery, ExecutionRow
from tests.crash import crew
from tests.crash.crew import Entry, app, entries
from tests.crash.nursery import ROOT
from tests.crash.places import Ground, Place

LEASE_S: Final = 0.4
PATIENCE_S: Final = 60
HELD_UP_S: Final = 3.0
"""After so long it is likely that the process was stopped while it held the file's own lock, which nobody can help."""

slow: Final = pytest.mark.slow


@pytest.fixture
def place(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Where the crew works; this process keeps the same ledger."""
    place = ground.place("crew")
    monkeypatch.setattr(crew, "FOLDER", place.folder)
    return place


def member(role: str, place: Place, **pipes: Any) -> subprocess.Popen[str]:
    """Return a process of the crew."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.crew", role, place.store, str(LEASE_S)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CREW_FOLDER": str(place.folder)},
        text=True,
        **pipes,
    )


@contextmanager
def workers(place: Place, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Have so many workers work in *place*, all of them ready."""
    hired = [member("work", place) for _ in range(count)]
    try:
        until(lambda: {each.pid for each in hired} <= {e.process for e in entries(place.folder) if e.did == "ready"})
        yield hired
    finally:
        for each in hired:
            each.kill()
            each.wait()


def until(true: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Return once *true* says so."""
    looks = threading.Event()
    deadline = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError
        looks.wait(0.01)


def begun(place: Place, run: str, step: str) -> list[Entry]:
    return [each for each in entries(place.folder) if each[:3] == ("begun", run, step)]


# Stopped for longer than its lease, and continued


@pytest.mark.proves("SUS-07", "RNG-15")
@pytest.mark.parametrize("rounds", [pytest.param(4, id="sample"), pytest.param(200, id="all", marks=slow)])
@pytest.mark.timeout(1800)
async def test_a_worker_that_is_stopped_past_its_lease_and_continued_does_nothing_more(
    rounds: int, ground: Ground, place: Place, seed: int
) -> None:
    """Field fault 36: the worker that was thought dead comes back and writes."""
    rng, rounds = random.Random(seed), ground.few(rounds)
    with workers(place, 2):
        async with app(place) as crew_:
            for number in range(rounds):
                stalls = rng.choice(["look", "charge"])
                run = f"run-{number}"
                await crew_.runtime.enqueue("pays", stalls, id=run)
                await _round(crew_, place, run, stalls)

    for number in range(rounds):
        ledger = Counter(each[:3] for each in entries(place.folder) if each.run == f"run-{number}")
        assert ledger["begun", f"run-{number}", "charge"] == 1
        assert ledger["done", f"run-{number}", "mail"] == 1


async def _round(crew_: Any, place: Place, run: str, stalls: str) -> None:
    """Stop who drives *run* inside a step, let the other end it, and let the first go on."""
    until(lambda: bool(begun(place, run, stalls)))
    first = begun(place, run, stalls)[0].process
    os.kill(first, signal.SIGSTOP)
    await _until_taken(crew_, run, first, in_doubt=stalls == "charge")
    if stalls == "charge":
        await crew_.runtime.resolve(run, "charge", "done", value="by hand")  # the other may be the one that goes on
        assert (await crew_.runtime.wait(run)).status == "completed"
    before = await crew_.runtime.events(run)
    (place.folder / f"{run}-go").touch()
    os.kill(first, signal.SIGCONT)
    until(lambda: Entry("fenced", run, "", first) in entries(place.folder))

    log = await crew_.runtime.events(run)
    assert log == before
    assert log[-1].type == "EXECUTION_COMPLETED"
    assert [event.type for event in log].count("EXECUTION_TAKEN_OVER") == 1


async def _until_taken(crew_: Any, run: str, first: int, *, in_doubt: bool) -> None:
    status = "in_doubt" if in_doubt else "completed"
    deadline = time.monotonic() + HELD_UP_S
    looks = threading.Event()
    for _ in range(round(PATIENCE_S / 0.05)):
        rows = await crew_.runtime.find(ExecutionQuery(statuses=[status], limit=1_000))
        if any(row.execution_id == run for row in rows):
            return
        if time.monotonic() > deadline:
            os.kill(first, signal.SIGCONT)
            looks.wait(0.05)
            os.kill(first, signal.SIGSTOP)
            deadline = time.monotonic() + HELD_UP_S
        looks.wait(0.05)
    raise TimeoutError(run)


# Two that answer at once


@pytest.mark.proves("SUS-06")
@pytest.mark.parametrize("rounds", [pytest.param(25, id="sample"), pytest.param(500, id="all", marks=slow)])
@pytest.mark.timeout(1800)
async def test_of_two_processes_that_answer_one_gate_at_once_one_wins_and_the_other_is_told(
    rounds: int, ground: Ground, place: Place
) -> None:
    rounds, pipes = ground.few(rounds), {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    pair = [member("resume", place, **pipes) for _ in range(2)]
    try:
        assert [_heard(each) for each in pair] == ["ready", "ready"]
        async with app(place) as crew_:
            for number in range(rounds):
                run = f"run-{number}"
                await crew_.runtime.start("asks", id=run)
                for name, each in zip("ab", pair, strict=True):
                    _say(each, {"id": run, "answer": name})
                told = dict(zip("ab", [json.loads(_heard(each)) for each in pair], strict=True))
                _one_won(await crew_.runtime.wait(run), told)
                log = [event.type for event in await crew_.runtime.events(run)]
                assert log.count("GATE_ANSWERED") == log.count("EXECUTION_RESUMED") == 1
    finally:
        for each in pair:
            each.communicate("", timeout=PATIENCE_S)

    assert Counter(each[:3] for each in entries(place.folder)) == {
        ("done", f"run-{number}", "mail"): 1 for number in range(rounds)
    }


def _one_won(outcome: Any, told: dict[str, Any]) -> None:
    winner, loser = told[outcome.value], told["b" if outcome.value == "a" else "a"]
    assert winner["status"] in ("completed", "accepted")
    assert loser["status"] in (AlreadyAnswered.code, ExecutionTerminated.code)


def _say(process: subprocess.Popen[str], order: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.flush()


def _heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


# Timers


@pytest.mark.proves("RNG-21")
@pytest.mark.parametrize("timers", [pytest.param(60, id="sample"), pytest.param(10_000, id="all", marks=slow)])
@pytest.mark.timeout(1800)
async def test_timers_fire_once_each_whoever_is_first(timers: int, ground: Ground, place: Place) -> None:
    timers = ground.few(timers)
    with workers(place, 2):
        async with app(place) as crew_:
            for number in range(timers):
                await crew_.runtime.start("rests", 0.5, id=f"run-{number}", linger_s=0)
            mails = PATIENCE_S + timers / 20
            until(lambda: sum(each.step == "mail" for each in entries(place.folder)) >= timers, mails)
            logs = [await crew_.runtime.wait(f"run-{number}") for number in range(timers)]
            fired = [
                sum(event.type == "TIMER_FIRED" for event in await crew_.runtime.events(f"run-{number}"))
                for number in range(timers)
            ]

    assert {outcome.status for outcome in logs} == {"completed"}
    assert fired == [1] * timers
    assert Counter(each.run for each in entries(place.folder) if each.step == "mail") == {
        f"run-{number}": 1 for number in range(timers)
    }


# Two workers, three that start runs, and kills


@pytest.mark.proves("SUS-06", "SUS-07")
@pytest.mark.parametrize(
    ("runs", "kills"), [pytest.param(30, 5, id="sample"), pytest.param(300, 80, id="all", marks=slow)]
)
@pytest.mark.timeout(1800)
async def test_everything_ends_once_though_processes_are_killed(
    runs: int, kills: int, ground: Ground, place: Place, seed: int
) -> None:
    rng, runs, kills = random.Random(seed), max(12, ground.few(runs)), max(3, ground.few(kills))
    orders = [{"flow": "pays", "input": "", "id": f"run-{number}"} for number in range(runs)]
    with workers(place, 2) as crew_:
        crew_ += [_starter(place, orders[number::3]) for number in range(3)]
        looks = threading.Event()
        for _ in range(kills):
            looks.wait(rng.uniform(0.05, 0.4))
            at = rng.randrange(len(crew_) + bool(place.power_cut))
            if at == len(crew_):  # it is the server's turn
                assert place.power_cut is not None
                place.power_cut.happen(wait=True)
                continue
            crew_[at].kill()
            crew_[at].wait()
            crew_[at] = member("work", place) if at < 2 else _starter(place, orders[at - 2 :: 3])
        async with app(place) as home:
            await _all_ended(home, place, runs)

    begun_ = Counter(each.run for each in entries(place.folder) if each[::2] == ("begun", "charge"))
    done = Counter(each.run for each in entries(place.folder) if each[::2] == ("done", "charge"))
    assert set(done.values()) == {1}
    assert set(begun_) == set(done) == {order["id"] for order in orders}


def _starter(place: Place, orders: list[dict[str, Any]]) -> subprocess.Popen[str]:
    process = member("start", place, stdin=subprocess.PIPE)
    for order in orders:
        _say(process, order)
    assert process.stdin is not None
    process.stdin.close()
    return process


async def _all_ended(home: Any, place: Place, runs: int) -> None:
    """Decide what is in doubt by what the ledger says, until every run has completed."""
    looks, rows = threading.Event(), list[ExecutionRow]()
    for _ in range(round(PATIENCE_S * 5 / 0.1)):
        rows = list(await home.runtime.find(ExecutionQuery(limit=10_000)))
        if len(rows) == runs and all(row.index.status == "completed" for row in rows):
            return
        for row in rows:
            if row.index.status == "in_doubt":
                paid = any(each[:3] == ("done", row.execution_id, "charge") for each in entries(place.folder))
                try:
                    await home.runtime.resolve(row.execution_id, "charge", "done" if paid else "retry", value="paid")
                except (AlreadyAnswered, NotInDoubt, ExecutionTerminated):
                    continue
        looks.wait(0.1)
    raise TimeoutError([(row.execution_id, row.index.status) for row in rows if row.index.status != "completed"])


def test_the_crew_has_all_its_roles() -> None:
    assert set(crew.ROLES) == {"work", "start", "resume"}
