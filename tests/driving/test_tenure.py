"""A process keeps what it drives, knows how sure it can be of it, and stops when it is not its own any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

import loom
from loom.core.ids import ExecutionId
from loom.driving.loading import load
from loom.driving.runtime import WorkflowRuntime
from loom.kernel.errors import DriveInterrupted
from loom.spi.clock import VirtualClock
from loom.spi.conflicts import Fenced
from loom.spi.errors import StoreUnavailable
from loom.spi.event_store import Append, AppendResult
from loom.spi.host import VirtualHost
from loom.spi.memory import MemoryStorage
from tests.kernel.running import RUN, AppendsAreCounted, kinds, payloads, records, runtime

LEASE_S = 0.15


class Watched(AppendsAreCounted):
    """A store that notes what is asked of it as a `LeaseStore`, and fails renewals while it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.renewals: list[list[str]] = []
        self.left: list[str] = []
        self.is_broken = False

    async def renew(self, driver: str, executions: Sequence[ExecutionId], *, lease_ms: int) -> Sequence[ExecutionId]:
        self.renewals.append([*executions])
        if self.is_broken:
            raise StoreUnavailable("told to", store=self.url)
        return await super().renew(driver, executions, lease_ms=lease_ms)

    async def release(self, driver: str, executions: Sequence[ExecutionId]) -> None:
        self.left.extend(executions)
        await super().release(driver, executions)


class Held:
    """A flow whose first step hangs until it is let go, and whose second tells that it was done."""

    def __init__(self) -> None:
        self.begun, self.go, self.mailed = asyncio.Event(), asyncio.Event(), list[str]()

        async def hold() -> None:
            self.begun.set()
            await self.go.wait()

        @loom.flow
        async def held(ctx: loom.Context) -> int:
            await ctx.run("hold", hold)
            await ctx.run("mail", lambda: self.mailed.append("mail"))
            return len(self.mailed)

        self.flow = held


@pytest.fixture
async def held() -> AsyncIterator[Held]:
    held = Held()
    yield held
    held.go.set()


async def until(true: Callable[[], Awaitable[bool] | bool]) -> None:
    """Return once *true* says so."""
    async with asyncio.timeout(20):
        while True:
            found = true()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.005)


@pytest.mark.proves("SUS-08")
async def test_a_run_that_ends_in_one_drive_makes_no_transaction_for_its_lease() -> None:
    storage = Watched()

    @loom.flow
    async def short(ctx: loom.Context) -> int:
        return await ctx.run("one", lambda: 1)

    over = runtime(short, storage=storage)
    await over.start(short, id=RUN)

    assert (storage.renewals, storage.left) == ([], [])
    leases = [item.lease and item.lease.driver for batch in storage.batches for item in batch]
    assert leases[0]
    assert leases[-1] == ""
    assert leases[1:-1] == [None] * (len(leases) - 2)
    assert await storage.drivers() == []


@pytest.mark.proves("SUS-07")
async def test_what_is_driven_for_long_is_renewed_all_of_it_at_once(held: Held) -> None:
    storage = Watched()
    over = runtime(held.flow, storage=storage, lease_s=LEASE_S)
    running = [asyncio.create_task(over.start(held.flow, id=f"run-{n}")) for n in range(3)]

    await until(lambda: len(storage.renewals) >= 3)
    held.go.set()
    await asyncio.gather(*running)
    renewed = len(storage.renewals)

    assert sorted(storage.renewals[-1]) == ["run-0", "run-1", "run-2"]
    await asyncio.sleep(LEASE_S)
    assert len(storage.renewals) == renewed  # nothing is held, so nothing is kept up
    assert storage.left == []


