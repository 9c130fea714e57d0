"""A worker drives what can go on: each run once, in turn, and leaves what it cannot drive to others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.driving.admission import Admissions
from loom.driving.runtime import WorkflowRuntime
from loom.services import piling
from loom.services.worker import Report, Worker
from loom.spi.admission_store import VOID_AFTER_MS, Slots, Terms
from loom.spi.clock import VirtualClock
from loom.spi.event_store import ExecutionQuery
from loom.spi.host import VirtualHost
from loom.spi.memory import MemoryStorage
from tests.kernel.running import kinds, payloads

POLL_S = 0.01
DONE: Counter[str] = Counter()
GO: list[asyncio.Event] = []


@pytest.fixture(autouse=True)
def _afresh() -> None:
    GO[:] = [asyncio.Event()]  # an event belongs to the loop that waits for it first
    DONE.clear()


@loom.step
async def do(step: loom.StepContext) -> str:
    DONE[step.execution_id] += 1
    return step.execution_id


@loom.flow
async def quick(ctx: loom.Context) -> str:
    return await ctx.run(do)


@loom.flow
async def naps(ctx: loom.Context, seconds: float) -> str:
    await ctx.sleep(seconds)
    return await ctx.run(do)


@loom.flow
async def hangs(ctx: loom.Context) -> str:
    await ctx.run("hang", GO[0].wait)
    return await ctx.run(do)


@loom.flow
async def listens(ctx: loom.Context) -> Any:
    return await ctx.receive("news")


FLOWS = [quick, naps, hangs, listens]


class Place:
    """A store in memory with a clock of its own, and the apps that work on it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.storage = MemoryStorage(clock=self.clock)
        self._apps = 0

    def app(self, flows: list[Any] = FLOWS, **options: Any) -> loom.LoomApp:
        self._apps += 1
        wired: dict[str, Any] = {"clock": self.clock, "host": VirtualHost(f"app-{self._apps}"), "storage": self.storage}
        return loom.define_config(flows=flows, **(wired | options))

    async def status(self, run: str) -> str:
        row = await self.storage.row(ExecutionId(run))
        assert row is not None
        return row.index.status


@pytest.fixture
def place() -> Place:
    return Place()


def working(app: loom.LoomApp, **options: Any) -> AbstractAsyncContextManager[Worker]:
    """Have a worker of *app* run; a failure of its shows when the block ends."""

    @asynccontextmanager
    async def run() -> Any:
        worker = app.worker(poll_s=POLL_S, **options)
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            app.runtime.interrupt()
            await task

    return run()


async def until(true: Callable[[], Awaitable[bool] | bool]) -> None:
    async with asyncio.timeout(20):
        while True:
            found = true()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.002)


async def ended(runtime: WorkflowRuntime, run: str) -> loom.Outcome[Any]:
    async with asyncio.timeout(20):
        return await runtime.wait(run)


async def test_a_run_that_is_enqueued_is_driven_by_a_worker(place: Place) -> None:
    one, other = place.app(), place.app()

    accepted = await one.runtime.enqueue(quick, id="r", principal="ada", attributes={"team": "gold"})
    assert (accepted.status, accepted.driver, DONE["r"]) == ("accepted", "", 0)
    async with working(other):
        outcome = await ended(one.runtime, "r")

    assert (outcome.value, DONE["r"]) == ("r", 1)
    assert await kinds(one.runtime, "r") == [
        *("STARTED", "SUSPENDED", "RESUMED", "STEP_STARTED", "STEP_COMPLETED", "COMPLETED")
    ]
    state = await one.runtime.load_state("r")
    assert (state.facts.principal, state.facts.attributes) == ("ada", {"team": "gold"})


async def test_an_id_is_enqueued_once(place: Place) -> None:
    app = place.app()
    await app.runtime.enqueue("quick", id="r")

    with pytest.raises(loom.LoomError, match="exists already"):
        await app.runtime.enqueue("quick", id="r")
    with pytest.raises(TypeError, match="linger_s"):
        await app.runtime.enqueue("quick", id="s", linger_s=3)  # type: ignore[call-arg]


