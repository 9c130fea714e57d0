"""The worker: takes up what can go on in a store and drives it, as many runs at once as it may, until it is stopped.

A timer fires by its run being due: it is claimed, driven, and the driver records that the time has come. So timers, messages to
parked runs, runs that were enqueued, and runs whose driver was lost are one thing here: a claim. Nothing is kept in memory
of a run that is parked. A run that this process cannot drive is left as it is and tried again later, since another
process, or later code, may be able to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from loom.core.errors import LoomError
from loom.core.ids import ExecutionId
from loom.core.outcome import Outcome
from loom.kernel.errors import DriveInterrupted
from loom.services.piling import Piling
from loom.services.scheduling import Ticked
from loom.spi.clock import Clock, SystemClock
from loom.spi.conflicts import SequenceConflict
from loom.spi.errors import StoreError
from loom.spi.event_store import Claim, ExecutionRow
from loom.spi.scheduler import Job, Scheduler
from loom.spi.telling import tell

POLL_S: Final = 0.25
LINGER_S: Final = 1.0
"""So near may a wake be for a drive to keep its place and wait: what waits longer makes room for others."""
PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 300.0
"""What could not be driven is left alone for so long, doubled each time up to the greatest."""
REFUSED_MAX: Final = 10_000
CLOCK_EVERY_S: Final = 60.0
FAILING_EVERY_S: Final = 60.0
"""So often it is told of a store that is failing, while it fails of the same."""

SWEEP_EVERY_S: Final = 5.0
NEVER: Final = 1 << 62


class Work(Protocol):
    """Where runs come from and who drives them; see `loom.driving.claims.Claims`."""

    async def take(
        self, *, limit: int, flows: Sequence[str] | None = None, skip: Sequence[ExecutionId] = ()
    ) -> Sequence[Claim]: ...

    async def drive(self, claim: Claim, *, linger_s: float) -> Outcome[Any]: ...

    async def give_back(self, claim: Claim) -> None: ...

    async def agree_on_time(self) -> None: ...

    async def sweep(self) -> None: ...

    async def due(self, flow: str, most: int) -> int: ...

    async def unknown(self) -> Sequence[str]: ...

    def waking(self) -> AbstractContextManager[asyncio.Event]: ...


class KeepingCurrent(Protocol):
    """Read models: what lags is folded on, beside the drives; see `loom.services.read_models.Keeping`."""

    async def run(self, told: Callable[[LoomError], None]) -> None: ...

    async def finish(self, told: Callable[[LoomError], None], *, thoroughly: bool) -> None: ...


class Ticking(Protocol):
    """Schedules: what is due is started; see `loom.services.scheduling.Scheduling`."""

    async def tick(self) -> Ticked: ...


class Watching(Protocol):
    """Looks for what makes work, beside what is due; see `loom.services.gate_hooks.GateWatch`."""

    async def look(self) -> bool: ...


Did: TypeAlias = Literal[
    "took", "ended", "parked", "lost", "refused", "left", "failing", "recovered", "ticked", "crowded", "unknown"
]


class Report(NamedTuple):
    """Something that a worker did, with the run it is about, if one: *outcome* of a drive, *error* where there was one.

    `took` it up, it `ended` or was `parked`, was `lost` to another driver, `refused` since it cannot be driven here, or `left` in
    the middle, to be resumed; the store or a schedule is `failing`, or the store has `recovered`; a schedule has `ticked`; runs of a flow pile up, which is `crowded`; or
    runs wait whose flow is `unknown` here, told once.
    """

    did: Did
    execution_id: str = ""
    flow: str = ""
    claim: Claim | None = None
    outcome: Outcome[Any] | None = None
    error: LoomError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """*max_drives* at once, looking every *poll_s* seconds, of *flows*; *key_of* says on whose account a run is."""

    flows: Sequence[str]
    max_drives: int = 100
    poll_s: float = POLL_S
    linger_s: float = LINGER_S
    until_idle: bool = False
    key_of: Callable[[ExecutionRow], str] = lambda row: row.index.flow


@dataclass(slots=True)
class _Refusal:
    """A run that could not be driven, or has parked as it was: until when it is left alone, how often that was so, what was said."""

    until_s: float
    times: int = 1
    said: str = ""


@dataclass(slots=True)
class _Trouble:
    """What was last told of a store that is failing, and until when that says it."""

    said: str = ""
    until_s: float = 0.0

    def is_news(self, error: StoreError, now_s: float) -> bool:
        """Whether *error* is another than before, or the same for long enough to be told again."""
        if str(error) == self.said and now_s < self.until_s:
            return False
        self.said, self.until_s = str(error), now_s + FAILING_EVERY_S
        return True

    def is_over(self) -> bool:
        """Whether there was trouble that is over now; it is told once."""
        was, self.said = self.said, ""
        return bool(was)


@dataclass(slots=True)
class _Hands:
    """What the worker has at hand: claims that wait for a place, and the drives under way."""

    waiting: dict[str, Claim] = field(default_factory=dict)
    driving: dict[str, asyncio.Task[None]] = field(default_factory=dict)


class Worker:
    """Drives what *work* has. *scheduler* says who is next when there is more than there are places; *told* is told of all."""

    def __init__(
        self,
        work: Work,
        options: WorkerOptions,
        *,
        scheduler: Scheduler,
        told: Callable[[Report], None] = lambda report: None,
        ticking: Ticking | None = None,
        watching: Watching | None = None,
        clock: Clock | None = None,
        keeping: KeepingCurrent | None = None,
    ) -> None:
        self._work, self._options, self._scheduler, self._told = work, options, scheduler, partial(tell, told)
        self._ticking, self._clock, self._next_tick_at = ticking, clock or SystemClock(), 0
        self._watching = watching
        self._keeping = keeping
        self._hands = _Hands()
        self._refused: dict[ExecutionId, _Refusal] = {}
        self._is_stopping = self._is_crowded = False
        self._ended_lately = self._ahead = 0
        self._turn = 0
        self._clock_at_s = self._sweep_at_s = 0.0
        self._strange: set[str] = set()
        self._trouble = _Trouble()
        self._piling = Piling(work.due, options.flows)
        self._wake = asyncio.Event()

    @property
    def next_tick_at(self) -> int | None:
        """When schedules tick next, ms since the epoch; None: never."""
        return None if self._next_tick_at == NEVER else self._next_tick_at

    def stop(self) -> None:
        """Take up nothing more; `run` returns when what is driven has ended. Interrupt the drives to have that soon."""
        self._is_stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Work until `stop`, or with *until_idle* until nothing can go on and nothing is driven.

        Raises:
            asyncio.CancelledError: it was cancelled; every drive was, too, and what was held is given back.
        """
        with self._work.waking() as self._wake:
            keeping = self._kept()
            try:
                while not self._is_stopping:
                    found = await self._look()
                    if self._options.until_idle and not found and not self._hands.driving:
                        break
                    await self._rest()
                await self._give_back()
                await self._ended(self._hands.driving.values())
                await self._keep_once_more(keeping)
            finally:
                for task in [*keeping, *self._hands.driving.values()]:
                    task.cancel()
                await self._ended(keeping)
                await self._ended(self._hands.driving.values())
                await self._give_back()

    async def _ended(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        if waited := list(tasks):
            await asyncio.wait(waited)

    def _kept(self) -> list[asyncio.Task[None]]:
        """Have read models kept current from now on, by a task of its own, if there are any."""
        if self._keeping is None:
            return []
        work = self._keeping.run(self._tell_of_fault)
        return [asyncio.get_running_loop().create_task(work, name="loom-worker read models")]

    async def _keep_once_more(self, keeping: Sequence[asyncio.Task[None]]) -> None:
        """End the task that keeps read models current, and do what is left."""
        for task in keeping:
            task.cancel()
        await self._ended(keeping)
        for task in keeping:
            if not task.cancelled():
                task.result()  # it never ends by itself: what it raised is a fault of ours
        if self._keeping is not None:
            await self._keeping.finish(self._tell_of_fault, thoroughly=self._options.until_idle)

    def _tell_of_fault(self, fault: LoomError) -> None:
        self._told(Report("failing", str(getattr(fault, "execution_id", "")), error=fault))

    async def _give_back(self) -> None:
        for id_, claim in list(self._hands.waiting.items()):
            self._scheduler.cancel(id_)
            del self._hands.waiting[id_]
            await self._work.give_back(claim)

    # -- looking ---------------------------------------------------------------------------------------------------

    async def _rest(self) -> None:
        """Wait for the next look: until something is woken, a drive has ended that made room, or the time has come."""
        self._wake.clear()
        if self._is_stopping:
            return
        try:
            async with asyncio.timeout(self._options.poll_s):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _look(self) -> bool:
        """Tick what is due, and claim what there is room for; return whether anything was found."""
        try:
            await self._keep_time()
            is_news = self._watching is not None and await self._watching.look()
            claims = await self._claimed()
        except StoreError as error:
            if self._trouble.is_news(error, asyncio.get_running_loop().time()):
                self._told(Report("failing", error=error))
            return True
        if self._trouble.is_over():
            self._told(Report("recovered"))
        for claim in claims:
            self._take(claim)
        self._fill()
        return bool(claims) or is_news

    async def _keep_time(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._clock_at_s:
            self._clock_at_s = now_s + CLOCK_EVERY_S
            await self._work.agree_on_time()
            await self._tell_of_unknown()
        if now_s >= self._sweep_at_s:
            self._sweep_at_s = now_s + SWEEP_EVERY_S
            await self._work.sweep()
        for flow in await self._piling.grown() if self._is_crowded else ():
            self._told(Report("crowded", flow=flow))
        if self._ticking is not None and self._clock.now_ms() >= self._next_tick_at:
            ticked = await self._ticking.tick()
            self._next_tick_at = NEVER if ticked.next_at is None else ticked.next_at
            for error in ticked.faults.values():
                self._told(Report("failing", error=error))
            for started in ticked.started:
                self._told(Report("ticked", started))

    async def _tell_of_unknown(self) -> None:
        for flow in await self._work.unknown():
            if flow not in self._strange:
                self._strange.add(flow)
                self._told(Report("unknown", flow=flow))

    async def _claimed(self) -> list[Claim]:
        """Claim for the free places, and for those that will be free in a moment, if drives are that short.

        While there is more than room, each flow has its turn, so that none is starved.
        """
        options = self._options
        self._ahead = min(max(self._ahead // 2, self._ended_lately), options.max_drives)
        self._ended_lately = 0
        room = options.max_drives + self._ahead - len(self._hands.driving) - len(self._hands.waiting)
        if room <= 0 or not options.flows:
            return []
        skip = self._left_alone()
        claims: list[Claim] = []
        if self._is_crowded and len(options.flows) > 1:
            self._turn = (self._turn + 1) % len(options.flows)
            share = max(1, room // len(options.flows))
            for flow in [*options.flows[self._turn :], *options.flows[: self._turn]]:
                if (left := min(share, room - len(claims))) > 0:
                    claims += await self._work.take(limit=left, flows=[flow], skip=skip)
        if len(claims) < room:
            claims += await self._work.take(limit=room - len(claims), flows=options.flows, skip=skip)
        self._is_crowded = len(claims) == room
        return claims

    def _left_alone(self) -> list[ExecutionId]:
        """Return the runs whose pause is not over; forget those refused longest ago where there are too many."""
        now_s = asyncio.get_running_loop().time()
        while len(self._refused) > REFUSED_MAX:
            del self._refused[next(iter(self._refused))]
        return [run_id for run_id, refusal in self._refused.items() if refusal.until_s > now_s]

    # -- driving ---------------------------------------------------------------------------------------------------

    def _take(self, claim: Claim) -> None:
        id_ = claim.row.execution_id
        self._hands.waiting[id_] = claim
        self._scheduler.add(Job(id_, self._options.key_of(claim.row)))

    def _fill(self) -> None:
        """Give every free place to who is next."""
        while not self._is_stopping and len(self._hands.driving) < self._options.max_drives:
            job = self._scheduler.take()
            if job is None:
                return
            claim = self._hands.waiting.pop(job.id)
            drive = self._drive(claim)
            self._hands.driving[job.id] = asyncio.get_running_loop().create_task(drive, name=f"loom-worker {job.id}")

    async def _drive(self, claim: Claim) -> None:
        id_, flow = claim.row.execution_id, claim.row.index.flow
        report = Report("took", id_, flow, claim)
        self._told(report)
        try:
            outcome = await self._work.drive(claim, linger_s=self._options.linger_s)
        except SequenceConflict as error:
            self._told(report._replace(did="lost", error=error))
        except (DriveInterrupted, asyncio.CancelledError):
            self._told(report._replace(did="left"))
        except LoomError as error:
            self._refuse(id_, report, error)
        else:
            did: Did = "parked" if outcome.status in ("suspended", "in_doubt", "paused", "diverged") else "ended"
            if did == "parked" and outcome.length == claim.row.length and not claim.calls:
                self._leave_alone(id_, said="")
            else:
                self._refused.pop(id_, None)
            self._told(report._replace(did=did, outcome=outcome))
        finally:
            del self._hands.driving[id_]
            self._scheduler.done(id_)
            self._ended_lately += 1
            self._next()

    def _next(self) -> None:
        """A place is free: who waits here gets it, and if nobody does it is looked for more."""
        self._fill()
        if not self._hands.waiting and (self._is_crowded or self._options.until_idle or self._is_stopping):
            self._wake.set()

    def _refuse(self, id_: ExecutionId, report: Report, error: LoomError) -> None:
        """Leave a run alone for a while, and say why, once for each reason."""
        if self._leave_alone(id_, said=str(error)) != str(error):
            self._told(report._replace(did="refused", error=error))

    def _leave_alone(self, id_: ExecutionId, *, said: str) -> str | None:
        """Leave a run alone for longer than the last time, and return what was said then.

        What was driven, and has parked as it was, is left alone from the second time on: it was called by nobody, and is found again
        and again.
        """
        known = self._refused.pop(id_, None)
        times = known.times + 1 if known is not None else 1
        is_first = times == 1 and not said
        pause_s = 0.0 if is_first else min(PAUSE_S * 2 ** (times - 1), PAUSE_MAX_S)
        self._refused[id_] = _Refusal(asyncio.get_running_loop().time() + pause_s, times, said)
        return None if known is None else known.said