@pytest.mark.proves("RNG-15", "SUS-07")
async def test_a_driver_that_learns_that_its_run_was_taken_does_nothing_more(held: Held) -> None:
    storage, there, here = Watched(), VirtualHost("there"), VirtualHost("here")
    one = runtime(held.flow, storage=storage, host=there, lease_s=LEASE_S)
    driving = asyncio.create_task(one.start(held.flow, id=RUN))
    await held.begun.wait()
    here.gone.add("there/1")
    other = runtime(held.flow, storage=storage, host=here)
    taking_over = asyncio.create_task(other.resume(RUN))
    await until(driving.done)

    with pytest.raises(Fenced, match="another driver took run-1 over"):
        await driving
    held.go.set()

    assert (await taking_over).value == 1
    assert storage.left == []


@pytest.mark.proves("SUS-07")
async def test_each_takeover_has_a_higher_token_though_who_took_the_run_died_at_once(held: Held) -> None:
    storage, hosts = Watched(), [VirtualHost(name) for name in ("a", "b", "c")]
    drivers = [runtime(held.flow, storage=storage, host=host) for host in hosts]
    driving = asyncio.create_task(drivers[0].start(held.flow, id=RUN))
    await held.begun.wait()
    for number, host in enumerate(hosts[1:], start=1):
        left = hosts[number - 1].name().partition("/")[0]
        host.gone.add(f"{left}/1")
        before = await records(storage)
        loaded = await load(storage, ExecutionId(RUN))
        await drivers[number]._driver.open()
        stands = drivers[number]._driver.standing(loaded.state.status, loaded.row)
        await drivers[number]._driver.take_over(loaded.state, loaded.row.incarnation, stands, None)
        assert len(await records(storage)) == len(before) + 1

    tokens = [fact.token for fact in await payloads(drivers[0], "EXECUTION_TAKEN_OVER")]
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 2


async def asleep_in_the_step(storage: MemoryStorage, held: Held, host: VirtualHost) -> asyncio.Task[Any]:
    """Return the drive of a run whose machine has slept for eleven seconds of a lease of fifteen."""
    over = runtime(held.flow, storage=storage, host=host)
    driving = asyncio.create_task(over.start(held.flow, id=RUN))
    await held.begun.wait()
    host.advance(11)
    return driving


@pytest.mark.proves("RNG-15")
async def test_past_two_thirds_of_its_lease_a_driver_renews_before_the_next_effect(held: Held) -> None:
    storage, host = Watched(), VirtualHost()
    driving = await asleep_in_the_step(storage, held, host)
    held.go.set()

    assert (await driving).value == 1
    assert storage.renewals == [[RUN]]


class SlowToStart(Watched):
    """A store that takes so long to say that a run is written that two thirds of its lease are over."""

    def __init__(self, host: VirtualHost) -> None:
        super().__init__()
        self.host = host

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        results = await super().append(batch)
        if any(event.type == "EXECUTION_STARTED" for item in batch for event in item.events):
            self.host.advance(11)
        return results


@pytest.mark.proves("RNG-15")
async def test_the_age_of_a_lease_counts_from_before_the_start_was_written() -> None:
    host = VirtualHost()
    storage, mailed = SlowToStart(host), list[int]()

    @loom.flow
    async def mails(ctx: loom.Context) -> None:
        await ctx.run("mail", lambda: mailed.append(len(storage.renewals)))

    await runtime(mails, storage=storage, host=host).start(mails, id=RUN)

    assert mailed == [1]


@pytest.mark.proves("RNG-15")
async def test_the_age_of_the_lease_of_a_next_link_counts_from_before_it_was_written() -> None:
    host = VirtualHost()
    storage, mailed = SlowToStart(host), list[int]()

    @loom.flow
    async def rolls(ctx: loom.Context, link: int) -> None:
        if link == 1:
            storage.host = VirtualHost()  # only the first is slow to start
            host.advance(11)
            await ctx.continue_as_new(2)
        await ctx.run("mail", lambda: mailed.append(len(storage.renewals)))

    await runtime(rolls, storage=storage, host=host).start(rolls, 1, id=RUN)

    assert mailed == [1]