async def test_a_worker_of_the_same_process_is_woken_and_does_not_wait_for_its_next_look(place: Place) -> None:
    app = place.app()
    worker = app.worker(poll_s=60)
    task = asyncio.create_task(worker.run())
    await asyncio.sleep(0.02)

    await app.runtime.enqueue(quick, id="r")
    await ended(app.runtime, "r")

    worker.stop()
    await task


@pytest.mark.proves("RNG-21")
async def test_a_timer_fires_when_it_is_due_by_the_clock_of_the_store_and_no_earlier(place: Place) -> None:
    app = place.app()
    assert (await app.runtime.start(naps, 60, id="r")).status == "suspended"
    async with working(place.app()):
        await asyncio.sleep(10 * POLL_S)
        early = await place.status("r")
        place.clock.advance(60_000)
        await ended(app.runtime, "r")

    assert (early, DONE["r"]) == ("suspended", 1)


@pytest.mark.proves("RNG-21")
async def test_a_thousand_timers_and_two_workers_fire_a_thousand_times(place: Place) -> None:
    starter = place.app()
    runs = [f"r-{number}" for number in range(1_000)]
    for run in runs:
        await starter.runtime.start(naps, 60, id=run)
    place.clock.advance(60_000)

    async with working(place.app(), max_drives=30), working(place.app(), max_drives=30):
        await until(lambda: len(DONE) == len(runs))

    assert set(DONE.values()) == {1}
    fired = [await payloads(starter.runtime, "TIMER_FIRED", run) for run in runs[::50]]
    assert {len(each) for each in fired} == {1}


async def test_a_message_to_a_parked_run_that_its_sender_does_not_drive_is_taken_up(place: Place) -> None:
    app = place.app()
    await app.runtime.start(listens, id="r")

    async with working(place.app()):
        assert (await app.runtime.send("r", "news", 7, drive=False)).status == "accepted"
        assert (await ended(app.runtime, "r")).value == 7


@pytest.mark.proves("SUS-07")
async def test_a_run_whose_driver_is_gone_is_taken_over(place: Place) -> None:
    lost = place.app()
    driving = asyncio.create_task(lost.runtime.start(hangs, id="r"))
    await until(lambda: in_step(place))
    host = VirtualHost("finder")
    host.gone.add("app-1/1")
    finder, told = place.app(host=host), list[Report]()

    async with working(finder, told=told.append):
        await until(lambda: bool(told))
        GO[0].set()
        await ended(finder.runtime, "r")

    assert (told[0].did, told[0].claim and told[0].claim.found) == ("took", "gone")
    [took] = await payloads(finder.runtime, "EXECUTION_TAKEN_OVER", "r")
    assert (took.driver, took.found) == ("app-1/1", "gone")
    await asyncio.gather(driving, return_exceptions=True)
    assert DONE["r"] == 1


async def in_step(place: Place) -> bool:
    row = await place.storage.row(ExecutionId("r"))
    return row is not None and row.length >= 2 and bool(row.driver)  # nothing more is on its way to the log


@pytest.mark.proves("SUS-07")
async def test_a_lapsed_lease_is_the_only_thing_that_counts_where_nobody_is_known_to_be_gone(place: Place) -> None:
    lost = place.app()
    driving = asyncio.create_task(lost.runtime.start(hangs, id="r"))
    await until(lambda: in_step(place))
    finder, told = place.app(), list[Report]()

    async with working(finder, told=told.append):
        await asyncio.sleep(10 * POLL_S)
        assert told == []
        place.clock.advance(15_000)
        await until(lambda: bool(told))
        GO[0].set()
        await ended(finder.runtime, "r")

    assert told[0].claim
    assert told[0].claim.found == "lapsed"
    await asyncio.gather(driving, return_exceptions=True)


@pytest.mark.proves("SUS-11")
async def test_what_a_worker_cannot_drive_is_left_for_one_that_can(place: Place) -> None:
    app = place.app()
    await app.runtime.enqueue(quick, id="r")

    async with working(place.app([naps])):
        await asyncio.sleep(10 * POLL_S)
        assert await place.status("r") == "suspended"
        async with working(place.app()):
            await ended(app.runtime, "r")

    assert DONE["r"] == 1


def changed(ways: int) -> loom.Flow[Any, Any]:
    """Return a flow that asks differently than *quick* did, under its name."""

    @loom.flow(id="naps")
    async def naps(ctx: loom.Context, seconds: float) -> int:
        return await ctx.run("other", lambda: ways)

    return naps