@pytest.mark.proves("RNG-15")
async def test_an_effect_does_not_leave_while_the_lease_cannot_be_renewed(held: Held) -> None:
    storage, host = Watched(), VirtualHost()
    storage.is_broken = True
    driving = await asleep_in_the_step(storage, held, host)
    held.go.set()

    with pytest.raises(StoreUnavailable):
        await driving

    assert held.mailed == []
    assert storage.left == [RUN]


@pytest.mark.proves("RNG-15")
async def test_an_effect_does_not_leave_once_the_run_was_claimed_by_another(held: Held) -> None:
    clock = VirtualClock()
    storage, host = MemoryStorage(clock=clock), VirtualHost()
    driving = await asleep_in_the_step(storage, held, host)
    clock.advance(15_000)
    [claim] = await storage.claim("another", lease_ms=1_000, limit=1)
    held.go.set()

    with pytest.raises(Fenced):
        await driving

    assert (claim.found, claim.taken_from, held.mailed) == ("lapsed", "virtual/1", [])
    row = await storage.row(ExecutionId(RUN))
    assert row is not None
    assert row.driver == "another"


@pytest.mark.proves("SUS-06")
@pytest.mark.parametrize("write_behind", [True, False])
async def test_no_effect_leaves_before_it_is_on_disk_who_resumed_the_run(write_behind: bool) -> None:
    storage = AppendsAreCounted()
    seen: list[int] = []

    @loom.step(reads=True)
    async def look() -> None:
        row = await storage.row(ExecutionId(RUN))
        assert row is not None
        seen.append(row.length)

    @loom.flow
    async def flow(ctx: loom.Context) -> None:
        await ctx.suspend("go", expects=bool)
        await ctx.run(look)

    await runtime(flow, storage=storage).start(flow, id=RUN)
    parked = await storage.row(ExecutionId(RUN))
    over = runtime(flow, storage=storage, write_behind=write_behind)
    await over.resume(RUN, answer=True)

    assert parked is not None
    assert seen[0] > parked.length
    assert (await kinds(over)).index("RESUMED") < seen[0]


@pytest.mark.proves("SUS-06")
async def test_a_run_that_is_driven_elsewhere_is_told_to_be_with_the_name_of_its_driver(held: Held) -> None:
    storage = MemoryStorage()
    one = runtime(held.flow, storage=storage, host=VirtualHost("there"))
    driving = asyncio.create_task(one.start(held.flow, id=RUN))
    await held.begun.wait()

    outcome = await runtime(held.flow, storage=storage, host=VirtualHost("here")).resume(RUN)

    assert (outcome.status, outcome.driver) == ("accepted", "there/1")
    held.go.set()
    assert (await driving).value == 1
    assert "RESUMED" not in await kinds(one)


@loom.flow
async def asks(ctx: loom.Context, held: str) -> Any:
    return await ctx.parallel(lambda ctx: ctx.suspend("number", expects=int), lambda ctx: ctx.run("wait", GO.wait))


GO = asyncio.Event()


@pytest.mark.proves("SUS-06")
async def test_an_answer_to_a_run_that_is_driven_elsewhere_is_checked_and_goes_to_its_driver() -> None:
    GO.clear()
    storage = MemoryStorage()
    one = runtime(asks, storage=storage, host=VirtualHost("there"))
    driving = asyncio.create_task(one.start(asks, "x", id=RUN))
    await until(lambda: in_log(one, "STEP_STARTED"))
    elsewhere = runtime(asks, storage=storage, host=VirtualHost("here"))

    with pytest.raises(loom.LoomError, match="integer"):
        await elsewhere.resume(RUN, answer="many")
    accepted = await elsewhere.resume(RUN, answer=7)
    with pytest.raises(loom.LoomError, match="already answered"):
        await elsewhere.resume(RUN, answer=8)
    await until(lambda: in_log(one, "GATE_ANSWERED"))
    GO.set()

    assert (accepted.status, accepted.driver) == ("accepted", "there/1")
    assert (await driving).value == (7, True)


async def in_log(over: WorkflowRuntime, kind: str) -> bool:
    return await over.storage.row(ExecutionId(RUN)) is not None and kind in await kinds(over)


@pytest.mark.proves("SUS-07")
async def test_a_run_that_was_interrupted_is_let_go_and_counts_as_no_crash(held: Held) -> None:
    storage = Watched()
    one = runtime(held.flow, storage=storage, host=VirtualHost("there"), grace_s=0.01)
    driving = asyncio.create_task(one.start(held.flow, id=RUN))
    await held.begun.wait()
    one.interrupt()
    with pytest.raises(DriveInterrupted):
        await driving
    held.go.set()

    outcome = await runtime(held.flow, storage=storage, host=VirtualHost("here")).resume(RUN)

    assert outcome.value == 1
    [took] = await payloads(one, "EXECUTION_TAKEN_OVER")
    assert (took.driver, took.found) == ("there/1", "released")
    assert (await one.load_state(RUN)).facts.recoveries == 0
    assert storage.left == [RUN]


async def test_of_two_runtimes_that_resume_at_once_one_drives_and_the_other_is_told() -> None:
    storage, ran = MemoryStorage(), list[int]()

    @loom.flow
    async def sleeps(ctx: loom.Context) -> int:
        await ctx.sleep(60)
        await ctx.run("once", lambda: ran.append(1))
        return len(ran)

    clock = VirtualClock()
    first = runtime(sleeps, storage=storage, clock=clock)
    assert (await first.start(sleeps, id=RUN)).status == "suspended"
    clock.advance(60_000)

    outcomes = await asyncio.gather(*(runtime(sleeps, storage=storage, clock=clock).resume(RUN) for _ in range(5)))

    assert sorted(each.status for each in outcomes) == ["accepted"] * 4 + ["completed"]
    assert ran == [1]


class SlowToAppend(MemoryStorage):
    """A store whose appends wait until they may."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.may = asyncio.Event(), asyncio.Event()

    async def append(self, batch: Sequence[Append]) -> Sequence[AppendResult]:
        results = await super().append(batch)
        self.reached.set()
        await self.may.wait()
        return results


async def test_a_start_that_is_cancelled_while_it_is_written_lets_go_of_the_run(held: Held) -> None:
    storage = SlowToAppend()
    starting = asyncio.create_task(runtime(held.flow, storage=storage).start(held.flow, id=RUN))
    await storage.reached.wait()
    starting.cancel()
    await asyncio.sleep(0)
    storage.may.set()

    with pytest.raises(asyncio.CancelledError):
        await starting

    row = await storage.row(ExecutionId(RUN))
    assert row is not None
    assert (row.index.status, row.released) == ("running", True)
    held.go.set()
    assert (await runtime(held.flow, storage=storage).resume(RUN)).status == "completed"


async def test_a_verb_that_comes_while_a_start_is_written_waits_for_its_drive(held: Held) -> None:
    storage = SlowToAppend()
    over = runtime(held.flow, storage=storage)
    starting = asyncio.create_task(over.start(held.flow, id=RUN))
    await storage.reached.wait()
    resuming = asyncio.create_task(over.resume(RUN))
    await asyncio.sleep(0)
    storage.may.set()
    await held.begun.wait()
    held.go.set()

    assert (await resuming).status == "accepted"
    assert (await starting).value == 1
    assert "TAKEN_OVER" not in await kinds(over)


async def test_the_write_that_resumes_a_run_takes_it_and_nothing_is_renewed_for_its_first_step() -> None:
    storage = Watched()

    @loom.flow
    async def asks(ctx: loom.Context) -> str:
        answer: str = await ctx.suspend("go", expects=str)
        return await ctx.run("after", lambda: answer)

    over = runtime(asks, storage=storage)
    await over.start(asks, id=RUN)
    outcome = await over.resume(RUN, answer="yes")

    assert (outcome.value, storage.renewals) == ("yes", [])