@pytest.mark.proves("SUS-11")
async def test_a_run_that_diverges_under_the_code_of_a_worker_waits_for_the_code_that_fits(place: Place) -> None:
    app, told = place.app(), list[Report]()
    await app.runtime.start(naps, 60, id="r")
    place.clock.advance(60_000)

    async with working(place.app([changed(2)]), told=told.append):
        await until(lambda: any(report.did == "refused" for report in told))
        row = await place.storage.row(ExecutionId("r"))
        async with working(place.app()):
            await ended(app.runtime, "r")

    assert row is not None
    assert (row.index.status, row.index.wake_at is not None) == ("suspended", True)
    assert [report.error.code for report in told if report.error] == ["replay-divergence"]  # said once, not each time
    assert DONE["r"] == 1


async def test_what_cannot_be_driven_is_left_alone_for_a_while_and_keeps_nobody_waiting(place: Place) -> None:
    app, told = place.app(), list[Report]()
    for number in range(5):
        await app.runtime.start(naps, 60, id=f"bad-{number}")
    place.clock.advance(60_000)
    await app.runtime.enqueue(quick, id="good")

    async with working(place.app([changed(3), quick]), max_drives=1, told=told.append):
        await ended(app.runtime, "good")
        await asyncio.sleep(20 * POLL_S)

    tries = Counter(report.execution_id for report in told if report.did == "took")
    assert tries == {**{f"bad-{number}": 1 for number in range(5)}, "good": 1}


@pytest.mark.proves("CMP-11")
async def test_a_noisy_flow_does_not_starve_another(place: Place) -> None:
    app, order = place.app(), list[str]()
    for number in range(200):
        await app.runtime.enqueue(naps, 0, id=f"noisy-{number:03}")
    await app.runtime.enqueue(quick, id="quiet")

    async with working(
        place.app(), max_drives=2, told=lambda r: order.append(r.execution_id) if r.did == "took" else None
    ):
        await ended(app.runtime, "quiet")

    assert order.index("quiet") < 20


@pytest.mark.proves("CMP-10")
async def test_no_more_than_so_many_are_driven_at_once(place: Place) -> None:
    app, driven = place.app(), [0, 0]

    def told(report: Report) -> None:
        driven[0] += {"took": 1, "ended": -1}.get(report.did, 0)
        driven[1] = max(driven)

    for number in range(40):
        await app.runtime.enqueue(quick, id=f"r-{number}")
    async with working(place.app(), max_drives=3, told=told):
        await until(lambda: len(DONE) == 40)

    assert driven[1] == 3


@pytest.mark.proves("SUS-07")
async def test_a_worker_that_is_stopped_lets_go_of_what_it_drives_and_of_what_it_has_claimed(place: Place) -> None:
    app, told = place.app(), list[Report]()
    for number in range(3):
        await app.runtime.enqueue(hangs, id=f"r-{number}")
    async with working(place.app(grace_s=0.01), max_drives=2, told=told.append):
        await until(lambda: len(told) == 2)

    assert await place.storage.drivers() == ["app-2/1"]  # let go in the middle: to be taken over, at once
    rows = await place.storage.find(ExecutionQuery())
    assert sorted((row.index.status, row.driver, row.released) for row in rows) == [
        *[("running", "app-2/1", True)] * 2,
        ("suspended", "", False),
    ]
    GO[0].set()
    async with working(place.app()):
        await until(lambda: len(DONE) == 3)
    assert set(DONE.values()) == {1}


async def test_a_worker_until_idle_ends_when_nothing_is_due_and_nothing_runs(place: Place) -> None:
    app = place.app()
    for number in range(5):
        await app.runtime.enqueue(quick, id=f"r-{number}")
    await app.runtime.start(naps, 3_600, id="later")

    async with asyncio.timeout(20):
        await place.app().worker(until_idle=True, poll_s=POLL_S).run()

    assert len(DONE) == 5
    assert await place.status("later") == "suspended"


async def test_schedules_are_ticked_and_what_they_start_is_driven(place: Place) -> None:
    every_minute = loom.schedule("minutely", cron="* * * * *", tz="UTC", flow=quick)
    app = place.app(schedules=[every_minute])

    async with working(app):
        await asyncio.sleep(3 * POLL_S)
        for minute in range(1, 3):
            place.clock.advance(60_000)
            await until(partial(ticked, minute))

    assert set(DONE.values()) == {1}
    assert all(run.startswith("minutely-") for run in DONE)


async def test_it_holds_nothing_of_runs_that_are_parked(place: Place) -> None:
    app = place.app()
    for number in range(50):
        await app.runtime.enqueue(listens, id=f"r-{number}")
    worker_app = place.app()

    async with working(worker_app) as worker:
        await until(lambda: all_parked(place))
        await asyncio.sleep(3 * POLL_S)
        assert (worker._hands.waiting, worker._hands.driving, worker._refused) == ({}, {}, {})
        assert worker_app.runtime._driver.tenure.holds == {}
        assert worker_app.runtime._driver.drives == {}


async def all_parked(place: Place) -> bool:
    rows = await place.storage.find(ExecutionQuery(limit=1_000))
    return all(row.length > 2 and row.index.status == "suspended" for row in rows)


def ticked(minute: int) -> bool:
    return len(DONE) == minute


@pytest.mark.parametrize("wrong", [{"max_drives": 0}, {"poll_s": 0}, {"flows": ["nobody"]}, {"weights": {"quick": 0}}])
def test_options_that_mean_nothing_are_refused(place: Place, wrong: dict[str, Any]) -> None:
    with pytest.raises(loom.LoomError):
        place.app().worker(**wrong)
    with pytest.raises(TypeError, match="speed"):
        place.app().worker(speed=3)  # type: ignore[call-arg]


# -- lines, and what piles up --------------------------------------------------------------------------------------------


@loom.flow(starts=loom.Starts(concurrency=loom.Limit(2)))
async def narrow(ctx: loom.Context) -> str:
    return await ctx.run(do)


@loom.flow(starts=loom.Starts(rate=loom.Rate(1, per=timedelta(minutes=1))))
async def paced(ctx: loom.Context) -> str:
    return await ctx.run(do)


@pytest.mark.proves("BEY-15")
async def test_a_worker_lets_in_who_waits_in_line_until_all_have_run(place: Place) -> None:
    app = place.app([narrow])
    for number in range(9):
        await app.runtime.enqueue(narrow, id=f"n{number}")

    async with working(app):
        await until(lambda: len(DONE) == 9)

    assert set(DONE.values()) == {1}


@pytest.mark.proves("BEY-15")
async def test_a_worker_begins_each_at_its_turn(place: Place) -> None:
    app = place.app([paced])
    for number in range(3):
        await app.runtime.enqueue(paced, id=f"p{number}")

    async with working(app):
        await until(lambda: len(DONE) == 1)
        place.clock.advance(60_000)
        await until(lambda: len(DONE) == 2)
        place.clock.advance(60_000)
        await until(lambda: len(DONE) == 3)

    assert list(DONE) == ["p0", "p1", "p2"]


@pytest.mark.proves("BEY-15")
async def test_a_worker_gives_the_place_of_one_whose_process_was_killed_at_its_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = place.app([narrow])

    async def killed(*_: Any) -> Any:
        return ()

    with monkeypatch.context() as patched:
        patched.setattr(Admissions, "left", killed)
        for number in range(2):
            await app.runtime.start(narrow, id=f"n{number}")
    for number in range(2, 4):
        await place.storage.join_lines(ExecutionId(f"n{number}"), Terms(slots=Slots("narrow:slots", 2)), length=0)
    waits = await app.runtime.start(narrow, id="late")

    place.clock.advance(VOID_AFTER_MS)
    async with working(app):
        await until(lambda: DONE["late"] == 1)

    assert waits.status == "suspended"


@pytest.mark.proves("NOT-01")
async def test_runs_that_pile_up_are_told_of_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piling, "PILE", 20)
    monkeypatch.setattr(piling, "LOOKS_EVERY_S", 0.0)
    app, told = place.app([quick]), list[Report]()
    for number in range(60):
        await app.runtime.enqueue(quick, id=f"q{number}")

    async with working(app, max_drives=2, told=told.append):
        await until(lambda: len(DONE) == 60)

    assert [(report.did, report.flow) for report in told if report.did == "crowded"] == [("crowded", "quick")]
